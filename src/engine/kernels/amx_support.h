#pragma once

#include "engine/kernels/kernels.h"

namespace helix::engine::ops {

// Has this machine AMX-INT8, lets the system this process use it, and are the products right? Found
// out at the first call; where the CPU has it and it cannot be used, a warning says why.
bool amx_works();

// Do both tables give the same bits, for every quantised format, whole tiles of rows and parts of
// them, every byte a weight can be? Takes some 10 ms.
bool same_products(const Kernels& a, const Kernels& b);

}  // namespace helix::engine::ops
