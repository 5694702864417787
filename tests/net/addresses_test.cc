#include "net/addresses.h"

#include <gtest/gtest.h>

#include "net/key.h"

namespace helix::net::addresses_test {
namespace {

TEST(Addresses, AreWrittenSoThatAPortCanFollow) {
    EXPECT_EQ(url_host("192.0.2.7"), "192.0.2.7");
    EXPECT_EQ(url_host("2001:db8::7"), "[2001:db8::7]");
    EXPECT_EQ(url_host("hall"), "hall");
}

TEST(Addresses, NamesToListenOnAreLookedUp) {
    EXPECT_EQ(*resolve_listen_host("localhost"), "127.0.0.1");
    EXPECT_EQ(*resolve_listen_host("0.0.0.0"), "0.0.0.0");
    EXPECT_EQ(*resolve_listen_host("::1"), "::1");
    const std::string name(70, 'a');  // no name server is asked for one as long as this
    const auto unknown = resolve_listen_host(name);
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.error().message.find(name), std::string::npos);
}

TEST(Addresses, OfEveryInterfaceAreThoseThatOthersCanUse) {
    EXPECT_EQ(reachable_addresses("192.0.2.7"), (std::vector<std::string>{"192.0.2.7"}));
    for (const char* every : {"0.0.0.0", "::", "*"}) {
        const auto found = reachable_addresses(every);
        ASSERT_FALSE(found.empty());
        for (const std::string& address : found) {
            EXPECT_FALSE(is_every_address(address));
            const bool only = found.size() == 1;
            EXPECT_TRUE(only || !is_loopback(address)) << address;
        }
    }
}

TEST(Addresses, ThatAMachineGaveItselfComeLast) {
    EXPECT_EQ(
        best_first({"169.254.64.113", "192.168.1.20", "169.254.0.9", "10.0.0.7"}),
        (std::vector<std::string>{"192.168.1.20", "10.0.0.7", "169.254.64.113", "169.254.0.9"}));
    EXPECT_EQ(best_first({"169.254.64.113"}), std::vector<std::string>{"169.254.64.113"});
}

}  // namespace
}  // namespace helix::net::addresses_test
