// Kernels of our own: convolutions of 3 by 3, attention, products with half partials, stochastic rounding, and sums by
// channel. Their sources, *.inc, are written for vectors of any length and compiled once for each set of instructions:
// avx2.cc, avx512.cc.

#pragma once

#include "plan.h"
#include "simd/attention.h"
#include "simd/channel_sums.h"
#include "simd/half_product.h"
#include "simd/rounding.h"

#include <memory>

namespace simd {

struct Kernels {
  // The plan of a spec; null for a convolution that Winograd's algorithm does not do.
  std::unique_ptr<Plan> (*make_winograd)(const Spec& spec);
  // How many parts attention has, which are independent of each other; computes one of them.
  int64_t (*attention_parts)(const AttentionSpec& spec);
  void (*attend)(const AttentionSpec& spec, int64_t part, const AttentionBuffers& buffers);
  // Likewise a product with half partials.
  int64_t (*half_product_parts)(const HalfProductSpec& spec);
  void (*half_product)(const HalfProductSpec& spec, int64_t part, const HalfProductBuffers& buffers);
  // Likewise stochastic rounding.
  int64_t (*rounding_parts)(const RoundingBuffers& buffers);
  void (*round_part)(const RoundingSpec& spec, int64_t part, const RoundingBuffers& buffers);
  // Likewise sums by channel; what parts have found is joined for each site.
  int64_t (*channel_parts)(const ChannelSpec& spec, const ChannelBuffers& buffers);
  ChannelStage take_moments, join_moments, take_gradients, join_gradients;
};

// Floats of the processor's longest vectors for which there are kernels, 16 or 8, and that ONEDNN_MAX_CPU_ISA, which caps
// oneDNN's kernels, allows; 0 for none.
int lanes();

// The kernels with vectors of so many floats; null where the processor has no such vectors.
const Kernels* kernels(int64_t lanes);

// For simd.cc.
extern const Kernels kAvx2, kAvx512;

}  // namespace simd
