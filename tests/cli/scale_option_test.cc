#include "cli/scale_option.h"

#include <gtest/gtest.h>

#include <string>

namespace helix::cli::scale_option_test {
namespace {

ScaleArguments scale(const std::string& range, const std::string& command = "") {
    ScaleArguments arguments;
    arguments.range = range;
    arguments.command = command;
    return arguments;
}

TEST(ScaleOption, WithoutARangeNothingScales) {
    EXPECT_FALSE(scale_config({}).value().has_value());
    EXPECT_EQ(scale_config(scale("", "start.sh")).error().message,
              "--scale is missing: like local:1-4");
}

TEST(ScaleOption, ReadsRangeAndFreeness) {
    ScaleArguments arguments = scale("local:2-5");
    auto config = scale_config(arguments).value();
    EXPECT_EQ(config->min_nodes, 2);
    EXPECT_EQ(config->max_nodes, 5);
    arguments.freeness = "10-200";
    config = scale_config(arguments).value();
    EXPECT_EQ(config->low, 10);
    EXPECT_EQ(config->high, 200);
    EXPECT_TRUE(scale_config(scale("1-3", "start.sh")).value().has_value());
}

TEST(ScaleOption, SaysWhatIsWrong) {
    for (const std::string text : {"3", "local:0-2", "4-2", "local:1-", "1-2x", "remote:1-2"}) {
        const auto wrong = scale_config(scale(text, "start.sh"));
        ASSERT_FALSE(wrong.ok()) << text;
        EXPECT_EQ(wrong.error().message.find("--scale: expected"), 0U) << wrong.error().message;
    }
    EXPECT_EQ(scale_config(scale("1-2")).error().message,
              "--scale: workers that are not local need --scale-command");
    EXPECT_EQ(scale_config(scale("local:1-2", "start.sh")).error().message,
              "--scale-command: local workers need none");
    ScaleArguments arguments = scale("local:1-2");
    arguments.freeness = "200-10";
    EXPECT_FALSE(scale_config(arguments).ok());
}

}  // namespace
}  // namespace helix::cli::scale_option_test
