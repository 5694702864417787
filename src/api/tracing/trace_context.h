#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_message.h"

// The W3C's Trace Context: which trace a request belongs to, as its headers traceparent and
// tracestate say.

namespace helix::api {

// The 16 bytes of a trace's id and the 8 of a span's. All zero: there is none.
struct TraceId {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    bool operator==(const TraceId&) const = default;
};
struct SpanId {
    std::uint64_t value = 0;
    bool operator==(const SpanId&) const = default;
};
// In lower case: 32 and 16 hexadecimal digits.
std::string to_hex(TraceId id);
std::string to_hex(SpanId id);

// What a caller said of the trace that its request belongs to.
struct TraceParent {
    TraceId trace;
    SpanId parent;  // the caller's span
    bool sampled = false;
    bool operator==(const TraceParent&) const = default;
};

// Parses "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". Nothing if it is not valid:
// upper case, version ff, an id of zeros, more than version 00 has. Of a later version its first
// four parts are read.
std::optional<TraceParent> parse_traceparent(std::string_view text);

// Returns the parent that the headers name, if there is exactly one and it is valid.
std::optional<TraceParent> trace_parent_of(const net::HttpHeaders& headers);
// Returns what the request's tracestate headers say together, to be passed on as it is; "" if there
// is none, or one that is too long or not made of printable ASCII.
std::string trace_state_of(const net::HttpHeaders& headers);

}  // namespace helix::api
