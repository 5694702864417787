#include "plan/problem/lengths.h"

#include <gtest/gtest.h>

#include <fstream>

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
}

}  // namespace
}  // namespace helix::plan::lengths_test
