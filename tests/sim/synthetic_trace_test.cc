#include "sim/load/synthetic_trace.h"
#include "paper_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace helix::sim::synthetic_trace_test {
namespace {

struct Moments {
    double mean = 0;
    double deviation = 0;
};

template <typename Range, typename Get>
Moments moments(const Range& range, Get get) {
    double sum = 0;
    double squares = 0;
    for (const auto& item : range) {
        const double x = get(item);
        sum += x;
        squares += x * x;
    }
    const auto n = static_cast<double>(range.size());
    return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

double prompt(const TraceRequest& r) {
    return r.prompt_tokens;
}
double output(const TraceRequest& r) {
    return r.output_tokens;
}

std::vector<TraceRequest> make(std::int64_t n, double rate, double cv, std::uint64_t seed) {
    return synthetic_trace({n, rate, cv, seed}).value();
}

TEST(SyntheticTrace, HasTheMomentsOfTheAzureConversations) {
    const auto trace = make(100000, 5, 1, 7);
    const Moments p = moments(trace, prompt);
    const Moments o = moments(trace, output);
    // Four standard errors of 100,000 samples: 5.6 and 2.1 tokens.
    EXPECT_NEAR(p.mean, kConversationMeanPrompt, 5.6);
    EXPECT_NEAR(o.mean, kConversationMeanOutput, 2.1);
    EXPECT_NEAR(p.deviation, 444.6, 10);
    EXPECT_NEAR(o.deviation, 164.8, 4);
    double product = 0;
    for (const TraceRequest& r : trace) {
        product += (prompt(r) - p.mean) * (output(r) - o.mean);
        EXPECT_GE(r.prompt_tokens, kConversationLeastTokens);
        EXPECT_LE(r.prompt_tokens, kConversationMostPrompt);
        EXPECT_GE(r.output_tokens, kConversationLeastTokens);
        EXPECT_LE(r.output_tokens, kConversationMostOutput);
    }
    // Long prompts have long answers: the mixture keeps the pairs together.
    EXPECT_GT(product / 100000 / (p.deviation * o.deviation), 0.25);
}

TEST(SyntheticTrace, HasTheShapeOfThePublishedLengths) {
    const std::string path = kPaperData + "/traces/azure_conv_lengths.csv";
    const auto published = read_trace(path).value().requests;
    const auto made = make(static_cast<std::int64_t>(published.size()), 5, 1, 3);
    // Kolmogorov and Smirnov's distance between the two distributions.
    for (const auto get : {prompt, output}) {
        std::vector<double> a;
        std::vector<double> b;
        for (const TraceRequest& r : published) a.push_back(get(r));
        for (const TraceRequest& r : made) b.push_back(get(r));
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
        double distance = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            const auto below = std::upper_bound(b.begin(), b.end(), a[i]) - b.begin();
            const auto own = std::upper_bound(a.begin(), a.end(), a[i]) - a.begin();
            distance = std::max(distance, std::abs(static_cast<double>(below - own)) /
                                              static_cast<double>(a.size()));
        }
        EXPECT_LT(distance, 0.06);
    }
}

TEST(SyntheticTrace, GapsHaveTheRateAndVariationAskedFor) {
    for (const double cv : {0.0, 0.5, 1.0, 2.0, 4.0}) {
        const auto trace = make(200000, 8, cv, 11);
        std::vector<double> gaps;
        double last_s = 0;
        for (const TraceRequest& r : trace) {
            gaps.push_back(r.arrival_s - last_s);
            last_s = r.arrival_s;
        }
        const Moments m = moments(gaps, [](double gap) { return gap; });
        EXPECT_NEAR(m.mean, 0.125, 0.125 * 4 * std::max(cv, 1e-6) / std::sqrt(200000.0)) << cv;
        EXPECT_NEAR(m.deviation / 0.125, cv, 0.05 * cv + 1e-3) << cv;
    }
}

TEST(SyntheticTrace, EqualSeedsGiveEqualTracesAndAnotherRateKeepsTheLengths) {
    EXPECT_EQ(make(500, 2, 1, 4), make(500, 2, 1, 4));
    const auto a = make(500, 2, 1, 4);
    const auto b = make(500, 9, 3, 4);
    const auto c = make(500, 2, 1, 5);
    EXPECT_FALSE(std::equal(a.begin(), a.end(), c.begin()));
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].prompt_tokens, b[i].prompt_tokens);
        EXPECT_EQ(a[i].output_tokens, b[i].output_tokens);
    }
}

TEST(SyntheticTrace, OptionsOutOfRangeAreNamed) {
    struct Case {
        SyntheticTraceOptions options;
        const char* message;
    };
    const Case cases[] = {
        {{0, 1, 1, 0}, "requests: expected 1 to 100000000, found 0"},
        {{5, 0, 1, 0}, "rate: expected requests per second above 0, found 0"},
        {{5, NAN, 1, 0}, "rate: expected requests per second above 0, found nan"},
        {{5, 1, -1, 0}, "burst: expected a coefficient of variation from 0 to 20, found -1"},
    };
    for (const Case& c : cases) {
        const auto trace = synthetic_trace(c.options);
        ASSERT_FALSE(trace.ok());
        EXPECT_EQ(trace.error().message, c.message);
    }
}

}  // namespace
}  // namespace helix::sim::synthetic_trace_test
