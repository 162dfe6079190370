/* Quantising in groups of GROUP inputs, a warp a BLOCK. */
#pragma once
#include "device.cuh"

/* Four inputs of one group in a lane, four lanes a group: q = round(x / s), s = largest / 127, as the CPU has it. */
DEVICE void quantize_four(float4 x, int at, int8 *q, float *s) {
  float largest = largest_of(largest_of(fabsf(x.x), fabsf(x.y)), largest_of(fabsf(x.z), fabsf(x.w)));
  largest = largest_of(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  largest = largest_of(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
  *(char4 *)(q + at) = make_char4(__float2int_rn(x.x * inverse), __float2int_rn(x.y * inverse),
                                  __float2int_rn(x.z * inverse), __float2int_rn(x.w * inverse));
  if (threadIdx.x % 4 == 0) s[at / BLOCK * (BLOCK / GROUP) + at % BLOCK / 8] = largest / 127.0f;
}

/* Where lane l of the warp that takes a BLOCK finds its four inputs: lanes 4g .. 4g + 3 hold group g. */
DEVICE int place_in_block(int lane) { return lane / 4 * 8 + lane % 2 * 4 + lane % 4 / 2 * (BLOCK / 2); }
