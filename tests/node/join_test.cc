#include "node/join.h"

#include <gtest/gtest.h>

namespace helix::node::join_test {
namespace {

TEST(JoinAddress, MayBeCopiedFromABrowser) {
    for (const char* text :
         {"hall:8080", "http://hall:8080", "http://hall:8080/", "http://hall:8080/v1"}) {
        const auto address = parse_address(text);
        ASSERT_TRUE(address.ok()) << text;
        EXPECT_EQ(address->host, "hall");
        EXPECT_EQ(address->port, 8080);
    }
    EXPECT_EQ(parse_address("http://[::1]:8080/")->host, "::1");
    const auto secure = parse_address("https://hall:8080");
    ASSERT_FALSE(secure.ok());
    EXPECT_NE(secure.error().message.find("without TLS"), std::string::npos);
    for (const char* text : {"http://hall", "http://", "hall:8080/v1", "hall"}) {
        EXPECT_FALSE(parse_address(text).ok()) << text;
    }
}

}  // namespace
}  // namespace helix::node::join_test
