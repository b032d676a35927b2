// The kernels for AVX2.

#include "simd/system.h"

#if defined(__x86_64__) && defined(__GNUC__)

#define SIMD_NAMESPACE simd_avx2
#define SIMD_LANES 8
#define KERNELS kAvx2

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#include "simd/all.inc"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
