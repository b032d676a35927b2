// The kernels for AVX-512.

#include "simd/system.h"

#if defined(__x86_64__) && defined(__GNUC__)

#define SIMD_NAMESPACE simd_avx512
#define SIMD_LANES 16
#define KERNELS kAvx512

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#include "simd/all.inc"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
