/* Pool of threads, see pool.h. One 64-bit ticket holds (generation, chunks, next chunk), so a thread that takes a chunk
 * knows that it belongs to the running job: the job cannot end before that chunk has been counted as done. */
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define RELAX() _mm_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

enum { MOST_THREADS = 64, SPINS = 4000, MOST_CHUNKS = 65535 };

static struct {
  _Atomic uint64_t ticket; /* generation 32 | chunks 16 | next 16 */
  _Atomic long done;
  _Atomic int sleepers, wanted, started;
  pool_work work;
  const void *job;
  long total, grain;
  pthread_mutex_t owner, sleep_lock;
  pthread_cond_t wake;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER,
          .sleep_lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .wanted = 1};

/* Takes one chunk of the running job and does it; 0 when none is left. */
static int take(void) {
  uint64_t t = atomic_load_explicit(&pool.ticket, memory_order_acquire);
  for (;;) {
    const uint64_t chunks = (t >> 16) & 0xffff, next = t & 0xffff;
    if (next >= chunks) return 0;
    if (atomic_compare_exchange_weak_explicit(&pool.ticket, &t, t + 1, memory_order_acq_rel, memory_order_acquire)) {
      const long begin = (long)next * pool.grain;
      const long end = begin + pool.grain < pool.total ? begin + pool.grain : pool.total;
      pool.work(pool.job, begin, end);
      atomic_fetch_add_explicit(&pool.done, 1, memory_order_acq_rel);
      return 1;
    }
  }
}

static void *worker(void *index) {
  const int me = (int)(intptr_t)index;
  for (;;) {
    int spins = 0;
    while (me >= atomic_load_explicit(&pool.wanted, memory_order_relaxed) || !take()) {
      if (++spins < SPINS) {
        RELAX();
        continue;
      }
      spins = 0;
      pthread_mutex_lock(&pool.sleep_lock);
      atomic_fetch_add(&pool.sleepers, 1);
      const uint64_t t = atomic_load(&pool.ticket);
      if ((t & 0xffff) >= ((t >> 16) & 0xffff) || me >= atomic_load(&pool.wanted))
        pthread_cond_wait(&pool.wake, &pool.sleep_lock);
      atomic_fetch_sub(&pool.sleepers, 1);
      pthread_mutex_unlock(&pool.sleep_lock);
    }
  }
  return 0;
}

void tl_set_threads(int count) {
  if (count < 1) count = 1;
  if (count > MOST_THREADS) count = MOST_THREADS;
  pthread_mutex_lock(&pool.owner);
  for (int i = atomic_load(&pool.started) + 1; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, worker, (void *)(intptr_t)i)) break;
    pthread_detach(thread);
    atomic_store(&pool.started, i);
  }
  atomic_store(&pool.wanted, count < atomic_load(&pool.started) + 1 ? count : atomic_load(&pool.started) + 1);
  pthread_mutex_unlock(&pool.owner);
}

int tl_get_threads(void) { return atomic_load(&pool.wanted); }

void pool_run(pool_work work, const void *job, long total, long grain) {
  if (total <= 0) return;
  if (grain < 1) grain = 1;
  if ((total + grain - 1) / grain > MOST_CHUNKS) grain = (total + MOST_CHUNKS - 1) / MOST_CHUNKS;
  const long chunks = (total + grain - 1) / grain;
  if (chunks == 1 || atomic_load_explicit(&pool.wanted, memory_order_relaxed) == 1 || pthread_mutex_trylock(&pool.owner)) {
    work(job, 0, total);
    return;
  }
  pool.work = work;
  pool.job = job;
  pool.total = total;
  pool.grain = grain;
  atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
  const uint64_t generation = (atomic_load_explicit(&pool.ticket, memory_order_relaxed) >> 32) + 1;
  atomic_store(&pool.ticket, (generation << 32) | ((uint64_t)chunks << 16));
  if (atomic_load(&pool.sleepers)) {
    pthread_mutex_lock(&pool.sleep_lock);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.sleep_lock);
  }
  while (take()) {
  }
  while (atomic_load_explicit(&pool.done, memory_order_acquire) < chunks) RELAX();
  pthread_mutex_unlock(&pool.owner);
}
