#include "api/byte_range.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace helix::api {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

WantedBytes wanted_bytes(const net::HttpRequest& request, std::uint64_t file_bytes,
                         const std::string& etag) {
    constexpr std::string_view kUnit = "bytes=";
    std::string_view range = request.header("range");
    const std::string_view still = request.header("if-range");
    if (!range.starts_with(kUnit) || (!still.empty() && still != etag)) return {};
    range.remove_prefix(kUnit.size());
    const std::size_t dash = range.find('-');
    if (dash == std::string_view::npos) return {};
    const auto first = number(range.substr(0, dash));
    const auto last = number(range.substr(dash + 1));
    if (dash == 0) {  // so many at the end
        if (!last) return {};
        if (*last == 0 || file_bytes == 0) return {{}, true};
        return {ByteRange{file_bytes - std::min(*last, file_bytes), file_bytes}};
    }
    const bool open = dash + 1 == range.size();
    if (!first || (!open && (!last || *last < *first))) return {};
    if (*first >= file_bytes) return {{}, true};
    return {ByteRange{*first, open ? file_bytes : std::min(*last, file_bytes - 1) + 1}};
}

}  // namespace helix::api
