// Softmax of each row of a matrix, in AVX-512.

#pragma once

#include <cstdint>

// What is computed, in the order in which softmax.py writes it: x and the result are [rows, columns].
struct SoftmaxSpec {
  int64_t rows, columns, threads;

  // In multiplications, the unit of kLeastWork; an element takes as long as twenty.
  int64_t work() const { return 20 * rows * columns; }
};
constexpr int kSoftmaxNumbers = sizeof(SoftmaxSpec) / sizeof(int64_t);

// Computes the rows [begin, end). Needs has_attention().
void take_softmax(const SoftmaxSpec& spec, int64_t begin, int64_t end, const float* x, float* result);
