// Which of the compiled kernels this processor has.

#include "simd/simd.h"

#include <cstdlib>
#include <cstring>

namespace simd {

const Kernels* kernels(int64_t lanes) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (lanes == 16 && __builtin_cpu_supports("avx512f")) return &kAvx512;
  if (lanes == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &kAvx2;
#endif
  return nullptr;
}

int lanes() {
  const char* cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  const auto begins = [cap](const char* set) { return cap != nullptr && !std::strncmp(cap, set, std::strlen(set)); };
  if (begins("SSE") || (cap != nullptr && !std::strcmp(cap, "AVX"))) return 0;
  if (kernels(16) != nullptr && !begins("AVX2")) return 16;
  return kernels(8) != nullptr ? 8 : 0;
}

}  // namespace simd
