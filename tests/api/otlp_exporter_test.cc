#include "api/tracing/otlp_exporter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "stub_collector.h"

namespace helix::api::otlp_exporter_test {
namespace {

using std::chrono::milliseconds;

Span span_named(const std::string& name) {
    Span span;
    span.trace = {1, 2};
    span.id = {3};
    span.name = name;
    return span;
}

class OtlpExporterTest : public ::testing::Test {
  protected:
    OtlpExporterTest() {
        options_.endpoint = collector_.endpoint();
        options_.delay = base::from_ms(20);
        options_.first_pause = base::from_ms(10);
    }
    void start() {
        auto made = OtlpExporter::create(options_);
        ASSERT_TRUE(made.ok()) << made.error().message;
        exporter_ = std::move(made).value();
    }
    bool counts_become(std::uint64_t exported, std::uint64_t dropped) {
        for (int i = 0; i < 1000; ++i) {
            const OtlpCounts counts = exporter_->counts();
            if (counts.exported == exported && counts.dropped == dropped) return true;
            std::this_thread::sleep_for(milliseconds(10));
        }
        const OtlpCounts counts = exporter_->counts();
        ADD_FAILURE() << counts.exported << " exported, " << counts.dropped << " dropped";
        return false;
    }
    static net::HttpResponse status(int code, net::HttpHeaders headers = {}) {
        return {code, "application/json", "{}", std::move(headers)};
    }

    StubCollector collector_;
    OtlpOptions options_;
    std::unique_ptr<OtlpExporter> exporter_;
};

TEST_F(OtlpExporterTest, SpansThatComeTogetherGoTogether) {
    options_.delay = base::from_seconds(60);
    options_.max_batch_spans = 4;
    start();
    for (int i = 0; i < 3; ++i) exporter_->add({span_named("a"), span_named("b")});
    const auto posts = collector_.wait_posts(1);
    ASSERT_GE(posts.size(), 1U);
    EXPECT_EQ(StubCollector::spans_in(posts[0]).size(), 4U) << "the batch was full";
    EXPECT_EQ(StubCollector::spans_in(posts[0])[1].at("name"), "b");
    exporter_->stop(base::from_seconds(10));
    EXPECT_EQ(collector_.wait_spans(6).size(), 6U) << "what was left goes at the end";
    EXPECT_TRUE(counts_become(6, 0));
}

TEST_F(OtlpExporterTest, WhatABusyCollectorRefusesIsSentAgain) {
    collector_.answer_next(status(503));
    collector_.answer_next(status(429, {{"Retry-After", "1"}}));
    start();
    const auto began = std::chrono::steady_clock::now();
    exporter_->add({span_named("a")});
    const auto posts = collector_.wait_posts(3);
    ASSERT_EQ(posts.size(), 3U);
    EXPECT_EQ(posts[0], posts[2]);
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(1000)) << "as it asked";
    EXPECT_TRUE(counts_become(1, 0));
}

TEST_F(OtlpExporterTest, WhatItRefusesForGoodIsDroppedAndTheNextGoesOut) {
    collector_.answer_next(status(400));
    start();
    exporter_->add({span_named("a")});
    EXPECT_TRUE(counts_become(0, 1));
    exporter_->add({span_named("b")});
    EXPECT_TRUE(counts_become(1, 1));
    EXPECT_EQ(collector_.wait_posts(2).size(), 2U);
}

TEST_F(OtlpExporterTest, APartialSuccessIsNotSentAgain) {
    collector_.answer_next(
        {200, "application/json", R"({"partialSuccess":{"rejectedSpans":"1"}})", {}});
    start();
    exporter_->add({span_named("a"), span_named("b"), span_named("c")});
    EXPECT_TRUE(counts_become(2, 1));
    EXPECT_EQ(collector_.wait_posts(1).size(), 1U);
}

TEST_F(OtlpExporterTest, AFullQueueDropsAndCounts) {
    collector_.fall_silent();
    options_.max_queued_spans = 3;
    options_.delay = {};
    start();
    exporter_->add({span_named("under way")});
    EXPECT_EQ(collector_.wait_posts(1).size(), 1U);
    exporter_->add({span_named("a"), span_named("b")});
    exporter_->add({span_named("c"), span_named("d")});
    EXPECT_TRUE(counts_become(0, 2)) << "there was room for one of the two";
    exporter_->stop({});
    EXPECT_TRUE(counts_become(0, 5)) << "and the rest had nobody to take it";
}

TEST_F(OtlpExporterTest, ACollectorThatIsNotThereHoldsNobodyUp) {
    {
        const StubCollector gone;
        options_.endpoint = gone.endpoint();
    }
    start();
    for (int i = 0; i < 10; ++i) exporter_->add({span_named("a")});
    std::this_thread::sleep_for(milliseconds(100));  // some tries fail
    const auto began = std::chrono::steady_clock::now();
    exporter_->stop(base::from_ms(100));
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
    EXPECT_TRUE(counts_become(0, 10));
    exporter_->add({span_named("late")});
    EXPECT_TRUE(counts_become(0, 11));
}

TEST_F(OtlpExporterTest, ASilentCollectorDoesNotHoldUpTheEnd) {
    collector_.fall_silent();
    start();
    exporter_->add({span_named("a")});
    EXPECT_EQ(collector_.wait_posts(1).size(), 1U);
    const auto began = std::chrono::steady_clock::now();
    exporter_->stop(base::from_ms(200));
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
    EXPECT_TRUE(counts_become(0, 1));
}

TEST(OtlpExporterOptions, AnEndpointThatIsNoAddressIsNamed) {
    OtlpOptions options;
    options.endpoint = "grpc://collector";
    const auto made = OtlpExporter::create(options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message.find("grpc://collector"), std::string::npos);
}

}  // namespace
}  // namespace helix::api::otlp_exporter_test
