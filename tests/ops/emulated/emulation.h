/* The part of CUDA that the sources use, on a CPU: a block's threads are fibers that run until they meet; warps meet in
 * shuffles and mma, blocks in barriers. Shared memory notes who touched each word since the last barrier: two threads, one
 * of them writing, is a race. The first fault is kept in emu::fault. */
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
struct float4 { float x, y, z, w; };
struct char4 { signed char x, y, z, w; };
struct dim3 { unsigned x, y, z; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline char4 make_char4(int x, int y, int z, int w) {
  return {(signed char)x, (signed char)y, (signed char)z, (signed char)w};
}
inline float __int_as_float(int bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline int __float2int_rn(float x) { return (int)rintf(x); }

namespace emu {
enum State { RUNS, WARP_WAITS, BLOCK_WAITS, ENDED };
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  State state;
  dim3 thread;
  unsigned deposit[3];
};
inline std::vector<Fiber> fibers;
inline ucontext_t home;
inline Fiber *self;
inline dim3 block;
inline long epoch;
inline std::string fault;
inline void fail(const std::string &words) { if (fault.empty()) fault = words; }
inline int index() { return (int)self->thread.x; }
inline void wait(State state) {
  self->state = state;
  swapcontext(&self->context, &home);
}
inline Fiber &lane(int l) { return fibers[index() / 32 * 32 + l]; }

template <typename T> struct Word {
  T value;
  long write_epoch = -1, read_epoch = -1;
  int writer = -1, reader = -1;
  bool many = false;
};
template <typename T> struct Ref {
  Word<T> &word;
  operator T() const {
    if (word.write_epoch == epoch && word.writer != index()) fail("race: a word read and written between barriers");
    if (word.read_epoch != epoch) word.many = false, word.reader = index();
    else if (word.reader != index()) word.many = true;
    word.read_epoch = epoch;
    return word.value;
  }
  Ref &operator=(T value) {
    const bool other = word.read_epoch == epoch && (word.many || word.reader != index());
    if (other || (word.write_epoch == epoch && word.writer != index())) fail("race: a word written by one of two threads");
    word.write_epoch = epoch, word.writer = index(), word.value = value;
    return *this;
  }
  Ref &operator=(const Ref &from) { return *this = (T)from; }
  Ref &operator+=(T value) { return *this = (T) * this + value; }
};
template <typename T> struct Handle {
  Word<T> *words;
  int count;
  Ref<T> operator[](int i) const {
    if (i < 0 || i >= count) fail("shared memory: index out of range"), i = 0;
    return {words[i]};
  }
};
template <typename T> T nobody() { return std::is_same<T, float>::value ? (T)NAN : (T)-123456789; }
/* memory that nobody has written holds NaN or a large negative number */
template <typename T, int N> struct Memory {
  std::vector<Word<T>> words;
  dim3 owner{~0u, 0, 0};
  Handle<T> of_block() {
    if (words.empty() || memcmp(&owner, &block, sizeof block)) words.assign(N, Word<T>{nobody<T>()}), owner = block;
    return {words.data(), N};
  }
};

inline void (*body)(void *);
inline void *job;
inline void enter() {
  body(job);
  self->state = ENDED;
  swapcontext(&self->context, &home);
}
template <typename F> const char *run(F f, dim3 grid, int threads, bool backwards) {
  job = &f, body = [](void *p) { (*(F *)p)(); };
  fault.clear();
  fibers.resize(threads);
  for (unsigned y = 0; y < grid.y; y++)
    for (unsigned x = 0; x < grid.x; x++) {
      block = {x, y, 0};
      epoch++;
      for (int i = 0; i < threads; i++) {
        Fiber &each = fibers[i];
        each.stack.resize(32768);
        getcontext(&each.context);
        each.context.uc_stack.ss_sp = each.stack.data(), each.context.uc_stack.ss_size = each.stack.size();
        each.context.uc_link = nullptr, each.state = RUNS, each.thread = {(unsigned)i, 0, 0};
        makecontext(&each.context, enter, 0);
      }
      for (;;) {
        bool ran = false;
        int waiting = 0, ended = 0;
        for (int n = 0; n < threads; n++) {
          self = &fibers[backwards ? threads - 1 - n : n];
          if (self->state == RUNS) ran = true, swapcontext(&home, &self->context);
        }
        for (int w = 0; w < threads; w += 32) {
          int there = 0;
          for (int l = w; l < w + 32; l++) there += fibers[l].state == WARP_WAITS;
          if (there == 32) for (int l = w; l < w + 32; l++) fibers[l].state = RUNS, ran = true;
        }
        for (Fiber &each : fibers) waiting += each.state == BLOCK_WAITS, ended += each.state == ENDED;
        if (ended == threads) break;
        if (waiting && waiting + ended == threads) {
          if (ended) fail("a barrier that some threads never reach");
          epoch++;
          for (Fiber &each : fibers) if (each.state == BLOCK_WAITS) each.state = RUNS;
        } else if (!ran) {
          fail("threads wait for each other without end");
          return fault.c_str();
        }
      }
    }
  return fault.empty() ? nullptr : fault.c_str();
}
template <typename... A, size_t... I>
const char *call(void (*f)(A...), void **a, dim3 grid, int threads, bool backwards, std::index_sequence<I...>) {
  return run([=] { f(*(A *)a[I]...); }, grid, threads, backwards);
}
template <typename... A> const char *launch(void (*f)(A...), void **a, dim3 grid, int threads, bool backwards) {
  return call(f, a, grid, threads, backwards, std::index_sequence_for<A...>{});
}
}  // namespace emu

#define threadIdx (emu::self->thread)
#define blockIdx (emu::block)
inline void __syncthreads() { emu::wait(emu::BLOCK_WAITS); }
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  memcpy(emu::self->deposit, &value, 4);
  emu::wait(emu::WARP_WAITS);
  memcpy(&value, emu::lane((emu::index() % 32) ^ mask).deposit, 4);
  emu::wait(emu::WARP_WAITS);
  return value;
}

#define KERNEL(threads) extern "C" void
#define DEVICE static inline
#define SHARED(type, name, count) \
  static emu::Memory<type, count> name##_memory; \
  Shared<type> name = name##_memory.of_block()
template <typename T> using Shared = emu::Handle<T>;

static inline void mma_16x8x16(int c[4], unsigned a0, unsigned a1, unsigned b) {
  const int l = emu::index() % 32;
  emu::self->deposit[0] = a0, emu::self->deposit[1] = a1, emu::self->deposit[2] = b;
  emu::wait(emu::WARP_WAITS);
  for (int i = 0; i < 4; i++)
    for (int t = 0; t < 4; t++) {
      signed char left[4], right[4];
      memcpy(left, &emu::lane(l / 4 * 4 + t).deposit[i / 2], 4);
      memcpy(right, &emu::lane((l % 4 * 2 + i % 2) * 4 + t).deposit[2], 4);
      for (int byte = 0; byte < 4; byte++) c[i] += left[byte] * right[byte];
    }
  emu::wait(emu::WARP_WAITS);
}
