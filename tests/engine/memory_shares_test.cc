// How the devices of one machine divide its memory.

#include "engine/backend/memory_shares.h"

#include <gtest/gtest.h>

namespace helix::engine::test::memory_shares_test {
namespace {

constexpr std::int64_t kGb = 1'000'000'000;
const DeviceMemory kHost{10 * kGb, "the machine", 8 * kGb};

MemoryWish of_host(const std::string& device, std::int64_t asked = 0,
                   std::int64_t offered = 8 * kGb) {
    return {device, {10 * kGb, "the device " + device, offered, true}, asked};
}
MemoryWish card(const std::string& device, std::int64_t asked = 0) {
    return {device, {24 * kGb, "the device " + device, 21 * kGb, false}, asked};
}

std::string refused(const std::vector<MemoryWish>& wishes) {
    const auto shares = share_memory(wishes, kHost);
    return shares.ok() ? "" : shares.error().message;
}

using Shares = std::vector<std::int64_t>;

TEST(MemoryShares, CardsHaveTheirOwnAndTheOthersDivideTheMachines) {
    EXPECT_EQ(*share_memory({of_host("cpu")}, kHost), Shares{8 * kGb});
    EXPECT_EQ(*share_memory({card("vulkan:0"), of_host("cpu")}, kHost),
              (Shares{21 * kGb, 8 * kGb}));
    EXPECT_EQ(*share_memory({of_host("vulkan:0"), card("vulkan:1"), of_host("cpu")}, kHost),
              (Shares{4 * kGb, 21 * kGb, 4 * kGb}));
    EXPECT_EQ(*share_memory({of_host("cpu"), of_host("vulkan:0", 0, kGb)}, kHost),
              (Shares{7 * kGb, kGb}))
        << "what a device does not offer is left to the others";
}

TEST(MemoryShares, WhatWasAskedIsTakenFirst) {
    EXPECT_EQ(*share_memory({of_host("vulkan:0", 3 * kGb), of_host("cpu")}, kHost),
              (Shares{3 * kGb, 5 * kGb}));
    EXPECT_EQ(*share_memory({of_host("vulkan:0", 4 * kGb), of_host("cpu", 6 * kGb)}, kHost),
              (Shares{4 * kGb, 6 * kGb}))
        << "all that is free may be asked for";
    EXPECT_EQ(*share_memory({card("vulkan:0", 23 * kGb)}, kHost), Shares{23 * kGb});
}

TEST(MemoryShares, MoreThanIsFreeIsAnErrorThatNamesTheDeviceAndBothAmounts) {
    EXPECT_EQ(refused({of_host("cpu", 11 * kGb)}),
              "--memory: cpu is to have 11 GB, of which 10 GB are free, by the device cpu");
    EXPECT_EQ(refused({card("vulkan:0", 25 * kGb), of_host("cpu")}),
              "--memory: vulkan:0 is to have 25 GB, of which 24 GB are free, by the device "
              "vulkan:0");
    EXPECT_EQ(refused({of_host("vulkan:0", 6 * kGb), of_host("cpu", 5 * kGb)}),
              "--memory: vulkan:0 and cpu are to have 11 GB of this machine's memory together, of "
              "which 10 GB are free, by the machine");
    EXPECT_EQ(refused({of_host("vulkan:0", 9 * kGb), of_host("cpu")}),
              "--memory: nothing of this machine's memory is left for cpu: of 10 GB that are free "
              "the other devices take all that may be used");
}

}  // namespace
}  // namespace helix::engine::test::memory_shares_test
