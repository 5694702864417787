#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace helix {

// A test with an empty folder of its own, which goes away with it.
class OwnFolder : public testing::Test {
  protected:
    void SetUp() override { std::filesystem::create_directories(folder_); }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    // All of a file.
    static std::string read(const std::string& path) {
        std::ifstream file(path);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }

    std::string folder_ = (std::filesystem::path(testing::TempDir()) /
                           testing::UnitTest::GetInstance()->current_test_info()->name())
                              .string();
};

}  // namespace helix
