// Runs the parts of a piece of work on XLA's threads.

#pragma once

#include "xla/ffi/api/ffi.h"

#include <cstdint>
#include <functional>

// Calls `take` once for each part, on this thread and on at most `threads` - 1 of XLA's; false if a call raised.
bool take_parts(xla::ffi::ThreadPool& pool, int64_t parts, int64_t threads, std::function<void(int64_t)> take);
