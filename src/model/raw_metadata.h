#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model/gguf.h"

namespace helix::model {

// A metadata entry as it lies in a header: its value with its type before it, whatever it is.
struct RawEntry {
    std::string key;
    std::span<const std::byte> value;  // of the file's header
};

// All of them, in their order. A MetaValue does not say which of the types of numbers it came from;
// what is written again from these is what was read.
std::vector<RawEntry> raw_metadata(const GgufFile& file);

}  // namespace helix::model
