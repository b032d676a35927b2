// Convolutions of 3 by 3 with 16 instead of 36 multiplications for 4 results: Winograd's F(2x2, 3x3), in AVX-512.

#pragma once

#include "plan.h"

#include <memory>

// The plan of a spec; null where another is faster, or this machine has no AVX-512.
std::unique_ptr<Plan> make_winograd(const Spec& spec);
