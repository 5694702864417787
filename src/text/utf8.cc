#include "text/utf8.h"

#include "base/check.h"

namespace helix::text {
namespace {

struct Lead {
    std::size_t length;        // 0: no character begins so
    unsigned char low = 0x80;  // the range of the second byte, Unicode table 3-7
    unsigned char high = 0xbf;
};

Lead lead_of(unsigned char byte) {
    if (byte < 0x80) return {1};
    if (byte < 0xc2) return {0};
    if (byte < 0xe0) return {2};
    if (byte == 0xe0) return {3, 0xa0, 0xbf};
    if (byte == 0xed) return {3, 0x80, 0x9f};
    if (byte < 0xf0) return {3};
    if (byte == 0xf0) return {4, 0x90, 0xbf};
    if (byte < 0xf4) return {4};
    if (byte == 0xf4) return {4, 0x80, 0x8f};
    return {0};
}

}  // namespace

Utf8Prefix utf8_prefix(std::string_view text) {
    CHECK(!text.empty());
    const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
    if (lead.length == 0) return {Utf8Prefix::Kind::invalid, 1};
    for (std::size_t i = 1; i < lead.length; ++i) {
        if (i == text.size()) return {Utf8Prefix::Kind::incomplete, i};
        const auto byte = static_cast<unsigned char>(text[i]);
        const unsigned char low = i == 1 ? lead.low : 0x80;
        const unsigned char high = i == 1 ? lead.high : 0xbf;
        if (byte < low || byte > high) return {Utf8Prefix::Kind::invalid, i};
    }
    return {Utf8Prefix::Kind::character, lead.length};
}

char32_t code_point_of(std::string_view character) {
    constexpr unsigned kFirstBits[] = {0x7f, 0x1f, 0x0f, 0x07};  // by length
    CHECK(!character.empty() && character.size() <= 4);
    char32_t out = static_cast<unsigned char>(character[0]) & kFirstBits[character.size() - 1];
    for (const char c : character.substr(1))
        out = (out << 6U) | (static_cast<unsigned char>(c) & 0x3fU);
    return out;
}

void append_utf8(std::string& out, char32_t code_point) {
    const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xc0 | (code_point >> 6));
        put(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
        put(0xe0 | (code_point >> 12));
        put(0x80 | ((code_point >> 6) & 0x3f));
        put(0x80 | (code_point & 0x3f));
    } else {
        put(0xf0 | (code_point >> 18));
        put(0x80 | ((code_point >> 12) & 0x3f));
        put(0x80 | ((code_point >> 6) & 0x3f));
        put(0x80 | (code_point & 0x3f));
    }
}

}  // namespace helix::text
