#include "api/writers/call_arguments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace helix::api {
namespace {

// Cuts a JSON text after the last member or item that is known to be whole, and closes what is
// open.
std::string closed(std::string_view text) {
    std::string open;  // the closing brackets of what is open, the innermost last
    std::string whole = "{}";
    const auto keep = [&](std::size_t bytes) {
        whole = text.substr(0, bytes);
        whole.append(open.rbegin(), open.rend());
    };
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        if (c == ',') keep(i);
        if (c == '{' || c == '[') {
            open += c == '{' ? '}' : ']';
            keep(i + 1);
        }
        if ((c == '}' || c == ']') && !open.empty()) {
            open.pop_back();
            keep(i + 1);
        }
    }
    return whole;
}

bool is_object(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    return begin != std::string_view::npos && text[begin] == '{' && nlohmann::json::accept(text);
}

}  // namespace

std::string arguments_object(std::string_view arguments) {
    if (is_object(arguments)) return std::string(arguments);
    std::string mended = closed(arguments);
    return is_object(mended) ? mended : "{}";
}

}  // namespace helix::api
