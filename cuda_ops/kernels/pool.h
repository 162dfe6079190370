/* A few threads that share one loop. Work is cut into chunks that threads take one by one, so a slow core does not hold
 * the others up. Waiting threads spin for a moment (a decode step calls every 100 microseconds), then sleep. */
#ifndef TOKENLEAP_POOL_H
#define TOKENLEAP_POOL_H

typedef void (*pool_work)(const void *job, long begin, long end);

/* Runs work(job, b, e) over [0, total) in chunks of `grain`; returns when all is done. Runs alone when the pool is busy. */
void pool_run(pool_work work, const void *job, long total, long grain);

/* How many threads share the work from now on, the caller's own included (1 to 64). */
void tl_set_threads(int count);
int tl_get_threads(void);

#endif
