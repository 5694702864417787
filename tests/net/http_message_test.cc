#include "net/http_message.h"

#include <gtest/gtest.h>

#include "net/sse.h"

namespace helix::net::http_message_test {
namespace {

TEST(HttpMessage, PercentDecodingKeepsWhatIsNotEncoded) {
    EXPECT_EQ(percent_decode("/v1/models/org%2Fname"), "/v1/models/org/name");
    EXPECT_EQ(percent_decode("%C3%a9%"), "\xC3\xA9%");
    EXPECT_EQ(percent_decode("%zz%4"), "%zz%4");
}

TEST(HttpMessage, OnlyPlainWordsMayBecomeHeaderValues) {
    EXPECT_TRUE(is_plain_word("req-1_a.b:c/d"));
    EXPECT_FALSE(is_plain_word(""));
    EXPECT_FALSE(is_plain_word("a\r\nset-cookie: x"));
    EXPECT_FALSE(is_plain_word(std::string(129, 'a')));
}

TEST(HttpMessage, AChunkIsItsLengthInHexadecimalAndItsData) {
    std::string out = "x";
    append_chunk(out, std::string(26, 'a'));
    EXPECT_EQ(out, "x1a\r\n" + std::string(26, 'a') + "\r\n");
}

TEST(Sse, EventsComeBackHoweverTheBytesAreCut) {
    std::string text;
    append_sse_event(text, "{\"a\":1}");
    text += kSsePing;
    append_sse_event(text, "two");
    text += kSseDone;
    text += "data:no space\r\ndata: second line\r\n\r\nevent: x\nid: 1\n\ndata: cut off";
    for (std::size_t piece = 1; piece < text.size(); ++piece) {
        std::vector<std::string> events;
        SseParser parser([&](std::string_view data) { events.emplace_back(data); });
        for (std::size_t i = 0; i < text.size(); i += piece) {
            parser.push(std::string_view(text).substr(i, piece));
        }
        ASSERT_EQ(events,
                  (std::vector<std::string>{"{\"a\":1}", "two", "[DONE]", "no space\nsecond line"}))
            << "cut every " << piece;
    }
}

}  // namespace
}  // namespace helix::net::http_message_test
