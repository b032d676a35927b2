// Convolutions by oneDNN.

#pragma once

#include "plan.h"

#include <memory>

// Opens oneDNN, where it is not open; its version as major * 10000 + minor * 100 + patch. It raises
// std::runtime_error where the library cannot be used.
int open_onednn(const char* path);

// The plan of a spec; it raises std::runtime_error where oneDNN has no fast implementation.
std::unique_ptr<Plan> make_direct(const Spec& spec);
