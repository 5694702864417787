#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace helix::spec {

// For messages about an unknown name: up to three known ones that are few letters away, nearest
// first, as " (did you mean \"A100-40\" or \"A100-80\"?)"; "" when none is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

// The name as it is compared: in lower case, without spaces, '-', '_' and '.'.
std::string folded_name(std::string_view name);

}  // namespace helix::spec
