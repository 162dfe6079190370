/* What the CUDA sources share. A row's result depends on that row alone: sums have one order whatever stands beside it. */
#pragma once

typedef signed char int8;

enum { GROUP = 16, BLOCK = 128, WARP = 32 };

#ifdef TOKENLEAP_EMULATED /* tests run the same sources on a CPU */
#include "emulation.h"
#else
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define DEVICE static __device__ __forceinline__
#define SHARED(type, name, count) __shared__ type name[count]
template <typename T> using Shared = T *;

/* c += a b, int8: a is 16 x 16, b 16 x 8. Lane 4g + t holds a[g][4t ..], a[g + 8][4t ..], b[4t ..][g] and c[g][2t, 2t + 1],
 * c[g + 8][2t, 2t + 1]. */
DEVICE void mma_16x8x16(int c[4], unsigned a0, unsigned a1, unsigned b) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a0), "r"(a1), "r"(b));
#else
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(c[0]), "+r"(c[1]) : "r"(a0), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(c[2]), "+r"(c[3]) : "r"(a1), "r"(b));
#endif
}
#endif

DEVICE float largest_of(float a, float b) { return a > b ? a : b; }
