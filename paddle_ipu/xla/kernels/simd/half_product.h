// Products of matrices whose sums are kept in float16, as an IPU does with half partials.

#pragma once

#include <cstdint>

// What is computed; the fields are in the order in which half_product.py writes them. X is [rows, depth], or
// [depth, rows] where it is turned, Y is [depth, columns], or [columns, depth] where it is turned, and the result is
// [rows, columns], of each of `batches`, one behind the other.
struct HalfProductSpec {
  int64_t batches, rows, columns, depth, x_turned, y_turned, threads, lanes;

  int64_t work() const { return batches * rows * columns * depth; }
};
constexpr int kHalfProductNumbers = sizeof(HalfProductSpec) / sizeof(int64_t);

struct HalfProductBuffers {
  const float *x, *y;
  float* result;
};
