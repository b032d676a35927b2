// Which of the compiled kernels this processor has.

#include "simd/simd.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace simd {

#if defined(__x86_64__) && defined(__GNUC__)
namespace {

// The processor's word (CPUID) and the system's (XCR0), which has to keep the registers of a thread
// that waits. Not __builtin_cpu_supports, which is always 0 where Zig compiles.
struct Processor {
  bool avx2 = false, avx512 = false;

  Processor() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
    const bool fma = (c & bit_FMA) && (c & bit_F16C);
    unsigned kept, high;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    constexpr unsigned kYmm = 0x06, kZmm = 0xe6;
    avx2 = fma && (b & bit_AVX2) && (kept & kYmm) == kYmm;
    avx512 = (b & bit_AVX512F) && (kept & kZmm) == kZmm;
  }
};

}  // namespace

const Kernels* kernels(int64_t lanes) {
  static const Processor processor;
  if (lanes == 16 && processor.avx512) return &kAvx512;
  if (lanes == 8 && processor.avx2) return &kAvx2;
  return nullptr;
}
#else
const Kernels* kernels(int64_t) { return nullptr; }
#endif

int lanes() {
  const char* cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  const auto begins = [cap](const char* set) { return cap != nullptr && !std::strncmp(cap, set, std::strlen(set)); };
  if (begins("SSE") || (cap != nullptr && !std::strcmp(cap, "AVX"))) return 0;
  if (kernels(16) != nullptr && !begins("AVX2")) return 16;
  return kernels(8) != nullptr ? 8 : 0;
}

}  // namespace simd
