/* Which drafted tokens stand, and the cache without the others; no host in between. */
#include "device.cuh"

enum { THREADS = 256 };

/* choices[row] = the best token of each row of scores [rows, vocabulary], of equals the lowest. Grid (rows). */
KERNEL(THREADS) best_tokens(const float *scores, int *choices, int vocabulary) {
  SHARED(float, best, THREADS);
  SHARED(int, token, THREADS);
  const float *row = scores + (long long)blockIdx.x * vocabulary;
  const int i = threadIdx.x;
  int found = i < vocabulary ? i : 0;
  float most = row[found];
  for (int at = i + THREADS; at < vocabulary; at += THREADS)
    if (row[at] > most) most = row[at], found = at;
  best[i] = most, token[i] = found;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) {
      const float mine = best[i], other = best[i + half];
      const int my_token = token[i], its_token = token[i + half];
      if (other > mine || (other == mine && its_token < my_token)) best[i] = other, token[i] = its_token;
    }
  }
  if (i == 0) choices[blockIdx.x] = token[0];
}

/* reference.walk by one thread: kept and tokens [rows], filled up with -1. */
KERNEL(WARP) walk(const int *choices, const int *ids, const int *parents, int *kept, int *tokens, int rows) {
  if (threadIdx.x) return;
  int count = 1, row = 0;
  kept[0] = 0, tokens[0] = choices[0];
  for (int r = 1; r < rows; r++)
    if (parents[r] == row && ids[r] == tokens[count - 1]) row = r, kept[count] = r, tokens[count++] = choices[r];
  for (; count < rows; count++) kept[count] = tokens[count] = -1;
}

/* Moves slots base + rows[i] to base + i until a -1: rows ascend, so nothing is overwritten before it is read. A thread has
 * one number of a slot to itself. Grid (layers * kv_heads); threads: dim. lanes: slots of a block of keys. */
KERNEL(THREADS) cache_compact(float *keys, float *values, const int *rows, int count, int base, int dim, int capacity,
                              int lanes) {
  const long long at = (long long)blockIdx.x * capacity * dim;
  const int d = threadIdx.x;
  for (int i = 0; i < count && rows[i] >= 0; i++) {
    const int to = base + i, from = base + rows[i];
    values[at + (long long)to * dim + d] = values[at + (long long)from * dim + d];
    keys[at + ((long long)(to / lanes) * dim + d) * lanes + to % lanes] =
        keys[at + ((long long)(from / lanes) * dim + d) * lanes + from % lanes];
  }
}
