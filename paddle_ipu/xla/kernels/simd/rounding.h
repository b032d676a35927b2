// Stochastic rounding to half.

#pragma once

#include <cstdint>

// What is computed; the fields are in the order in which rounding.py writes them. `dropped` is how many bits of a
// float32 significand are dropped: 13 for float16, 16 for bfloat16.
struct RoundingSpec {
  int64_t dropped, threads, lanes;
};
constexpr int kRoundingNumbers = sizeof(RoundingSpec) / sizeof(int64_t);

// x and result are `sites` arrays of `elements`, one behind the other, each with two words of its own.
struct RoundingBuffers {
  int64_t sites, elements;
  const float* x;
  const uint32_t* words;
  float* result;
};
