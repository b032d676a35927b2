// Products by matrices, which are convolutions by kernels of one element, in AVX-512.

#pragma once

#include "plan.h"

#include <memory>

// The plan of a spec; null where oneDNN is as fast or faster, or this machine has no AVX-512.
std::unique_ptr<Plan> make_product(const Spec& spec);
