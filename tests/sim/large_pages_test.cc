#include "base/large_pages.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace helix::base::large_pages_test {
namespace {

// Says whether the mapping that this is in was advised to have large pages.
bool is_advised(const void* memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long long first = 0;
        unsigned long long end = 0;
        if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &end) == 2) {
            here = first <= address && address < end;
        }
        if (here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
    }
    return false;
}

TEST(LargePages, WhatIsTakenNextHasThemWhereTheSystemHasAny) {
    const bool granted = prefer_large_pages(std::size_t{64} << 20);
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const auto block = std::make_unique<char[]>(kBytes);
    EXPECT_EQ(is_advised(block.get() + kBytes / 2), granted);
}

}  // namespace
}  // namespace helix::base::large_pages_test
