#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/tracing/span.h"

namespace helix::api::otlp_json_test {
namespace {

using Json = nlohmann::json;

Span plain() {
    Span span;
    span.trace = {0x4bf92f3577b34da6, 0xa3ce929d0e0e4736};
    span.id = {0x00f067aa0ba902b7};
    span.name = "chat m";
    span.start_unix_ns = 1'700'000'000'000'000'001;
    span.end_unix_ns = 1'700'000'000'000'000'002;
    return span;
}

TEST(OtlpJson, ASpanIsWrittenAsTheProtocolWantsIt) {
    Span span = plain();
    span.kind = SpanKind::server;
    span.parent = {1};
    span.trace_state = "a=1";
    span.attributes = {{"text", std::string("t")},
                       {"count", std::int64_t{5}},
                       {"share", 0.5},
                       {"list", std::vector<std::string>{"x", "y"}}};
    span.events = {
        {"helix.moved", 1'700'000'000'000'000'001, {{"helix.attempt", std::int64_t{2}}}}};
    span.failed = true;
    span.problem = "it broke";
    const Json expected = Json::parse(R"({"resourceSpans":[{
      "resource":{"attributes":[
        {"key":"service.name","value":{"stringValue":"helix"}},
        {"key":"service.version","value":{"stringValue":"9.9"}}]},
      "scopeSpans":[{"scope":{"name":"helix","version":"9.9"},"spans":[{
        "traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7",
        "parentSpanId":"0000000000000001","traceState":"a=1","name":"chat m","kind":2,
        "startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000000000002",
        "attributes":[
          {"key":"text","value":{"stringValue":"t"}},
          {"key":"count","value":{"intValue":"5"}},
          {"key":"share","value":{"doubleValue":0.5}},
          {"key":"list","value":{"arrayValue":{"values":[{"stringValue":"x"},{"stringValue":"y"}]}}}],
        "events":[{"timeUnixNano":"1700000000000000001","name":"helix.moved",
          "attributes":[{"key":"helix.attempt","value":{"intValue":"2"}}]}],
        "status":{"code":2,"message":"it broke"}}]}]}]})");
    EXPECT_EQ(Json::parse(otlp_json({span}, "9.9")), expected);
}

TEST(OtlpJson, WhatASpanDoesNotHaveIsLeftOut) {
    const Json span = Json::parse(otlp_json({plain()}, "9.9"))
                          .at("resourceSpans")[0]
                          .at("scopeSpans")[0]
                          .at("spans")[0];
    for (const char* name : {"parentSpanId", "traceState", "events", "status"}) {
        EXPECT_FALSE(span.contains(name)) << name;
    }
    EXPECT_EQ(span.at("kind"), 1);
}

TEST(OtlpJson, TextThatIsNoUtf8DoesNoHarm) {
    Span span = plain();
    span.name = "chat \xff";
    EXPECT_TRUE(Json::accept(otlp_json({span}, "9.9")));
}

}  // namespace
}  // namespace helix::api::otlp_json_test
