#include "api/tracing/trace_context.h"

#include <fmt/format.h>

#include <algorithm>

namespace helix::api {
namespace {

constexpr std::size_t kMostStateBytes = 512;  // that the standard wants passed on

// The digits' value; nothing unless all are hexadecimal digits in lower case.
std::optional<std::uint64_t> parse_hex(std::string_view digits) {
    std::uint64_t value = 0;
    for (const char c : digits) {
        const bool decimal = c >= '0' && c <= '9';
        if (!decimal && (c < 'a' || c > 'f')) return {};
        value = value << 4U | static_cast<std::uint64_t>(decimal ? c - '0' : c - 'a' + 10);
    }
    return value;
}

bool is_printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::string to_hex(TraceId id) {
    return fmt::format("{:016x}{:016x}", id.high, id.low);
}

std::string to_hex(SpanId id) {
    return fmt::format("{:016x}", id.value);
}

std::optional<TraceParent> parse_traceparent(std::string_view text) {
    constexpr std::size_t kLength = 55;  // of version 00
    if (text.size() < kLength) return {};
    if (text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
    const auto version = parse_hex(text.substr(0, 2));
    const auto high = parse_hex(text.substr(3, 16));
    const auto low = parse_hex(text.substr(19, 16));
    const auto parent = parse_hex(text.substr(36, 16));
    const auto flags = parse_hex(text.substr(53, 2));
    if (!version || !high || !low || !parent || !flags || *version == 0xff) return {};
    if (text.size() > kLength && (*version == 0 || text[kLength] != '-')) return {};
    if ((*high | *low) == 0 || *parent == 0) return {};
    return TraceParent{{*high, *low}, {*parent}, (*flags & 1U) != 0};
}

std::optional<TraceParent> trace_parent_of(const net::HttpHeaders& headers) {
    std::optional<std::string_view> only;
    for (const auto& [name, value] : headers) {
        if (name != "traceparent") continue;
        if (only) return {};
        only = value;
    }
    return only ? parse_traceparent(*only) : std::nullopt;
}

std::string trace_state_of(const net::HttpHeaders& headers) {
    std::string state;
    for (const auto& [name, value] : headers) {
        if (name != "tracestate" || value.empty()) continue;
        if (!state.empty()) state += ',';
        state += value;
    }
    if (state.size() > kMostStateBytes || !is_printable(state)) state.clear();
    return state;
}

}  // namespace helix::api
