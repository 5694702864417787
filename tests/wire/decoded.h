#pragma once

#include <string>

#include <gtest/gtest.h>

#include "wire/codec.h"

namespace helix::wire::test_support {

constexpr SessionLimits kLimits{16, 32};

inline base::Result<Message> decode_text(const std::string& bytes, std::size_t payload_bytes = 0,
                                         const SessionLimits& limits = kLimits) {
    return decode(std::as_bytes(std::span(bytes)), payload_bytes, limits);
}

inline base::Result<Message> decode_again(const Message& message) {
    return decode_text(encode(message));
}

// words: in what is said of it.
inline void expect_refused(const Message& message, std::size_t payload_bytes,
                           const std::string& words, const SessionLimits& limits = kLimits) {
    const auto decoded = decode_text(encode(message), payload_bytes, limits);
    ASSERT_FALSE(decoded.ok()) << message_name(message) << ", not refused for: " << words;
    EXPECT_NE(decoded.error().message.find(words), std::string::npos)
        << decoded.error().message << ", expected: " << words;
}

}  // namespace helix::wire::test_support
