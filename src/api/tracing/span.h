#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/tracing/trace_context.h"

// Spans as OpenTelemetry has them, as plain data, and their JSON.

namespace helix::api {

using AttributeValue = std::variant<std::string, std::int64_t, double, std::vector<std::string>>;
// A name, which must be a literal, and its value.
using Attribute = std::pair<std::string_view, AttributeValue>;

struct SpanEvent {
    std::string_view name;  // a literal
    std::int64_t at_unix_ns = 0;
    std::vector<Attribute> attributes;
};

enum class SpanKind : std::uint8_t { internal = 1, server = 2 };  // OTLP's numbers

struct Span {
    TraceId trace;
    SpanId id;
    SpanId parent;            // zero: it is the first of its trace
    std::string trace_state;  // as in W3C's header
    std::string name;
    SpanKind kind = SpanKind::internal;
    std::int64_t start_unix_ns = 0;
    std::int64_t end_unix_ns = 0;
    std::vector<Attribute> attributes;
    std::vector<SpanEvent> events;
    bool failed = false;
    std::string problem;  // in words, of a span that failed
};

// The body of a POST to an OTLP collector's /v1/traces, in OTLP's JSON. Text that is not UTF-8 is
// made so.
std::string otlp_json(const std::vector<Span>& spans, std::string_view program_version);

}  // namespace helix::api
