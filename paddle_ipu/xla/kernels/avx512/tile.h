// The inner kernel of all our products: a tile of the result, 12 rows by 32 columns, in registers.
//
// AVX-512 has 32 registers of 16 floats. A tile's sums take 12 * 2 = 24 of them; a step along k reads two
// registers of the panel and broadcasts one element of each row, which leaves a few to spare. A fused
// multiply-add takes 4 cycles and two start in each, so 8 independent sums would do to hide the latency.
//
// A panel is 32 columns of the second factor, [k, 32] without gaps, so that it is read in one stream.

#pragma once

#if defined(__x86_64__) && defined(__GNUC__)

#include "plan.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#define PADDLE_IPU_AVX512 __attribute__((target("avx512f")))

namespace tile {

constexpr int64_t kRows = 12, kColumns = 32, kLanes = 16;
// How many rows of a panel it is prefetched before its use.
constexpr int64_t kAhead = 16;

// A thread's partial sums, where k is cut.
inline Memory& sums_memory() {
  thread_local Memory own;
  return own;
}

// Whether the processor has AVX-512, and oneDNN's environment variable, which caps its kernels, allows it.
inline bool is_supported() {
  const char* cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool is_capped = cap && (!std::strncmp(cap, "SSE", 3) || !std::strncmp(cap, "AVX2", 4) ||
                                 !std::strcmp(cap, "AVX"));
  return !is_capped && __builtin_cpu_supports("avx512f");
}

// A mask of the first `count` lanes, none below 0 and all from 16 on.
inline __mmask16 first(int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<int64_t>(count, 0, kLanes)) - 1);
}

// What is done to a tile's sums before they are stored: the bias of its columns or null, the addend that the
// result's memory holds, ReLU. Masks say which of its columns exist.
struct Finish {
  const float* bias;
  bool has_addend, has_relu;
  __mmask16 columns[2];
};

// For the panel whose first column is `column`.
inline Finish finish_of(const Spec& spec, const float* bias, int64_t column) {
  const int64_t columns = spec.results - column;
  return {bias == nullptr ? nullptr : bias + column, spec.has_addend != 0, spec.activation == kReluOf,
          {first(columns), first(columns - kLanes)}};
}

PADDLE_IPU_AVX512 inline __m512 finished(__m512 sum, const Finish& finish, int half, const float* result) {
  const __mmask16 columns = finish.columns[half];
  if (finish.bias != nullptr) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(columns, finish.bias + half * kLanes));
  if (finish.has_addend) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(columns, result));
  // max gives its second operand for NaN: 0, as Paddle's kernel.
  return finish.has_relu ? _mm512_maskz_max_ps(columns, sum, _mm512_setzero_ps()) : sum;
}

// Rows a [R, k], `stride` apart, times a panel [k, 32].
struct Product {
  const float* a;
  int64_t stride;
  const float* panel;
  int64_t k;
  // Whether the rows behind these, which follow without a gap, come next and are not in the cache yet.
  bool is_first_read;
};

// One tile of a product, [R, 32].
//
// With `is_more` the partial sums in `sums` are added. With `finish` the tile goes to `result`, whose rows are
// `step` apart, else to `sums`. R is a template argument so that the loops over rows unroll and `sum` stays in
// registers.
template <int R>
PADDLE_IPU_AVX512 void multiply(const Product& product, float* sums, bool is_more, const Finish* finish, float* result,
                                int64_t step) {
  __m512 sum[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  if (finish != nullptr) {
    // The addend is in the result's rows, which are too far apart for the hardware prefetcher.
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(result + r * step), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(result + r * step + kLanes), _MM_HINT_T0);
    }
  }
  const float *a = product.a, *panel = product.panel;
  const int64_t stride = product.stride, k = product.k;
  const float* next = product.is_first_read ? a + R * stride : panel;
  // One row of the panel times one column of a: an outer product added to the tile.
  for (int64_t i = 0; i < k; ++i) {
    const __m512 left = _mm512_loadu_ps(panel), right = _mm512_loadu_ps(panel + kLanes);
    _mm_prefetch(reinterpret_cast<const char*>(panel + kAhead * kColumns), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(panel + kAhead * kColumns + kLanes), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(next + i * kLanes), _MM_HINT_T0);
    panel += kColumns;
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_set1_ps(a[r * stride + i]);
      sum[r][0] = _mm512_fmadd_ps(x, left, sum[r][0]);
      sum[r][1] = _mm512_fmadd_ps(x, right, sum[r][1]);
    }
  }
  if (is_more) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      sum[r][0] = _mm512_add_ps(sum[r][0], _mm512_load_ps(sums + r * kColumns));
      sum[r][1] = _mm512_add_ps(sum[r][1], _mm512_load_ps(sums + r * kColumns + kLanes));
    }
  }
  if (finish == nullptr) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      _mm512_store_ps(sums + r * kColumns, sum[r][0]);
      _mm512_store_ps(sums + r * kColumns + kLanes, sum[r][1]);
    }
    return;
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    float* own = result + r * step;
    _mm512_mask_storeu_ps(own, finish->columns[0], finished(sum[r][0], *finish, 0, own));
    _mm512_mask_storeu_ps(own + kLanes, finish->columns[1], finished(sum[r][1], *finish, 1, own + kLanes));
  }
}

using Multiply = void (*)(const Product&, float*, bool, const Finish*, float*, int64_t);
constexpr Multiply kMultiply[kRows + 1] = {nullptr,     multiply<1>, multiply<2>, multiply<3>, multiply<4>,
                                           multiply<5>, multiply<6>, multiply<7>, multiply<8>, multiply<9>,
                                           multiply<10>, multiply<11>, multiply<12>};

// Any number of rows, in tiles of nearly equal height: a last tile of one or two rows would have too few
// independent sums to hide the latency of a multiply-add.
inline void multiply_rows(int64_t rows, const Product& product, float* sums, bool is_more, const Finish* finish,
                          float* result, int64_t step) {
  const int64_t tiles = (rows + kRows - 1) / kRows;
  for (int64_t i = 0, begin = 0; i < tiles; ++i) {
    const int64_t end = rows * (i + 1) / tiles;
    Product own = product;
    own.a += begin * product.stride;
    kMultiply[end - begin](own, sums + begin * kColumns, is_more, finish, result + begin * step, step);
    begin = end;
  }
}

}  // namespace tile

#endif
