// A thread beside the one that runs small programs one after the other.

#pragma once

#include <cstdint>
#include <functional>

// Takes each part once, in this thread from the first on, and from the last on in a thread that is awake while
// such work follows at once on such work; false where one of them raised. To ask a thread that sleeps would take
// longer than the work.
bool take_parts_beside(int64_t parts, const std::function<void(int64_t)>& take);
