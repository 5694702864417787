#pragma once

namespace helix::base {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace helix::base
