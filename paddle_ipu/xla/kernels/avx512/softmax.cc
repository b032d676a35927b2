// Softmax of rows: exp(x - max) / sum(exp(x - max)).
//
// A row of at most 128 elements stays in registers from reading to writing. A longer one takes three passes:
// maximum; exponentials with their sum; scaling. By then the row is in the cache.

#include "avx512/softmax.h"

#include "avx512/exponential.h"

#ifdef PADDLE_IPU_AVX512

#include <algorithm>
#include <limits>

namespace {

using tile::kLanes;

// Vectors in flight, each with a maximum and a sum of its own: independent chains hide latency.
constexpr int kVectors = 4;
constexpr int64_t kBlock = kVectors * kLanes;
// Numbers that are summed in float32; sums of these blocks are added in double, or long rows would lose digits.
constexpr int64_t kSummed = 4096;

// Rows of V vectors, the last of which may be partial: its missing lanes are -inf, whose exp is 0.
template <int V>
PADDLE_IPU_AVX512 void take_short(int64_t rows, int64_t columns, const float* x, float* result) {
  const __m512 lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const __mmask16 last = tile::first(columns - (V - 1) * kLanes);
  for (int64_t row = 0; row < rows; ++row, x += columns, result += columns) {
    __m512 own[V];
#pragma GCC unroll 8
    for (int j = 0; j < V - 1; ++j) own[j] = _mm512_loadu_ps(x + j * kLanes);
    own[V - 1] = _mm512_mask_loadu_ps(lowest, last, x + (V - 1) * kLanes);
    __m512 most = own[0];
#pragma GCC unroll 8
    for (int j = 1; j < V; ++j) most = _mm512_max_ps(most, own[j]);
    const __m512 greatest = _mm512_set1_ps(_mm512_reduce_max_ps(most));
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) own[j] = tile::exponential(_mm512_sub_ps(own[j], greatest));
    __m512 sum = _mm512_maskz_mov_ps(last, own[V - 1]);
#pragma GCC unroll 8
    for (int j = 0; j < V - 1; ++j) sum = _mm512_add_ps(sum, own[j]);
    const __m512 factor = _mm512_set1_ps(1 / _mm512_reduce_add_ps(sum));
#pragma GCC unroll 8
    for (int j = 0; j < V - 1; ++j) _mm512_storeu_ps(result + j * kLanes, _mm512_mul_ps(own[j], factor));
    _mm512_mask_storeu_ps(result + (V - 1) * kLanes, last, _mm512_mul_ps(own[V - 1], factor));
  }
}

// take_short by number of vectors; kShort is the longest row that has one.
using Take = void (*)(int64_t, int64_t, const float*, float*);
constexpr Take kTake[] = {take_short<1>, take_short<2>, take_short<3>, take_short<4>,
                          take_short<5>, take_short<6>, take_short<7>, take_short<8>};
constexpr int64_t kShort = sizeof kTake / sizeof *kTake * kLanes;

// The maximum of a row.
PADDLE_IPU_AVX512 float greatest_of(const float* x, int64_t columns) {
  const __m512 lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 most[kVectors] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + kBlock <= columns; i += kBlock) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) most[j] = _mm512_max_ps(most[j], _mm512_loadu_ps(x + i + j * kLanes));
  }
  for (; i < columns; i += kLanes) {
    most[0] = _mm512_max_ps(most[0], _mm512_mask_loadu_ps(lowest, tile::first(columns - i), x + i));
  }
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3])));
}

// Writes exp(x - greatest) of each number; returns their sum, NaN if one of them is.
PADDLE_IPU_AVX512 float exponentials_of_block(const float* x, int64_t columns, __m512 greatest, float* powers) {
  __m512 sums[kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) sums[j] = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + kBlock <= columns; i += kBlock) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const __m512 power = tile::exponential(_mm512_sub_ps(_mm512_loadu_ps(x + i + j * kLanes), greatest));
      _mm512_storeu_ps(powers + i + j * kLanes, power);
      sums[j] = _mm512_add_ps(sums[j], power);
    }
  }
  for (; i < columns; i += kLanes) {
    const __mmask16 there = tile::first(columns - i);
    const __m512 power = tile::exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(there, x + i), greatest));
    _mm512_mask_storeu_ps(powers + i, there, power);
    sums[0] = _mm512_mask_add_ps(sums[0], there, sums[0], power);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

// The same for a whole row, block by block.
PADDLE_IPU_AVX512 float exponentials_of(const float* x, int64_t columns, float* powers) {
  const __m512 greatest = _mm512_set1_ps(greatest_of(x, columns));
  double sum = 0;
  for (int64_t i = 0; i < columns; i += kSummed) {
    sum += exponentials_of_block(x + i, std::min(kSummed, columns - i), greatest, powers + i);
  }
  return static_cast<float>(sum);
}

// Multiplies a row in place.
PADDLE_IPU_AVX512 void multiply(float* row, int64_t columns, float by) {
  const __m512 factor = _mm512_set1_ps(by);
  int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) {
    _mm512_storeu_ps(row + i, _mm512_mul_ps(_mm512_loadu_ps(row + i), factor));
  }
  const __mmask16 there = tile::first(columns - i);
  _mm512_mask_storeu_ps(row + i, there, _mm512_mul_ps(_mm512_maskz_loadu_ps(there, row + i), factor));
}

}  // namespace

void take_softmax(const SoftmaxSpec& spec, int64_t begin, int64_t end, const float* x, float* result) {
  const int64_t columns = spec.columns;
  if (columns >= 1 && columns <= kShort) {
    kTake[up(columns, kLanes) - 1](end - begin, columns, x + begin * columns, result + begin * columns);
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    float* own = result + row * columns;
    const float sum = exponentials_of(x + row * columns, columns, own);
    multiply(own, columns, 1 / sum);
  }
}

#else

void take_softmax(const SoftmaxSpec&, int64_t, int64_t, const float*, float*) {}

#endif
