#include "api/tracing/trace_context.h"

#include <gtest/gtest.h>

namespace helix::api::trace_context_test {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpan = "00f067aa0ba902b7";

TEST(TraceParent, IdsAndTheSampledBitAreRead) {
    const TraceParent expected = {
        {0x4bf92f3577b34da6, 0xa3ce929d0e0e4736}, {0x00f067aa0ba902b7}, true};
    const std::string common = std::string(kTrace) + "-" + kSpan;
    EXPECT_EQ(parse_traceparent("00-" + common + "-01"), expected);
    EXPECT_EQ(parse_traceparent("00-" + common + "-03"), expected) << "other bits mean nothing";
    EXPECT_FALSE(parse_traceparent("00-" + common + "-00")->sampled);
    EXPECT_FALSE(parse_traceparent("00-" + common + "-fe")->sampled);
    EXPECT_EQ(parse_traceparent("01-" + common + "-01"), expected) << "a later version";
    EXPECT_EQ(parse_traceparent("cc-" + common + "-01-what.the-future-brings"), expected);
    EXPECT_EQ(to_hex(expected.trace), kTrace);
    EXPECT_EQ(to_hex(expected.parent), kSpan);
}

TEST(TraceParent, WhatIsNotValidIsNone) {
    for (const char* bad : {
             "",
             "00",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
             "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
             "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
             "0X-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
             " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
         }) {
        EXPECT_FALSE(parse_traceparent(bad)) << bad;
    }
}

TEST(TraceParent, TwoHeadersAreNone) {
    const std::string one = std::string("00-") + kTrace + "-" + kSpan + "-01";
    EXPECT_TRUE(trace_parent_of({{"host", "a"}, {"traceparent", one}}));
    EXPECT_FALSE(trace_parent_of({{"traceparent", one}, {"traceparent", one}}));
    EXPECT_FALSE(trace_parent_of({{"host", "a"}}));
}

TEST(TraceState, HeadersAreJoinedAndWhatCannotBePassedOnIsLeftOut) {
    EXPECT_EQ(trace_state_of({{"tracestate", "a=1"}, {"x", "y"}, {"tracestate", "b=2,c=3"}}),
              "a=1,b=2,c=3");
    EXPECT_EQ(trace_state_of({{"host", "a"}}), "");
    EXPECT_EQ(trace_state_of({{"tracestate", "a=\xc3\xa4"}}), "");
    EXPECT_EQ(trace_state_of({{"tracestate", "a=" + std::string(511, 'x')}}), "");
}

}  // namespace
}  // namespace helix::api::trace_context_test
