#pragma once

#include <string>
#include <string_view>

namespace helix::api {

// The arguments of a call as the text of a JSON object, for protocols that put them into an answer
// as an object. Of arguments that break off it keeps the members that are whole; what is no object
// at all becomes {}.
std::string arguments_object(std::string_view arguments);

}  // namespace helix::api
