#pragma once

#include <string>

#include "base/machine.h"

namespace helix::base {

// What the machine's processor is called, "" where nothing says it: its "model name" in
// /proc/cpuinfo. Kernels for arm64 have numbers in its place, so there it is the board that the
// device tree names, if there is one, and the kinds of cores: "Raspberry Pi 5 Model B, Cortex-A76".
std::string read_processor_name(const FileContents& contents);

// That of this machine.
std::string processor_name();

}  // namespace helix::base
