#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace helix::base::base64_test {
namespace {

// RFC 4648, section 10.
TEST(Base64, IsThatOfItsStandard) {
    const std::pair<const char*, const char*> known[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
    for (const auto& [bytes, text] : known) {
        EXPECT_EQ(to_base64(bytes), text);
        EXPECT_EQ(from_base64(text), bytes);
    }
    for (const char* bad : {"Zg", "Zg=", "Z", "Zm9v!", "Zm 9v", "Zg==Zg=="})
        EXPECT_FALSE(from_base64(bad).has_value()) << bad;
}

TEST(Base64, GivesAllBytesBack) {
    Random random(3);
    for (std::size_t n = 0; n < 100; ++n) {
        std::string bytes;
        for (std::size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(random.below(256)));
        EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    }
}

}  // namespace
}  // namespace helix::base::base64_test
