// Attention, gain * softmax(scale * Q K^T + mask) V, of all heads of a batch.

#pragma once

#include <algorithm>
#include <cstdint>

// How many multiplications by an element of K or V take as long as reading it from memory.
constexpr int64_t kRowsWhileReading = 16;

// What is computed; the fields are in the order in which attention.py writes them. Q is [rows, depth], K is
// [columns, depth], V is [columns, width] and the result is [rows, width], for each example and head. Strides are
// in elements, of an example, a head and a row; the elements of a row are contiguous.
struct AttentionSpec {
  int64_t batches, heads, rows, columns, depth, width;
  int64_t query[3], key[3], value[3], result[3];
  // Elements in front of Q, K and V.
  int64_t offsets[3];
  // Strides of the mask: of an example, a head, a row and a column; the last is 0 or 1.
  int64_t has_mask, mask[4];
  int64_t threads, lanes;
  double scale, gain;

  // In multiplications; of few rows it is that of reading K and V.
  int64_t work() const { return batches * heads * std::max(rows, kRowsWhileReading) * columns * (depth + width); }
};
constexpr int kAttentionNumbers = sizeof(AttentionSpec) / sizeof(int64_t);

struct AttentionBuffers {
  const float *query, *key, *value, *mask;
  float* result;
};
