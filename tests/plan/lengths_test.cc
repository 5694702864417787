#include "plan/problem/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/random.h"
#include "plan/reference_data.h"

namespace helix::plan::lengths_test {
namespace {

TEST(Lengths, MomentsOfATable) {
    const std::string path = ::testing::TempDir() + "lengths_test.csv";
    std::ofstream(path) << "output_tokens,prompt_tokens\n10,100\n30,300\n";
    const auto lengths = read_lengths(path);
    ASSERT_TRUE(lengths.ok()) << lengths.error().message;
    EXPECT_DOUBLE_EQ(lengths->prompt, 200);
    EXPECT_DOUBLE_EQ(lengths->output, 20);
    EXPECT_DOUBLE_EQ(lengths->prompt_prompt, 50'000);
    EXPECT_DOUBLE_EQ(lengths->prompt_output, 5'000);
    EXPECT_DOUBLE_EQ(lengths->prompt_while_decoding(), 250);
    EXPECT_DOUBLE_EQ(lengths->prompt_spread(), 1.25);
}

TEST(Lengths, EmptyTablesAndEmptyRequestsAreRefused) {
    const std::string path = ::testing::TempDir() + "lengths_test_bad.csv";
    std::ofstream(path) << "prompt_tokens,output_tokens\n";
    EXPECT_FALSE(read_lengths(path).ok());
    std::ofstream(path) << "prompt_tokens,output_tokens\n5,0\n";
    const auto bad = read_lengths(path);
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(bad.error().message.find("at least 1 token"), std::string::npos);
}

TEST(Lengths, TheDefaultsAreTheAzureConversations) {
    const auto lengths = read_lengths(data_path("traces/azure_conv_lengths.csv"));
    ASSERT_TRUE(lengths.ok()) << lengths.error().message;
    const LengthMoments defaults;
    EXPECT_NEAR(lengths->prompt, defaults.prompt, 0.01);
    EXPECT_NEAR(lengths->output, defaults.output, 0.01);
    EXPECT_NEAR(lengths->prompt_prompt, defaults.prompt_prompt, 1);
    EXPECT_NEAR(lengths->prompt_output, defaults.prompt_output, 1);
    ASSERT_EQ(lengths->contexts.size(), defaults.contexts.size());
    for (std::size_t i = 0; i < defaults.contexts.size(); ++i) {
        EXPECT_EQ(lengths->contexts[i].tokens, defaults.contexts[i].tokens);
        EXPECT_NEAR(lengths->contexts[i].share, defaults.contexts[i].share, 1e-5);
    }
}

TEST(Lengths, ContextsKeepTheMeanAndTheEnds) {
    base::Random random(3);
    for (int tried = 0; tried < 50; ++tried) {
        std::vector<LengthPair> requests;
        double rows = 0;
        double sum = 0;
        double least = 1e9;
        double most = 0;
        for (std::int64_t n = random.between(1, 30); n > 0; --n) {
            const LengthPair one{static_cast<double>(random.between(1, 500)),
                                 static_cast<double>(random.between(2, 300))};
            requests.push_back(one);
            for (double k = one.prompt; k < one.prompt + one.output - 1; ++k) {
                ++rows;
                sum += k;
                least = std::min(least, k);
                most = std::max(most, k);
            }
        }
        double share = 0;
        double mean = 0;
        const std::vector<ContextShare> contexts = context_shares(requests);
        for (const ContextShare& context : contexts) {
            EXPECT_GE(context.share, 0);
            share += context.share;
            mean += context.share * context.tokens;
        }
        EXPECT_NEAR(share, 1, 1e-9);
        EXPECT_NEAR(mean, sum / rows, 1e-6 * mean);
        EXPECT_EQ(contexts.front().tokens, least);
        EXPECT_EQ(contexts.back().tokens, most);
    }
}

}  // namespace
}  // namespace helix::plan::lengths_test
