#pragma once

namespace helix::cli {

inline constexpr const char* kRehashHelp =
    "read and hash the whole model file at the start, also when it was hashed before and has not "
    "been written since";

}  // namespace helix::cli
