// Attention, gain softmax(scale Q K^T + mask) V, of all heads of a batch.

#pragma once

#include <cstdint>

// What is computed, in the order in which attention.py writes it. Strides are in elements, those of Q, K, V
// and the result of a batch's example, a head and a row; the elements of a row are neighbours.
struct AttentionSpec {
  int64_t batches, heads, rows, columns, depth, width;
  int64_t query[3], key[3], value[3], result[3];
  // Elements in front of Q, K and V.
  int64_t offsets[3];
  // The mask's, of example, head, row and column.
  int64_t has_mask, mask[4];
  int64_t threads;
  double scale, gain;

  int64_t work() const { return batches * heads * rows * columns * (depth + width); }
};
constexpr int kAttentionNumbers = sizeof(AttentionSpec) / sizeof(int64_t);

struct AttentionBuffers {
  const float *query, *key, *value, *mask;
  float* result;
};

// Whether this machine has what the kernel needs.
bool has_attention();

// Parts that may be taken at once, each by one thread.
int64_t attention_parts(const AttentionSpec& spec);
void attend(const AttentionSpec& spec, int64_t part, const AttentionBuffers& buffers);
