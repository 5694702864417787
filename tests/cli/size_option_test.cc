#include "cli/size_option.h"

#include <gtest/gtest.h>

namespace helix::cli::size_option_test {
namespace {

TEST(SizeOption, UnitsAreWhatTheySay) {
    EXPECT_EQ(*parse_size("--memory", "2GB"), 2'000'000'000);
    EXPECT_EQ(*parse_size("--memory", "2 GiB"), 2LL << 30);
    EXPECT_EQ(*parse_size("--memory", "1.5g"), 3LL << 29);
    EXPECT_EQ(*parse_size("--memory", "1000000"), 1'000'000);
    EXPECT_EQ(*parse_size("--memory", "4096b"), 4096);
}

TEST(SizeOption, ASmallNumberWithoutAUnitIsRefusedWithWhatItWouldMean) {
    for (const char* text : {"4", "64", "512", "16384", "99999", "1.5"}) {
        const auto size = parse_size("--memory", text);
        ASSERT_FALSE(size.ok()) << text;
        EXPECT_NE(size.error().message.find(std::string(text) + "GB"), std::string::npos)
            << size.error().message;
    }
}

TEST(SizeOption, NonsenseIsNamed) {
    for (const char* text : {"", "GB", "-1GB", "2 apples", "1e30", "0"}) {
        const auto size = parse_size("--memory", text);
        ASSERT_FALSE(size.ok()) << text;
        EXPECT_NE(size.error().message.find("--memory"), std::string::npos);
    }
}

TEST(CpuList, RangesAndSingles) {
    EXPECT_EQ(*parse_cpu_list("--cpus", "0-2,5"), (std::vector<int>{0, 1, 2, 5}));
    for (const char* text : {"", "a", "3-1", "0,", "0-", "-1", "99999"}) {
        EXPECT_FALSE(parse_cpu_list("--cpus", text).ok()) << text;
    }
}

TEST(HostPort, FormsThatPeopleWrite) {
    EXPECT_EQ(parse_host_port("--listen", "10.0.0.1:80")->host, "10.0.0.1");
    EXPECT_EQ(parse_host_port("--listen", ":8080")->host, "0.0.0.0");
    EXPECT_EQ(parse_host_port("--listen", "8080")->host, "127.0.0.1");
    EXPECT_EQ(parse_host_port("--listen", "[::1]:8080")->host, "::1");
    EXPECT_EQ(parse_host_port("--listen", "box:0")->port, 0);
    for (const char* text : {"", "box", "box:", "box:70000", "box:8o"}) {
        EXPECT_FALSE(parse_host_port("--listen", text).ok()) << text;
    }
}

}  // namespace
}  // namespace helix::cli::size_option_test
