#include "cli/otlp_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace helix::cli::otlp_option_test {
namespace {

using ::testing::HasSubstr;

TEST(OtlpOption, TracingIsOffWithoutAnEndpoint) {
    const auto none = tracing_options({});
    ASSERT_TRUE(none.ok());
    EXPECT_FALSE(none->has_value());
    const auto some = tracing_options({"http://127.0.0.1:4318", 0.25});
    ASSERT_TRUE(some.ok());
    ASSERT_TRUE(some->has_value());
    EXPECT_EQ((*some)->otlp.endpoint, "http://127.0.0.1:4318");
    EXPECT_EQ((*some)->sample, 0.25);
}

TEST(OtlpOption, TheEnvironmentSaysWhereUnlessTheOptionDoes) {
    const auto endpoint = [](const std::string& line) {
        OtlpArguments arguments;
        CLI::App command;
        add_otlp_options(command, arguments);
        command.parse(line);
        return arguments.endpoint;
    };
    ASSERT_EQ(::setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:4318", 1), 0);
    EXPECT_EQ(endpoint(""), "http://env:4318");
    EXPECT_EQ(endpoint("--otlp-endpoint http://given:4318"), "http://given:4318");
    ASSERT_EQ(::unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT"), 0);
    EXPECT_EQ(endpoint(""), "");
}

TEST(OtlpOption, WhatIsWrongIsNamed) {
    const auto why = [](const OtlpArguments& a) {
        const auto options = tracing_options(a);
        return options.ok() ? std::string("nothing") : options.error().message;
    };
    EXPECT_THAT(why({"grpc://here:4317", 1}), HasSubstr("--otlp-endpoint: 'grpc://here:4317'"));
    EXPECT_THAT(why({"http://here:none", 1}), HasSubstr("--otlp-endpoint: 'http://here:none'"));
    EXPECT_THAT(why({"", 1.5}), HasSubstr("--otlp-sample"));
    EXPECT_THAT(why({"", -0.1}), HasSubstr("--otlp-sample"));
}

}  // namespace
}  // namespace helix::cli::otlp_option_test
