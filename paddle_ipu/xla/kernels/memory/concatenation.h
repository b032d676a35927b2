// Arrays joined along an axis.

#pragma once

#include <cstdint>
#include <vector>

// An array that is joined: where it begins, and bytes of one of its rows.
struct Joined {
  const char* first;
  int64_t bytes;
};

// The rows of several arrays side by side in a row of the result.
struct Concatenation {
  std::vector<Joined> arrays;
  // Rows of each array, and bytes of one of the result.
  int64_t rows, bytes;
  char* result;

  int64_t size() const { return rows * bytes; }
  // Parts are independent of each other, and nearly equal.
  int64_t parts() const;
  void take(int64_t part) const;
};
