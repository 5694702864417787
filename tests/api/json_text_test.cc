#include "api/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace helix::api::json_text_test {
namespace {

using nlohmann::json;

std::string as_json(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

TEST(JsonText, EscapesWhatMustBeEscapedAndNothingElse) {
    EXPECT_EQ(as_json("a\"\\/\n\r\t\b\f\x01\x7F"), "\"a\\\"\\\\/\\n\\r\\t\\b\\f\\u0001\x7F\"");
    EXPECT_EQ(as_json("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
    EXPECT_EQ(as_json(std::string_view("\0", 1)), "\"\\u0000\"");
}

TEST(JsonText, WrongUtf8BecomesOneReplacementForEachMaximalPiece) {
    const std::string r = "\xEF\xBF\xBD";
    EXPECT_EQ(as_json("a\xFFz"), "\"a" + r + "z\"");
    EXPECT_EQ(as_json("\xE2\x82"), "\"" + r + "\"");              // cut off
    EXPECT_EQ(as_json("\xC0\x80"), "\"" + r + r + "\"");          // overlong
    EXPECT_EQ(as_json("\xED\xA0\x80"), "\"" + r + r + r + "\"");  // surrogate
    EXPECT_EQ(as_json("\xF0\x9F\x98 x"), "\"" + r + " x\"");
}

// Compares with the library: the text is the same, and so are the replacements for wrong UTF-8.
TEST(JsonText, RandomBytesReadBackAsTheLibraryWritesThem) {
    constexpr std::uint64_t kSeed = 20240611;
    base::Random random(kSeed);
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        const auto size = random.below(24);
        for (std::uint64_t i = 0; i < size; ++i) {
            static constexpr unsigned char kLikely[] = {'a',  '"',  '\\', 0xE2, 0x82, 0xAC, 0xF0,
                                                        0x9F, 0x80, 0xC3, 0xBF, 0xED, 0xA0, '\n'};
            text += static_cast<char>(random.chance(0.6) ? kLikely[random.below(sizeof kLikely)]
                                                         : random.below(256));
        }
        const std::string expected =
            json(text).dump(-1, ' ', false, json::error_handler_t::replace);
        ASSERT_EQ(json::parse(as_json(text)), json::parse(expected))
            << "seed " << kSeed << " round " << round;
    }
}

TEST(JsonText, NumbersReadBackAndInfinityIsANumberToo) {
    std::string out;
    append_json_number(out, std::int64_t{-42});
    out += ' ';
    append_json_number(out, -0.1F);
    EXPECT_EQ(out, "-42 -0.1");
    out.clear();
    append_json_number(out, -std::numeric_limits<float>::infinity());
    EXPECT_EQ(out, "-9999");
    base::Random random(5);
    for (int i = 0; i < 10000; ++i) {
        const auto value = static_cast<float>((random.uniform() - 0.5) * 1e3);
        out.clear();
        append_json_number(out, value);
        ASSERT_EQ(json::parse(out).get<float>(), value);
    }
}

}  // namespace
}  // namespace helix::api::json_text_test
