// Softmax of rows.

#pragma once

#include <cstdint>

// What is computed, in the order in which softmax.py writes it: x and the result are [rows, columns].
struct SoftmaxSpec {
  int64_t rows, columns, threads;

  // In multiplications, as that of products is counted; an element takes as long as twenty.
  int64_t work() const { return 20 * rows * columns; }
};
constexpr int kSoftmaxNumbers = sizeof(SoftmaxSpec) / sizeof(int64_t);

// The rows from `begin` to `end`, where has_attention() says that this machine can.
void take_softmax(const SoftmaxSpec& spec, int64_t begin, int64_t end, const float* x, float* result);
