#include "sim/load/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/random.h"
#include "sim/report/latency_stats.h"

namespace helix::sim::load_test {
namespace {

class TextFile {
  public:
    explicit TextFile(const std::string& text) : path_(testing::TempDir() + "helix_load_test.csv") {
        std::ofstream(path_) << text;
    }
    ~TextFile() { std::remove(path_.c_str()); }
    TextFile(const TextFile&) = delete;
    TextFile& operator=(const TextFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// The figures below are what CPython 3.11 prints.
TEST(PythonRandom, DrawsWhatPythonDraws) {
    PythonRandom random(0);
    EXPECT_EQ(random.uniform(), 0.8444218515250481);
    EXPECT_EQ(random.uniform(), 0.7579544029403025);
    EXPECT_EQ(random.uniform(), 0.420571580830845);
    for (const std::uint32_t drawn : {33U, 65U, 62U, 51U, 38U}) EXPECT_EQ(random.below(100), drawn);
    std::vector<int> items = {0, 1, 2, 3, 4, 5, 6, 7};
    random.shuffle(items);
    EXPECT_EQ(items, (std::vector<int>{6, 0, 3, 5, 1, 4, 2, 7}));
}

TEST(PythonRandom, SeedsOfMoreThan32BitsAndManyDraws) {
    PythonRandom random((std::uint64_t{1} << 40) + 7);
    EXPECT_EQ(random.uniform(), 0.6137037779936511);
    EXPECT_EQ(random.uniform(), 0.8149162973309487);
    for (const std::uint32_t drawn : {15595U, 8219U, 4153U, 12296U, 11899U}) {
        EXPECT_EQ(random.below(16657), drawn);
    }
    for (int i = 0; i < 1000; ++i) random.uniform();
    EXPECT_EQ(random.below(0x80000001U), 1116513087U);
}

TEST(LengthSource, RecordedRowsComeInOrderAndStartAgain) {
    const TextFile file("prompt_tokens,output_tokens\n10,1\n20,2\n");
    auto source = LengthSource::read(file.path(), LengthOrder::recorded);
    ASSERT_TRUE(source.ok()) << source.error().message;
    PythonRandom random(0);
    for (const std::int32_t prompt : {10, 20, 10}) {
        EXPECT_EQ(source->next(random).prompt_tokens, prompt);
    }
    EXPECT_EQ(source->longest_prompt(), 20);
    EXPECT_EQ(source->longest_context(), 22);
    EXPECT_DOUBLE_EQ(source->mean_tokens(), 16.5);
}

TEST(LengthSource, BadRowsAreNamed) {
    const TextFile file("prompt_tokens,output_tokens\n10,1\n0,2\n");
    const auto source = LengthSource::read(file.path(), LengthOrder::sampled);
    ASSERT_FALSE(source.ok());
    EXPECT_NE(source.error().message.find("load_test.csv:3: column prompt_tokens: expected a whole "
                                          "number from 1 to 10000000, found \"0\""),
              std::string::npos)
        << source.error().message;
    const TextFile empty("prompt_tokens,output_tokens\n");
    EXPECT_FALSE(LengthSource::read(empty.path(), LengthOrder::sampled).ok());
    EXPECT_FALSE(LengthSource::read("/nonexistent.csv", LengthOrder::sampled).ok());
}

OnlineLoad load_of(ArrivalProcess process) {
    OnlineLoad load;
    load.process = process;
    load.tokens_per_s = 1000;
    load.counts_per_3s = {1, 0, 5, 2};
    return load;
}

TEST(Arrivals, EveryProcessKeepsTheRateAndTheOrder) {
    LengthSource lengths({{90, 10}, {40, 60}}, LengthOrder::sampled);
    for (const ArrivalProcess process :
         {ArrivalProcess::poisson, ArrivalProcess::recorded, ArrivalProcess::shuffled}) {
        PythonRandom random(3);
        const auto arrivals = make_arrivals(load_of(process), lengths, 5, 600, random);
        ASSERT_TRUE(arrivals.ok()) << arrivals.error().message;
        EXPECT_NEAR(static_cast<double>(arrivals->size()), 6000, 600);
        EXPECT_GE(arrivals->front().at_s, 5);
        EXPECT_LT(arrivals->back().at_s, 605);
        EXPECT_TRUE(
            std::is_sorted(arrivals->begin(), arrivals->end(),
                           [](const Arrival& a, const Arrival& b) { return a.at_s < b.at_s; }));
    }
}

TEST(Arrivals, RecordedCountsKeepTheirShape) {
    LengthSource lengths({{90, 10}}, LengthOrder::sampled);
    PythonRandom random(3);
    const auto arrivals = make_arrivals(load_of(ArrivalProcess::recorded), lengths, 0, 12, random);
    ASSERT_TRUE(arrivals.ok());
    // 10 requests/s: 30 for each 3 s on the mean of 2, so 15, 0, 75, 30.
    std::vector<int> counts(4);
    for (const Arrival& arrival : *arrivals) ++counts[static_cast<std::size_t>(arrival.at_s / 3)];
    EXPECT_EQ(counts, (std::vector<int>{15, 0, 75, 30}));
}

TEST(Arrivals, ListedOnesComeAsGivenUntilTheWindowEnds) {
    LengthSource lengths({{90, 10}}, LengthOrder::sampled);
    PythonRandom random(3);
    OnlineLoad load{.process = ArrivalProcess::listed};
    load.listed = {{0, {5, 6}}, {2.5, {7, 8}}, {12, {9, 9}}};
    const auto arrivals = make_arrivals(load, lengths, 10, 12, random);
    ASSERT_TRUE(arrivals.ok()) << arrivals.error().message;
    ASSERT_EQ(arrivals->size(), 2U);
    EXPECT_EQ(arrivals->back().at_s, 12.5);
    EXPECT_EQ(arrivals->back().length.prompt_tokens, 7);

    std::swap(load.listed[0], load.listed[1]);
    const auto unsorted = make_arrivals(load, lengths, 10, 12, random);
    ASSERT_FALSE(unsorted.ok());
    EXPECT_NE(unsorted.error().message.find("at 0 s is listed after one at 2.5 s"),
              std::string::npos)
        << unsorted.error().message;
}

TEST(Arrivals, GammaGapsVaryAsMuchAsAsked) {
    for (const double burstiness : {0.0, 0.5, 3.0}) {
        LengthSource lengths({{90, 10}}, LengthOrder::sampled);
        OnlineLoad load = load_of(ArrivalProcess::gamma);
        load.burstiness = burstiness;
        PythonRandom random(7);
        const auto arrivals = make_arrivals(load, lengths, 0, 4000, random);
        ASSERT_TRUE(arrivals.ok()) << arrivals.error().message;
        const auto n = static_cast<double>(arrivals->size());
        EXPECT_NEAR(n, 40'000, 2400) << burstiness;
        double squares = 0;
        double last_s = 0;
        for (const Arrival& arrival : *arrivals) {
            squares += (arrival.at_s - last_s) * (arrival.at_s - last_s);
            last_s = arrival.at_s;
        }
        const double mean_s = last_s / n;
        EXPECT_NEAR(std::sqrt(std::max(0.0, squares / n / mean_s / mean_s - 1)), burstiness,
                    0.05 * burstiness + 1e-6);
    }
    LengthSource lengths({{90, 10}}, LengthOrder::sampled);
    OnlineLoad load = load_of(ArrivalProcess::gamma);
    load.burstiness = -1;
    PythonRandom random(7);
    EXPECT_FALSE(make_arrivals(load, lengths, 0, 4000, random).ok());
}

TEST(Arrivals, ATraceIsStretchedToARate) {
    const std::vector<TraceRequest> requests = {{0, 100, 10}, {2, 50, 40}, {4, 150, 50}};
    auto load = listed_load(requests);
    ASSERT_TRUE(load.ok()) << load.error().message;
    EXPECT_DOUBLE_EQ(load->tokens_per_s, 100);
    set_rate(*load, 400);
    EXPECT_DOUBLE_EQ(load->tokens_per_s, 400);
    EXPECT_DOUBLE_EQ(load->listed[1].at_s, 0.5);
    EXPECT_DOUBLE_EQ(load->listed[2].at_s, 1);
    EXPECT_EQ(load->listed[2].length.output_tokens, 50);
    EXPECT_FALSE(listed_load({{0, 100, 10}, {0, 1, 1}}).ok());
}

TEST(LatencyStats, PercentilesAreThoseOfTheSortedSamples) {
    base::Random random(11);
    LatencyStats stats;
    std::vector<double> samples;
    double sum = 0;
    for (int i = 0; i < 20'000; ++i) {
        samples.push_back(0.001 * std::pow(10'000.0, random.uniform()));
        stats.add(samples.back());
        sum += samples.back();
    }
    std::sort(samples.begin(), samples.end());
    const LatencySummary summary = stats.summary();
    EXPECT_EQ(summary.count, samples.size());
    EXPECT_EQ(summary.mean, sum / 20'000);
    EXPECT_NEAR(summary.p50, samples[10'000], samples[10'000] * 1.3e-4);
    EXPECT_NEAR(summary.p95, samples[19'000], samples[19'000] * 1.3e-4);
    EXPECT_NEAR(summary.p99, samples[19'800], samples[19'800] * 1.3e-4);
}

TEST(LatencyStats, TwoMergedAreAllTheirSamples) {
    LatencyStats fast;
    LatencyStats slow;
    for (int i = 0; i < 30; ++i) fast.add(1);
    for (int i = 0; i < 10; ++i) slow.add(5);
    fast.merge(slow);
    fast.merge(LatencyStats());
    const LatencySummary both = fast.summary();
    EXPECT_EQ(both.count, 40U);
    EXPECT_DOUBLE_EQ(both.mean, 2);
    EXPECT_NEAR(both.p50, 1, 1.3e-4);
    EXPECT_NEAR(both.p95, 5, 7e-4);
    LatencyStats empty;
    empty.merge(*both.samples);
    EXPECT_EQ(empty.summary().mean, both.mean);
}

TEST(LatencyStats, NothingAndExtremesAreHarmless) {
    LatencyStats stats;
    EXPECT_EQ(stats.summary().p50, 0);
    stats.add(0);
    stats.add(1e9);
    EXPECT_EQ(stats.summary().count, 2U);
    EXPECT_GT(stats.summary().p99, 1e6);
}

}  // namespace
}  // namespace helix::sim::load_test
