// Sums over the rows of arrays [rows, channels], by channel: what batch norm takes of its data and of its gradient, and
// means over images.

#pragma once

#include <cstdint>

// The fields are in the order in which channel_sums.py writes them.
struct ChannelSpec {
  int64_t rows, channels, threads, lanes;
};
constexpr int kChannelNumbers = sizeof(ChannelSpec) / sizeof(int64_t);

// Some rows' means and the sums of the squares of their deviations, or any two sums by channel, for each part.
struct ChannelScratch {
  float *first, *second;
};

// `sites` arrays, one behind the other. x and gradient are [sites, rows, channels], all others [sites, channels].
// Moments are of x alone: its means and population variances. Otherwise the results are the sums of the gradient, and
// of the gradient times (x - mean) * inverse.
struct ChannelBuffers {
  int64_t sites;
  const float *x, *gradient, *mean, *inverse;
  float *first, *second;
};

// One of the parts, or of the sites.
using ChannelStage = void (*)(const ChannelSpec& spec, int64_t which, const ChannelBuffers& buffers,
                              const ChannelScratch& scratch);
