#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace helix::text {

// A call that was written in a notation of its own, brought into the API's.
struct WrittenCall {
    std::string name;
    std::string arguments;  // the text of a JSON object
};

// Reads name(key=value, ...) with Python's literals; nothing if it is anything else.
std::optional<WrittenCall> read_python_call(std::string_view text);

// Reads call:name{key:value, ...} as Gemma writes it: names without quotes, strings between marks.
std::optional<WrittenCall> read_gemma_call(std::string_view text);

}  // namespace helix::text
