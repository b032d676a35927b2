// Work cut into parts, which XLA's threads take in turn.

#pragma once

#include "xla_ffi.h"

#include <cstdint>
#include <functional>

// Takes each part once, in this thread and in `threads` - 1 of XLA's; false where one of them raised.
bool take_parts(const xla_ffi::Call& call, int64_t parts, int64_t threads, std::function<void(int64_t)> take);
