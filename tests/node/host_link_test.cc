#include "node/host_link.h"

#include <gtest/gtest.h>

namespace helix::node::host_link_test {
namespace {

TEST(HostLink, IsMeasuredOnceForLinksWithKeysAndForThoseWithout) {
    const auto plain = host_link(false);
    ASSERT_TRUE(plain.has_value());
    EXPECT_GT(plain->bandwidth_bytes_per_s, 1e6);
    EXPECT_LT(plain->bandwidth_bytes_per_s, 1e12);
    EXPECT_GT(plain->latency_s, 0);
    EXPECT_LT(plain->latency_s, 0.5);
    const auto with_keys = host_link(true);
    ASSERT_TRUE(with_keys.has_value());
    EXPECT_NE(with_keys->bandwidth_bytes_per_s, plain->bandwidth_bytes_per_s);
    const auto again = host_link(false);
    EXPECT_EQ(again->bandwidth_bytes_per_s, plain->bandwidth_bytes_per_s);
    EXPECT_EQ(again->latency_s, plain->latency_s);
}

}  // namespace
}  // namespace helix::node::host_link_test
