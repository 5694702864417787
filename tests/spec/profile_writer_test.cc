#include "spec/profile_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "spec/profile_tables.h"
#include "spec/text_file.h"

namespace helix::spec::profile_writer_test {
namespace {

class ProfileWriterTest : public ::testing::Test {
  protected:
    ProfileWriterTest()
        : folder_(::testing::TempDir() + "helix-profiles-" +
                  ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
        std::filesystem::remove_all(folder_);
    }
    ~ProfileWriterTest() override { std::filesystem::remove_all(folder_); }

    static MeasuredTables tables(const std::string& type, double slow = 1) {
        MeasuredTables tables;
        tables.model.name = "tiny";
        tables.model.n_layers = 12;
        tables.model.layer_bytes = 5000;
        tables.model.activation_bytes_per_token = 256;
        tables.type = type;
        tables.prompt_s = {{2, 1e-3 * slow}, {64, 5e-3 * slow}};
        tables.decode_s = {{1, 7e-4 * slow}, {2, 6e-4 * slow}, {8, 9e-4 * slow}};
        tables.limits = {{3200, 4, 2048, 64, 32768}, {1600, 4, 2048, 64, 32768}};
        return tables;
    }

    std::string folder_;
};

TEST_F(ProfileWriterTest, WhatIsWrittenIsReadBack) {
    ASSERT_TRUE(write_profile(folder_, tables("laptop")).ok());
    const auto read = ProfileTables::read(folder_, "tiny");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->model().n_layers, 12);
    EXPECT_EQ(read->model().layer_bytes, 5000);
    EXPECT_EQ(read->model().activation_bytes_per_token, 256);
    ASSERT_EQ(read->machines().count("laptop"), 1U);
    const ProfileTables::Machine& machine = read->machines().at("laptop");
    EXPECT_EQ(machine.max_layers, 2);
    EXPECT_EQ(machine.held[1].kv_tokens_per_layer, 3200);
    EXPECT_EQ(machine.held[2].kv_tokens_per_layer, 1600);
    EXPECT_EQ(machine.held[2].prompt_max_tokens, 2048);
    EXPECT_EQ(machine.held[2].decode_max_tokens, 64);
    NodeSpec node;
    node.type = "laptop";
    EXPECT_NEAR(read->layer_s(node, 0, 64), 5e-3, 1e-9);
    EXPECT_NEAR(read->layer_s(node, 0, 33), 3e-3, 1e-9);
    EXPECT_NEAR(read->layer_s(node, 1, 0), 7e-4, 1e-9);
    EXPECT_NEAR(read->layer_s(node, 2, 0), 7e-4, 1e-9);  // two never take less than one
    EXPECT_NEAR(read->layer_s(node, 8, 2), 1.9e-3, 1e-9);
}

TEST_F(ProfileWriterTest, OtherMachinesAndModelsStay) {
    MeasuredTables other = tables("laptop");
    other.model.name = "other";
    ASSERT_TRUE(write_profile(folder_, other).ok());
    ASSERT_TRUE(write_profile(folder_, tables("laptop")).ok());
    ASSERT_TRUE(write_profile(folder_, tables("server", 0.1)).ok());
    ASSERT_TRUE(write_profile(folder_, tables("laptop", 2)).ok());  // measured again
    const auto read = ProfileTables::read(folder_, "tiny");
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->machines().size(), 2U);
    NodeSpec node;
    node.type = "server";
    EXPECT_NEAR(read->layer_s(node, 0, 64), 5e-4, 1e-9);
    node.type = "laptop";
    EXPECT_NEAR(read->layer_s(node, 0, 64), 1e-2, 1e-9);
    EXPECT_EQ(read->machines().at("laptop").max_layers, 2);
    EXPECT_TRUE(ProfileTables::read(folder_, "other").ok());
}

TEST_F(ProfileWriterTest, AnotherModelOfTheSameNameIsRefused) {
    ASSERT_TRUE(write_profile(folder_, tables("laptop")).ok());
    MeasuredTables larger = tables("server");
    larger.model.n_layers = 13;
    const auto status = write_profile(folder_, larger);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("num_layers is not 13"), std::string::npos)
        << status.error().message;
    EXPECT_EQ(ProfileTables::read(folder_, "tiny")->machines().size(), 1U);
}

TEST_F(ProfileWriterTest, NamesThatAreNoFileNamesAreRefused) {
    for (const char* bad : {"", "a b", "a/b", "a,b", ".."}) {
        EXPECT_FALSE(write_profile(folder_, tables(bad)).ok()) << bad;
    }
    EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(ProfileWriterTest, ADamagedFolderIsAnErrorThatNamesTheFile) {
    ASSERT_TRUE(write_profile(folder_, tables("laptop")).ok());
    ASSERT_TRUE(write_text_file(folder_ + "/models.json", "{\"tiny\": ").ok());
    const auto status = write_profile(folder_, tables("server"));
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("models.json"), std::string::npos);
}

}  // namespace
}  // namespace helix::spec::profile_writer_test
