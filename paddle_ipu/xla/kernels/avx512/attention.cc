// Attention head by head, and within a head twelve rows of Q at a time: their scores, [12, columns], stay in
// the cache from Q K^T through softmax to the product with V, and never go to memory.
//
// A part is one head, or some rows of one where there are fewer heads than threads. It first lays out K and V as
// panels for tile::multiply; heads in the middle of a [batch, row, head, depth] array need no transpose for that,
// since strides locate their rows.

#include "avx512/attention.h"

#include "avx512/exponential.h"
#include "plan.h"
#include "avx512/tile.h"

#ifdef PADDLE_IPU_AVX512

#include <limits>

namespace {

using tile::kColumns;
using tile::kLanes;
using tile::kRows;

// The fewest rows of a part: for fewer, laying out K and V costs as much as the products.
constexpr int64_t kFewestRows = 64;

// Into how many parts a head is cut, so that there are two for each thread.
int64_t chunks_of(const AttentionSpec& spec) {
  const int64_t heads = spec.batches * spec.heads, wanted = 2 * spec.threads;
  return heads >= wanted ? 1 : std::clamp<int64_t>(spec.rows / kFewestRows, 1, up(wanted, heads));
}

// The transpose of 16 by 16 floats in registers: rows are interleaved by single floats, then by pairs of floats,
// then by quarters of registers twice.
PADDLE_IPU_AVX512 inline void transpose(const __m512 (&rows)[kLanes], __m512 (&columns)[kLanes]) {
  __m512 pairs[kLanes], fours[kLanes], eights[kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(pairs[i + j]), high = _mm512_castps_pd(pairs[i + j + 2]);
      fours[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      fours[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    eights[j] = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0x88);
    eights[4 + j] = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0xdd);
    eights[8 + j] = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0x88);
    eights[12 + j] = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0xdd);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    columns[j] = _mm512_shuffle_f32x4(eights[j], eights[8 + j], 0x88);
    columns[8 + j] = _mm512_shuffle_f32x4(eights[j], eights[8 + j], 0xdd);
  }
}

// K [T, D], its rows `stride` apart, as panels [D, 32] of its transpose, 16 by 16 elements at a time; T is padded
// with zeros to whole panels.
PADDLE_IPU_AVX512 void lay_out_key(const float* key, int64_t stride, int64_t columns, int64_t depth, float* panels) {
  for (int64_t column = 0; column < up(columns, kColumns) * kColumns; column += kLanes) {
    float* panel = panels + column / kColumns * kColumns * depth + column % kColumns;
    for (int64_t d = 0; d < depth; d += kLanes) {
      const __mmask16 mask = tile::first(depth - d);
      __m512 rows[kLanes], turned[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        const bool is_there = column + i < columns;
        rows[i] = is_there ? _mm512_maskz_loadu_ps(mask, key + (column + i) * stride + d) : _mm512_setzero_ps();
      }
      transpose(rows, turned);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (d + i < depth) _mm512_storeu_ps(panel + (d + i) * kColumns, turned[i]);
      }
    }
  }
}

// V [T, E], its rows `stride` apart, as panels [T, 32]; E is padded with zeros to whole panels.
PADDLE_IPU_AVX512 void lay_out_value(const float* value, int64_t stride, int64_t columns, int64_t width, float* panels) {
  for (int64_t e = 0; e < width; e += kColumns) {
    const __mmask16 left = tile::first(width - e), right = tile::first(width - e - kLanes);
    for (int64_t t = 0; t < columns; ++t, panels += kColumns) {
      _mm512_storeu_ps(panels, _mm512_maskz_loadu_ps(left, value + t * stride + e));
      _mm512_storeu_ps(panels + kLanes, _mm512_maskz_loadu_ps(right, value + t * stride + e + kLanes));
    }
  }
}

// Where the mask of a row begins, null for none, and the stride of its columns, 0 or 1.
struct RowMask {
  const float* first;
  int64_t stride;
};

// Replaces the scores s [T] of a row by exp(scale * s + mask - their maximum); returns the sum of these, NaN if
// one of them is. The padding behind T is neither in the maximum nor in the sum.
PADDLE_IPU_AVX512 float normalize(float* scores, int64_t columns, float scale, const RowMask& mask) {
  const __m512 factor = _mm512_set1_ps(scale), lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 most = lowest;
  for (int64_t i = 0; i < columns; i += kLanes) {
    const __mmask16 there = tile::first(columns - i);
    __m512 score = _mm512_mul_ps(_mm512_load_ps(scores + i), factor);
    if (mask.first != nullptr) {
      const __m512 own = mask.stride ? _mm512_maskz_loadu_ps(there, mask.first + i) : _mm512_set1_ps(*mask.first);
      score = _mm512_add_ps(score, own);
    }
    _mm512_store_ps(scores + i, score);
    most = _mm512_mask_max_ps(most, there, most, score);
  }
  const __m512 greatest = _mm512_set1_ps(_mm512_reduce_max_ps(most));
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < columns; i += kLanes) {
    const __m512 power = tile::exponential(_mm512_sub_ps(_mm512_load_ps(scores + i), greatest));
    _mm512_store_ps(scores + i, power);
    sum = _mm512_mask_add_ps(sum, tile::first(columns - i), sum, power);
  }
  return _mm512_reduce_add_ps(sum);
}

// Writes sums [R, 32], times one factor for each row, into rows of the result that are `step` apart.
PADDLE_IPU_AVX512 void put(const float* sums, const float* factors, int64_t rows, int64_t columns, float* result,
                           int64_t step) {
  const __mmask16 left = tile::first(columns), right = tile::first(columns - kLanes);
  for (int64_t r = 0; r < rows; ++r, sums += kColumns, result += step) {
    const __m512 factor = _mm512_set1_ps(factors[r]);
    _mm512_mask_storeu_ps(result, left, _mm512_mul_ps(_mm512_load_ps(sums), factor));
    _mm512_mask_storeu_ps(result + kLanes, right, _mm512_mul_ps(_mm512_load_ps(sums + kLanes), factor));
  }
}

Memory& memory() {
  thread_local Memory own;
  return own;
}

}  // namespace

bool has_attention() { return tile::is_supported(); }

int64_t attention_parts(const AttentionSpec& spec) { return spec.batches * spec.heads * chunks_of(spec); }

void attend(const AttentionSpec& spec, int64_t part, const AttentionBuffers& buffers) {
  const int64_t chunks = chunks_of(spec), chunk = part % chunks, head = part / chunks % spec.heads;
  const int64_t example = part / chunks / spec.heads;
  const auto place = [&](const int64_t* strides) { return example * strides[0] + head * strides[1]; };
  const float* query = buffers.query + spec.offsets[0] + place(spec.query);
  const float* key = buffers.key + spec.offsets[1] + place(spec.key);
  const float *value = buffers.value + spec.offsets[2] + place(spec.value), *mask = buffers.mask;
  if (mask != nullptr) mask += place(spec.mask);
  float* result = buffers.result + place(spec.result);

  // One buffer of the thread: panels of K, panels of V, the scores of twelve rows, the sums of a tile.
  const int64_t padded = up(spec.columns, kColumns) * kColumns, panels = up(spec.width, kColumns);
  float* keys = memory().floats(padded * spec.depth + panels * kColumns * spec.columns + kRows * (padded + kColumns));
  float *values = keys + padded * spec.depth, *scores = values + panels * kColumns * spec.columns;
  float *sums = scores + kRows * padded, factors[kRows];
  lay_out_key(key, spec.key[2], spec.columns, spec.depth, keys);
  lay_out_value(value, spec.value[2], spec.columns, spec.width, values);

  // Scores are written as they are, padding included.
  const tile::Finish as_it_is = {nullptr, false, false, {0xffff, 0xffff}};
  const int64_t begin = spec.rows * chunk / chunks, count = spec.rows * (chunk + 1) / chunks - begin;
  const int64_t tiles = up(count, kRows);
  // Tiles of nearly equal height, twelve rows at most.
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t first = begin + count * i / tiles, rows = begin + count * (i + 1) / tiles - first;
    // Scores: Q K^T, panel by panel.
    for (int64_t column = 0; column < padded; column += kColumns) {
      const tile::Product product = {query + first * spec.query[2], spec.query[2], keys + column * spec.depth,
                                     spec.depth, false};
      tile::kMultiply[rows](product, nullptr, false, &as_it_is, scores + column, padded);
    }
    // Their exponentials; the division by the sum waits for the result, which is smaller.
    for (int64_t r = 0; r < rows; ++r) {
      const RowMask own = {mask == nullptr ? nullptr : mask + (first + r) * spec.mask[2], spec.mask[3]};
      const float whole = normalize(scores + r * padded, spec.columns, static_cast<float>(spec.scale), own);
      factors[r] = static_cast<float>(spec.gain) / whole;
    }
    // The exponentials times V, panel by panel, divided by the sums.
    for (int64_t panel = 0; panel < panels; ++panel) {
      const tile::Product product = {scores, padded, values + panel * kColumns * spec.columns, spec.columns, false};
      tile::kMultiply[rows](product, sums, false, nullptr, nullptr, 0);
      put(sums, factors, rows, spec.width - panel * kColumns, result + first * spec.result[2] + panel * kColumns,
          spec.result[2]);
    }
  }
}

#else

bool has_attention() { return false; }

int64_t attention_parts(const AttentionSpec&) { return 0; }

void attend(const AttentionSpec&, int64_t, const AttentionBuffers&) {}

#endif
