// What the kernels need of others.

#pragma once

#include "plan.h"
#include "simd/simd.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif
#include <unistd.h>

// Bytes of a core's L2 cache; 1 MiB where the system does not tell.
inline int64_t cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  const int64_t told = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (told > 0) return told;
#endif
  return 1 << 20;
}
