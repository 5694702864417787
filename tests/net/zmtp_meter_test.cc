#include "net/zmtp_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace helix::net::zmtp_meter_test {
namespace {

using ::testing::HasSubstr;

constexpr ZmtpLimits kLimits{1000, 1500, 3, 100};

std::string greeting() {
    return std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0');
}

std::string frame(const std::string& content, bool more, bool command = false) {
    const int flags = (more ? 1 : 0) + (command ? 4 : 0) + (content.size() > 255 ? 2 : 0);
    std::string out(1, static_cast<char>(flags));
    if (content.size() > 255) {
        for (int shift = 56; shift >= 0; shift -= 8) {
            out += static_cast<char>((content.size() >> static_cast<unsigned>(shift)) & 255U);
        }
    } else {
        out += static_cast<char>(content.size());
    }
    return out + content;
}

// The meter's error, "" when all passes. How the bytes are cut makes no difference.
std::string verdict(const std::string& text, std::uint64_t* messages = nullptr) {
    std::string all;
    for (const std::size_t piece : {text.size(), std::size_t{1}, std::size_t{7}}) {
        ZmtpMeter meter(kLimits);
        std::string one;
        for (std::size_t at = 0; at < text.size() && one.empty(); at += piece) {
            const auto passed = meter.pass(
                std::as_bytes(std::span(text)).subspan(at, std::min(piece, text.size() - at)));
            if (!passed.ok()) one = passed.error().message;
        }
        if (piece == text.size()) all = one;
        EXPECT_EQ(one, all) << "cut every " << piece;
        if (messages != nullptr) *messages = meter.messages();
    }
    return all;
}

TEST(ZmtpMeter, MessagesWithinTheLimitsPass) {
    std::uint64_t messages = 0;
    const std::string large(1000, 'x');
    EXPECT_EQ(verdict(greeting() + frame("READY", false, true) + frame("a", true) +
                          frame(large, false) + frame("PING", false, true) + frame("", false) +
                          frame("a", true) + frame("b", true) + frame("c", false),
                      &messages),
              "");
    EXPECT_EQ(messages, 3U);
}

TEST(ZmtpMeter, WhatIsOverALimitIsRefusedByItsName) {
    const std::string hello = greeting();
    EXPECT_THAT(verdict("GET / HTTP/1.1\r\n"), HasSubstr("does not speak ZMTP"));
    EXPECT_THAT(verdict(std::string("\xff\0\0\0\0\0\0\0\1\x7f\1", 11)), HasSubstr("version 3"));
    EXPECT_THAT(
        verdict(hello + frame("a", true) + frame("b", true) + frame("c", true) + frame("d", true)),
        HasSubstr("more than 3 parts"));
    EXPECT_THAT(verdict(hello + frame(std::string(1001, 'x'), false)), HasSubstr("at most 1000"));
    EXPECT_THAT(
        verdict(hello + frame(std::string(900, 'x'), true) + frame(std::string(900, 'x'), false)),
        HasSubstr("more than 1500 bytes"));
    EXPECT_THAT(verdict(hello + frame(std::string(101, 'x'), false, true)),
                HasSubstr("at most 100"));
    EXPECT_THAT(verdict(hello + frame("a", true, true)), HasSubstr("flags 0x5"));
    EXPECT_THAT(verdict(hello + std::string("\x08\1a", 3)), HasSubstr("flags 0x8"));
    EXPECT_THAT(verdict(hello + "\x02" + std::string(8, '\xff')), HasSubstr("at most 1000"));
}

}  // namespace
}  // namespace helix::net::zmtp_meter_test
