// To wait for a moment without going to sleep.

#pragma once

#include <cstdint>

namespace awake {

// Nanoseconds of a clock that only goes forward.
int64_t now();

// Has the processor rest for some cycles.
void rest();

// Nanoseconds that a thread is kept from its processor when others want it, and without waiting awake from then on.
constexpr int64_t kPushed = 500'000, kApart = 50'000'000;

// Looks at a number until it is not 0, which is returned as true, or for so many nanoseconds at most.
bool wait(const volatile int64_t* number, int64_t nanoseconds);

}  // namespace awake
