// To wait for a moment without going to sleep.

#include "threads/awake.h"

#include <time.h>

#include <atomic>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace awake {

int64_t now() {
  timespec found;
  clock_gettime(CLOCK_MONOTONIC, &found);
  return found.tv_sec * 1'000'000'000LL + found.tv_nsec;
}

void rest() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

bool wait(const volatile int64_t* number, int64_t nanoseconds) {
  constexpr int kLooks = 32;
  static std::atomic<int64_t> apart_until{0};
  int64_t before = now();
  const int64_t until = before + nanoseconds;
  while (before < until && before >= apart_until) {
    for (int look = 0; look < kLooks; ++look) {
      if (*number != 0) return true;
      rest();
    }
    std::this_thread::yield();
    const int64_t moment = now();
    if (moment - before > kPushed) apart_until = moment + kApart;
    before = moment;
  }
  return *number != 0;
}

}  // namespace awake
