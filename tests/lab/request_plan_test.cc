#include "lab/load/request_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "spec/text_file.h"

namespace helix::lab::request_plan_test {
namespace {

class File {
  public:
    explicit File(const std::string& text)
        : path_(::testing::TempDir() + "helix-request-plan-" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv") {
        EXPECT_TRUE(spec::write_text_file(path_, text).ok());
    }
    ~File() { std::remove(path_.c_str()); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

TEST(LengthRange, OneNumberOrTwo) {
    EXPECT_EQ(parse_length_range("--x", "512")->least, 512);
    EXPECT_EQ(parse_length_range("--x", "512")->most, 512);
    EXPECT_EQ(parse_length_range("--x", "10-20")->least, 10);
    EXPECT_EQ(parse_length_range("--x", "10-20")->most, 20);
    for (const char* bad : {"", "0", "-5", "20-10", "10-", "a", "1.5", "99999999999"}) {
        const auto range = parse_length_range("--x", bad);
        ASSERT_FALSE(range.ok()) << bad;
        EXPECT_EQ(range.error().message.find("--x: '"), 0U);
    }
}

TEST(Arrivals, GammaGapsHaveTheAskedMeanAndSpread) {
    const LengthSource lengths({10, 10}, {5, 5});
    for (const double cv : {0.5, 1.0, 2.0}) {
        constexpr std::size_t kCount = 40'000;
        const auto load = draw_load({4.0, cv}, lengths, kCount, 1e9, 7);
        ASSERT_EQ(load.size(), kCount);
        double sum = 0;
        double squares = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
            const double gap = load[i].arrival_s - (i == 0 ? 0 : load[i - 1].arrival_s);
            ASSERT_GE(gap, 0);
            sum += gap;
            squares += gap * gap;
        }
        const double mean = sum / kCount;
        EXPECT_NEAR(mean, 0.25, 0.01) << cv;
        EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean) / mean, cv, 0.05 * cv);
    }
}

TEST(Arrivals, EvenOnesComeLikeAClock) {
    const auto load = draw_load({10.0, 0.0}, LengthSource({1, 1}, {1, 1}), 1000, 0.45, 1);
    ASSERT_EQ(load.size(), 5U);
    EXPECT_DOUBLE_EQ(load[0].arrival_s, 0.0);
    EXPECT_NEAR(load[4].arrival_s, 0.4, 1e-12);
}

TEST(Arrivals, WordsForThem) {
    EXPECT_EQ(*parse_arrivals("even"), 0.0);
    EXPECT_EQ(*parse_arrivals("poisson"), 1.0);
    EXPECT_EQ(*parse_arrivals("gamma:2.5"), 2.5);
    for (const char* bad : {"", "gamma", "gamma:", "gamma:0", "gamma:-1", "gamma:2x", "burst"}) {
        EXPECT_FALSE(parse_arrivals(bad).ok()) << bad;
    }
}

TEST(Load, EqualSeedsGiveEqualLoads) {
    const LengthSource lengths({10, 100}, {5, 50});
    const auto one = draw_load({4.0, 1.0}, lengths, 100, 1e9, 7);
    const auto same = draw_load({4.0, 1.0}, lengths, 100, 1e9, 7);
    const auto other = draw_load({4.0, 1.0}, lengths, 100, 1e9, 8);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(one[i].arrival_s, same[i].arrival_s);
        EXPECT_EQ(one[i].prompt_tokens, same[i].prompt_tokens);
        EXPECT_EQ(one[i].output_tokens, same[i].output_tokens);
        EXPECT_GE(one[i].prompt_tokens, 10);
        EXPECT_LE(one[i].prompt_tokens, 100);
        if (one[i].prompt_tokens != other[i].prompt_tokens) ++differ;
    }
    EXPECT_GT(differ, 50U);
}

TEST(Load, LengthsAreRowsOfTheFile) {
    const File file("prompt_tokens,output_tokens\n100,7\n200,8\n");
    const auto lengths = LengthSource::read(file.path());
    ASSERT_TRUE(lengths.ok()) << lengths.error().message;
    EXPECT_EQ(lengths->longest(), 208);
    int second = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const LoadRequest request = lengths->draw(1, i);
        EXPECT_EQ(request.output_tokens, request.prompt_tokens == 100 ? 7 : 8);
        if (request.prompt_tokens == 200) ++second;
    }
    EXPECT_GT(second, 60);
    EXPECT_LT(second, 140);
}

TEST(Arrivals, OfATraceAreItsOwn) {
    const File file("arrival_s,prompt_tokens,output_tokens\n1,100,7\n2.5,200,8\n");
    const auto arrivals = read_arrivals(file.path());
    ASSERT_TRUE(arrivals.ok()) << arrivals.error().message;
    ASSERT_EQ(arrivals->size(), 2U);
    EXPECT_EQ((*arrivals)[1].arrival_s, 2.5);
    EXPECT_EQ((*arrivals)[1].prompt_tokens, 200);
    EXPECT_EQ((*arrivals)[1].output_tokens, 8);
}

TEST(Arrivals, AFileOfLengthsHasNone) {
    const File file("prompt_tokens,output_tokens\n100,7\n");
    const auto arrivals = read_arrivals(file.path());
    ASSERT_FALSE(arrivals.ok());
    EXPECT_NE(arrivals.error().message.find("--lengths"), std::string::npos);
}

}  // namespace
}  // namespace helix::lab::request_plan_test
