#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

namespace helix::base::log_test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string logged(LogFormat format, LogLevel level, const std::string& text) {
    ::testing::internal::CaptureStderr();
    set_log_format(format);
    log_line(level, text);
    set_log_format(LogFormat::text);
    return ::testing::internal::GetCapturedStderr();
}

TEST(Log, ALineIsForPeopleOrAnObject) {
    const std::string text = logged(LogFormat::text, LogLevel::warn, "worker den left");
    EXPECT_THAT(text, MatchesRegex("[0-9:.]+ .*warning.* worker den left\n"));
    const std::string json = logged(LogFormat::json, LogLevel::warn, "worker den left");
    EXPECT_THAT(json, MatchesRegex("\\{\"time\":\"[-0-9]+T[0-9:]+\\.[0-9]+Z\",\"level\":\"warn\","
                                   "\"text\":\"worker den left\"\\}\n"));
}

// Quotes, control characters and bytes that are no UTF-8 end neither the line nor the string.
TEST(Log, WhatStrangersSentStaysInItsLine) {
    const std::string hostile = "a \"name\"\n{\"level\":\"off\"}\x1b[2J \xff";
    const std::string json = logged(LogFormat::json, LogLevel::info, hostile);
    EXPECT_EQ(json.find('\n'), json.size() - 1);
    const auto line = nlohmann::json::parse(json, nullptr, false);
    ASSERT_TRUE(line.is_object()) << json;
    EXPECT_EQ(line["level"], "info");
    EXPECT_EQ(line["text"], "a \"name\"\n{\"level\":\"off\"}\x1b[2J \xef\xbf\xbd");
    EXPECT_EQ(json.find('\x1b'), std::string::npos);
    EXPECT_THAT(logged(LogFormat::text, LogLevel::info, hostile), HasSubstr("\\n"));
}

TEST(Log, UnknownWordsAreNone) {
    LogFormat format = LogFormat::text;
    EXPECT_TRUE(parse_log_format("json", format));
    EXPECT_EQ(format, LogFormat::json);
    EXPECT_FALSE(parse_log_format("yaml", format));
    LogLevel level = LogLevel::info;
    EXPECT_TRUE(parse_log_level("off", level));
    EXPECT_EQ(level, LogLevel::off);
    EXPECT_FALSE(parse_log_level("loud", level));
}

}  // namespace
}  // namespace helix::base::log_test
