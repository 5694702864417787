#include <nlohmann/json.hpp>

#include "api/tracing/span.h"

namespace helix::api {
namespace {

using OtlpJson = nlohmann::ordered_json;

constexpr int kErrorStatus = 2;  // STATUS_CODE_ERROR

OtlpJson text_value(std::string_view text) {
    return {{"stringValue", text}};
}

// 64-bit integers are strings in OTLP's JSON.
OtlpJson value_json(const AttributeValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return text_value(*text);
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
        return {{"intValue", std::to_string(*number)}};
    }
    if (const auto* real = std::get_if<double>(&value)) return {{"doubleValue", *real}};
    OtlpJson values = OtlpJson::array();
    for (const std::string& text : std::get<std::vector<std::string>>(value)) {
        values.push_back(text_value(text));
    }
    return {{"arrayValue", {{"values", std::move(values)}}}};
}

OtlpJson attributes_json(const std::vector<Attribute>& attributes) {
    OtlpJson out = OtlpJson::array();
    for (const auto& [key, value] : attributes) {
        out.push_back({{"key", key}, {"value", value_json(value)}});
    }
    return out;
}

OtlpJson span_json(const Span& span) {
    OtlpJson out = {{"traceId", to_hex(span.trace)}, {"spanId", to_hex(span.id)}};
    if (span.parent != SpanId{}) out["parentSpanId"] = to_hex(span.parent);
    if (!span.trace_state.empty()) out["traceState"] = span.trace_state;
    out["name"] = span.name;
    out["kind"] = static_cast<int>(span.kind);
    out["startTimeUnixNano"] = std::to_string(span.start_unix_ns);
    out["endTimeUnixNano"] = std::to_string(span.end_unix_ns);
    out["attributes"] = attributes_json(span.attributes);
    for (const SpanEvent& event : span.events) {
        out["events"].push_back({{"timeUnixNano", std::to_string(event.at_unix_ns)},
                                 {"name", event.name},
                                 {"attributes", attributes_json(event.attributes)}});
    }
    if (span.failed) {
        out["status"] = {{"code", kErrorStatus}};
        if (!span.problem.empty()) out["status"]["message"] = span.problem;
    }
    return out;
}

}  // namespace

std::string otlp_json(const std::vector<Span>& spans, std::string_view program_version) {
    OtlpJson list = OtlpJson::array();
    for (const Span& span : spans) list.push_back(span_json(span));
    const OtlpJson service = attributes_json({{"service.name", std::string("helix")},
                                              {"service.version", std::string(program_version)}});
    OtlpJson scope = {{"scope", {{"name", "helix"}, {"version", program_version}}},
                      {"spans", std::move(list)}};
    OtlpJson resource = {{"resource", {{"attributes", service}}},
                         {"scopeSpans", OtlpJson::array({std::move(scope)})}};
    const OtlpJson body = {{"resourceSpans", OtlpJson::array({std::move(resource)})}};
    return body.dump(-1, ' ', false, OtlpJson::error_handler_t::replace);
}

}  // namespace helix::api
