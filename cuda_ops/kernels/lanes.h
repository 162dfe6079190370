/* Sixteen lanes of float or int32, the one vocabulary of all kernels, in four versions: AVX-512 with VNNI, AVX2 with
 * VNNI, AVX2, and portable C. Every operation is exact or correctly rounded (sums of integers, IEEE add, mul, fma, div),
 * and every horizontal sum follows one fixed tree, so all versions give the same bits (the portable one where the
 * processor has a fused multiply-add). Compile with -ffp-contract=off. */
#ifndef TOKENLEAP_LANES_H
#define TOKENLEAP_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))
typedef float v4 __attribute__((vector_size(16)));
INLINE v4 v4_load(const float *p) { v4 r; memcpy(&r, p, sizeof r); return r; }
INLINE void v4_store(float *p, v4 a) { memcpy(p, &a, sizeof a); }

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__) && !defined(TOKENLEAP_PORTABLE)
#define LANES_VERSION "avx512-vnni"
#include <immintrin.h>
typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vb; /* 64 weights, made unsigned by adding 128 */

INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
INLINE vf vf_set(float a) { return _mm512_set1_ps(a); }
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
INLINE vi vi_round(vf a) { return _mm512_cvtps_epi32(a); }
INLINE vf vf_from_int(vi a) { return _mm512_cvtepi32_ps(a); }
INLINE vf vf_scale_pow2(vf a, vi n) { /* a * 2^n for normal results */
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_slli_epi32(n, 23)));
}
INLINE void vi_store_i8(int8_t *p, vi a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(a)); }
INLINE vb vb_load_biased(const int8_t *p) {
  return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8((char)0x80));
}
INLINE vf vf_load_i8(const int8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* lane l takes lane l ^ 1, l ^ 2, l ^ 4, l ^ 8 */
INLINE vf vf_swap1(vf a) { return _mm512_permute_ps(a, 0xb1); }
INLINE vf vf_swap2(vf a) { return _mm512_permute_ps(a, 0x4e); }
INLINE vf vf_swap4(vf a) { return _mm512_shuffle_f32x4(a, a, 0xb1); }
INLINE vf vf_swap8(vf a) { return _mm512_shuffle_f32x4(a, a, 0x4e); }
INLINE vb vb_ones(void) { return _mm512_set1_epi8(1); }
/* lane l: sum of w * a over its four bytes in each of two chunks, as float */
INLINE vf vb_dot(vb w0, vb w1, const int8_t *a) {
  const __m512i first = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w0, _mm512_loadu_si512(a));
  return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(first, w1, _mm512_loadu_si512(a + 64)));
}
/* lanes 2g and 2g + 1 take p[g] */
INLINE vf vf_twice(const float *p) {
  const __m512i lane = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  return _mm512_permutexvar_ps(lane, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}
INLINE __m128 quarters_add(vf x) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
INLINE __m128 quarters_max(vf x) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  return _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
INLINE vf vf_halves(const float *p, const float *q) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(q), 1);
}
/* vf_sum of four, by the same tree: each step halves what is left of all of them at once */
#define FOUR_SUMS
INLINE v4 vf_sum4(vf a, vf b, vf c, vf d) {
  const vf ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  const vf cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
  vf e = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  e = _mm512_add_ps(e, _mm512_permute_ps(e, 0x4e));
  e = _mm512_add_ps(e, _mm512_permute_ps(e, 0xb1));
  const __m512i first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
  return (v4)_mm512_castps512_ps128(_mm512_permutexvar_ps(first, e));
}
/* Sixteen vf_sum at once, by the same tree: each step halves two vectors into one, by a blend and a shuffle, which run
 * beside each other. vf_sum4_quarters leaves four partial sums of a in quarter 0, of b in 1, of c in 2, of d in 3. */
#define SIXTEEN_SUMS
INLINE vf halve_quarters(vf a, vf b) {
  return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}
INLINE vf halve_halves(vf a, vf b) { /* quarters of a, b -> a0 b1 a2 b3 + a1 b0 a3 b2 */
  const __m512i other = _mm512_set_epi32(27, 26, 25, 24, 15, 14, 13, 12, 19, 18, 17, 16, 7, 6, 5, 4);
  return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, other, b));
}
INLINE vf halve_fours(vf a, vf b) {
  return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
}
INLINE vf halve_twos(vf a, vf b) {
  const __m512i other = _mm512_set_epi32(30, 15, 28, 13, 26, 11, 24, 9, 22, 7, 20, 5, 18, 3, 16, 1);
  return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, a, b), _mm512_permutex2var_ps(a, other, b));
}
INLINE vf vf_sum4_quarters(vf a, vf b, vf c, vf d) { return halve_halves(halve_quarters(a, c), halve_quarters(b, d)); }
INLINE vf vf_four_times(v4 a) { return _mm512_broadcast_f32x4((__m128)a); }
/* quarter m from or to p + m * stride */
INLINE vf vf_load_quarters(const float *p, long stride) {
  const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + stride), 1);
  const __m256 high =
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 2 * stride)), _mm_loadu_ps(p + 3 * stride), 1);
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
INLINE void vf_store_quarters(float *p, long stride, vf a) {
  _mm_storeu_ps(p, _mm512_castps512_ps128(a));
  _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(a, 1));
  _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(a, 2));
  _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(a, 3));
}

#elif defined(__AVX2__) && defined(__FMA__) && !defined(TOKENLEAP_PORTABLE)
#ifdef __AVXVNNI__
#define LANES_VERSION "avx2-vnni"
#else
#define LANES_VERSION "avx2"
#endif
#include <immintrin.h>
typedef struct { __m256 a, b; } vf;
typedef struct { __m256i a, b; } vi;
typedef struct { __m256i a, b; } vb;

INLINE vf vf_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }
INLINE vf vf_set(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE vf vf_add(vf x, vf y) { return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE vf vf_sub(vf x, vf y) { return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE vf vf_mul(vf x, vf y) { return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE vf vf_div(vf x, vf y) { return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE vf vf_fma(vf x, vf y, vf z) { return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE vf vf_max(vf x, vf y) { return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE vf vf_min(vf x, vf y) { return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE vf vf_abs(vf x) {
  const __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return (vf){_mm256_and_ps(x.a, m), _mm256_and_ps(x.b, m)};
}
INLINE vi vi_round(vf x) { return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
INLINE vf vf_from_int(vi x) { return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
INLINE vf vf_scale_pow2(vf x, vi n) {
  return (vf){_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.a), _mm256_slli_epi32(n.a, 23))),
              _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.b), _mm256_slli_epi32(n.b, 23)))};
}
INLINE void vi_store_i8(int8_t *p, vi x) {
  int32_t t[LANES];
  _mm256_storeu_si256((__m256i *)t, x.a);
  _mm256_storeu_si256((__m256i *)(t + 8), x.b);
  for (int l = 0; l < LANES; l++) p[l] = (int8_t)t[l];
}
INLINE vf vf_load_i8(const int8_t *p) {
  return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))),
              _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8))))};
}
INLINE vf vf_swap1(vf x) { return (vf){_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)}; }
INLINE vf vf_swap2(vf x) { return (vf){_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)}; }
INLINE vf vf_swap4(vf x) {
  return (vf){_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
}
INLINE vf vf_swap8(vf x) { return (vf){x.b, x.a}; }
INLINE vb vb_load_biased(const int8_t *p) {
  const __m256i m = _mm256_set1_epi8((char)0x80);
  return (vb){_mm256_xor_si256(_mm256_loadu_si256((const __m256i *)p), m),
              _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(p + 32)), m)};
}
INLINE vb vb_ones(void) { return (vb){_mm256_set1_epi8(1), _mm256_set1_epi8(1)}; }
#ifdef __AVXVNNI__
INLINE __m256i dot32(__m256i sum, __m256i w, __m256i a) { return _mm256_dpbusd_avx_epi32(sum, w, a); }
#else
/* maddubs would saturate (255 * 127 * 2 > 32767), so both sides are widened to 16 bits first */
INLINE __m256i dot32(__m256i sum, __m256i w, __m256i a) {
  const __m256i wl = _mm256_unpacklo_epi8(w, _mm256_setzero_si256()), wh = _mm256_unpackhi_epi8(w, _mm256_setzero_si256());
  const __m256i sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), a);
  const __m256i al = _mm256_unpacklo_epi8(a, sign), ah = _mm256_unpackhi_epi8(a, sign);
  /* unpack keeps 128-bit halves apart, and so does hadd: the lanes come out in order */
  return _mm256_add_epi32(sum, _mm256_hadd_epi32(_mm256_madd_epi16(wl, al), _mm256_madd_epi16(wh, ah)));
}
#endif
INLINE __m256 dot64(__m256i w0, __m256i w1, const int8_t *a) {
  const __m256i first = dot32(_mm256_setzero_si256(), w0, _mm256_loadu_si256((const __m256i *)a));
  return _mm256_cvtepi32_ps(dot32(first, w1, _mm256_loadu_si256((const __m256i *)(a + 64))));
}
INLINE vf vb_dot(vb w0, vb w1, const int8_t *a) { return (vf){dot64(w0.a, w1.a, a), dot64(w0.b, w1.b, a + 32)}; }
INLINE vf vf_twice(const float *p) {
  const __m256 each = _mm256_loadu_ps(p);
  return (vf){_mm256_permutevar8x32_ps(each, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
              _mm256_permutevar8x32_ps(each, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}
INLINE __m128 quarters_add(vf x) {
  const __m256 half = _mm256_add_ps(x.a, x.b);
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
INLINE __m128 quarters_max(vf x) {
  const __m256 half = _mm256_max_ps(x.a, x.b);
  return _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
INLINE vf vf_halves(const float *p, const float *q) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(q)}; }

#else
#define LANES_VERSION "portable"
#define EACH for (int l = 0; l < LANES; l++)
typedef struct { float v[LANES]; } vf;
typedef struct { int32_t v[LANES]; } vi;
typedef struct { uint8_t v[4 * LANES]; } vb;

#ifdef __FP_FAST_FMAF
#define FMA1(x, y, z) __builtin_fmaf(x, y, z)
#else
#define FMA1(x, y, z) ((x) * (y) + (z))
#endif
INLINE vf vf_load(const float *p) { vf r; memcpy(r.v, p, sizeof r.v); return r; }
INLINE void vf_store(float *p, vf x) { memcpy(p, x.v, sizeof x.v); }
INLINE vf vf_set(float x) { vf r; EACH r.v[l] = x; return r; }
INLINE vf vf_add(vf x, vf y) { EACH x.v[l] += y.v[l]; return x; }
INLINE vf vf_sub(vf x, vf y) { EACH x.v[l] -= y.v[l]; return x; }
INLINE vf vf_mul(vf x, vf y) { EACH x.v[l] *= y.v[l]; return x; }
INLINE vf vf_div(vf x, vf y) { EACH x.v[l] /= y.v[l]; return x; }
INLINE vf vf_fma(vf x, vf y, vf z) { EACH x.v[l] = FMA1(x.v[l], y.v[l], z.v[l]); return x; }
INLINE vf vf_max(vf x, vf y) { EACH x.v[l] = x.v[l] > y.v[l] ? x.v[l] : y.v[l]; return x; }
INLINE vf vf_min(vf x, vf y) { EACH x.v[l] = x.v[l] < y.v[l] ? x.v[l] : y.v[l]; return x; }
INLINE vf vf_abs(vf x) { EACH x.v[l] = fabsf(x.v[l]); return x; }
INLINE vf vf_load_i8(const int8_t *p) { vf r; EACH r.v[l] = (float)p[l]; return r; }
INLINE vf vf_swap1(vf x) { vf r; EACH r.v[l] = x.v[l ^ 1]; return r; }
INLINE vf vf_swap2(vf x) { vf r; EACH r.v[l] = x.v[l ^ 2]; return r; }
INLINE vf vf_swap4(vf x) { vf r; EACH r.v[l] = x.v[l ^ 4]; return r; }
INLINE vf vf_swap8(vf x) { vf r; EACH r.v[l] = x.v[l ^ 8]; return r; }
INLINE vi vi_round(vf x) { vi r; EACH r.v[l] = (int32_t)rintf(x.v[l]); return r; }
INLINE vf vf_from_int(vi x) { vf r; EACH r.v[l] = (float)x.v[l]; return r; }
INLINE vf vf_scale_pow2(vf x, vi n) {
  uint32_t u[LANES];
  memcpy(u, x.v, sizeof u);
  EACH u[l] += (uint32_t)n.v[l] << 23;
  memcpy(x.v, u, sizeof u);
  return x;
}
INLINE void vi_store_i8(int8_t *p, vi x) { EACH p[l] = (int8_t)x.v[l]; }
INLINE vb vb_load_biased(const int8_t *p) {
  vb r;
  for (int i = 0; i < 4 * LANES; i++) r.v[i] = (uint8_t)p[i] ^ 0x80u;
  return r;
}
INLINE vb vb_ones(void) { vb r; memset(r.v, 1, sizeof r.v); return r; }
INLINE vf vb_dot(vb w0, vb w1, const int8_t *a) {
  vf r;
  EACH {
    int32_t sum = 0;
    for (int i = 4 * l; i < 4 * l + 4; i++) sum += (int32_t)w0.v[i] * a[i] + (int32_t)w1.v[i] * a[i + 64];
    r.v[l] = (float)sum;
  }
  return r;
}
INLINE vf vf_twice(const float *p) { vf r; EACH r.v[l] = p[l / 2]; return r; }
INLINE vf vf_halves(const float *p, const float *q) { vf r; EACH r.v[l] = l < 8 ? p[l] : q[l - 8]; return r; }
#endif

/* one tree for every version: lanes 8 apart, then 4, 2, 1 */
#ifdef __AVX2__
#ifndef TOKENLEAP_PORTABLE
#define QUARTERS
#endif
#endif
#ifdef QUARTERS
INLINE float vf_sum(vf x) {
  const __m128 four = quarters_add(x), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
INLINE float vf_largest(vf x) {
  const __m128 four = quarters_max(x), two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
#else
INLINE float vf_sum(vf x) {
  const float *t = x.v;
  const float e0 = (t[0] + t[8]) + (t[4] + t[12]), e1 = (t[1] + t[9]) + (t[5] + t[13]);
  const float e2 = (t[2] + t[10]) + (t[6] + t[14]), e3 = (t[3] + t[11]) + (t[7] + t[15]);
  return (e0 + e2) + (e1 + e3);
}
INLINE float vf_largest(vf x) {
  float m = x.v[0];
  for (int l = 1; l < LANES; l++) m = x.v[l] > m ? x.v[l] : m;
  return m;
}
#endif

#ifndef FOUR_SUMS
INLINE v4 vf_sum4(vf a, vf b, vf c, vf d) { return (v4){vf_sum(a), vf_sum(b), vf_sum(c), vf_sum(d)}; }
#endif

/* e^x, x clamped to [-87, 88]; Cody-Waite reduction and a degree-6 polynomial (Cephes expf), about 2 ulp */
INLINE vf vf_exp(vf x) {
  x = vf_min(vf_max(x, vf_set(-87.0f)), vf_set(88.0f));
  const vi n = vi_round(vf_mul(x, vf_set(1.44269504088896341f)));
  const vf f = vf_from_int(n);
  vf r = vf_fma(f, vf_set(-0.693359375f), x);
  r = vf_fma(f, vf_set(2.12194440e-4f), r);
  vf p = vf_set(1.9875691500e-4f);
  p = vf_fma(p, r, vf_set(1.3981999507e-3f));
  p = vf_fma(p, r, vf_set(8.3334519073e-3f));
  p = vf_fma(p, r, vf_set(4.1665795894e-2f));
  p = vf_fma(p, r, vf_set(1.6666665459e-1f));
  p = vf_fma(p, r, vf_set(5.0000001201e-1f));
  p = vf_fma(vf_mul(p, r), r, vf_add(r, vf_set(1.0f)));
  return vf_scale_pow2(p, n);
}

#endif
