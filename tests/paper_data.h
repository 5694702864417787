#pragma once

#include <string>

// The published system's inputs, part of this project (data/paper/README.md).

namespace helix {

inline const std::string kPaperData = HELIX_SOURCE_DIR "/data/paper";

}  // namespace helix
