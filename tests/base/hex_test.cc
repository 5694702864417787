#include "base/hex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "base/random.h"

namespace helix::base::hex_test {
namespace {

TEST(Hex, BytesAreTwoLowerCaseDigitsEach) {
    EXPECT_EQ(to_hex(""), "");
    EXPECT_EQ(to_hex(std::string("\0\x0f\xf0\xff", 4)), "000ff0ff");
    const std::byte bytes[] = {std::byte{0xab}, std::byte{0x5}};
    EXPECT_EQ(to_hex(bytes), "ab05");
}

TEST(Hex, ADigitOfEitherCaseHasItsValueAndNothingElseHasOne) {
    constexpr std::string_view kLower = "0123456789abcdef";
    constexpr std::string_view kUpper = "0123456789ABCDEF";
    for (int c = 0; c < 256; ++c) {
        const auto digit = static_cast<char>(c);
        const std::size_t found = std::min(kLower.find(digit), kUpper.find(digit));
        const int expected = found == std::string_view::npos ? -1 : static_cast<int>(found);
        EXPECT_EQ(hex_digit(digit), expected) << c;
    }
}

TEST(Hex, AnyBytesComeBack) {
    Random random(1);
    for (std::size_t size = 0; size < 100; ++size) {
        std::string bytes(size, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random.below(256));
        EXPECT_EQ(from_hex(to_hex(bytes), size), bytes);
    }
    EXPECT_EQ(from_hex("aBCd", 2), std::string("\xab\xcd"));
}

TEST(Hex, WhatIsNotSoManyDigitsIsNothing) {
    for (const char* wrong : {"", "00", "000", "000g", "g000", "00 0", "00000", "+1-1", "0x00"}) {
        EXPECT_EQ(from_hex(wrong, 2), std::nullopt) << wrong;
    }
}

TEST(Hex, AHashIsReadBackFromItsDigits) {
    const Hash128 hash{0x0123456789abcdefULL, 7};
    EXPECT_EQ(hash_from_hex(to_hex(hash)), hash);
    for (const char* wrong :
         {"", "12", "0000000000000000000000000000000g", "000000000000000000000000000000000",
          "0000000000000000000000000000000A"}) {
        EXPECT_EQ(hash_from_hex(wrong), std::nullopt) << wrong;
    }
}

}  // namespace
}  // namespace helix::base::hex_test
