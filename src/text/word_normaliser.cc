#include "text/word_normaliser.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/normal_forms.h"
#include "text/utf8.h"

namespace helix::text {
namespace {

constexpr char32_t kReplacementCharacter = 0xfffd;

utf8proc_category_t category_of(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

std::u32string characters_of(std::string_view text) {
    std::u32string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Utf8Prefix prefix = utf8_prefix(text);
        char32_t c = kReplacementCharacter;
        if (prefix.kind == Utf8Prefix::Kind::character)
            c = code_point_of(text.substr(0, prefix.length));
        out.push_back(c);
        text.remove_prefix(prefix.length);
    }
    return out;
}

bool is_left_out(char32_t c) {
    if (c == U'\t' || c == U'\n' || c == U'\r') return false;
    const utf8proc_category_t category = category_of(c);
    return c == kReplacementCharacter || category == UTF8PROC_CATEGORY_CC ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

void clean(std::u32string& text) {
    std::erase_if(text, is_left_out);
    std::replace_if(text.begin(), text.end(), is_between_words, U' ');
}

// Han characters; kana and Hangul are written in words. The sixth block begins where tokenizer.json
// has it begin, U+100 late.
bool is_chinese(char32_t c) {
    struct Block {
        char32_t first, last;
    };
    constexpr std::array<Block, 8> kBlocks = {{{0x4e00, 0x9fff},
                                               {0x3400, 0x4dbf},
                                               {0x20000, 0x2a6df},
                                               {0x2a700, 0x2b73f},
                                               {0x2b740, 0x2b81f},
                                               {0x2b920, 0x2ceaf},
                                               {0xf900, 0xfaff},
                                               {0x2f800, 0x2fa1f}}};
    return std::any_of(kBlocks.begin(), kBlocks.end(),
                       [c](const Block& block) { return block.first <= c && c <= block.last; });
}

std::u32string with_chinese_apart(const std::u32string& text) {
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text) {
        if (is_chinese(c)) {
            out += {U' ', c, U' '};
        } else {
            out.push_back(c);
        }
    }
    return out;
}

std::u32string lower(const std::u32string& text) {
    constexpr char32_t kDottedI = 0x130;  // the only one whose lower case is two characters
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text) {
        if (c == kDottedI) {
            out += U"i\u0307";
        } else {
            out.push_back(
                static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
        }
    }
    return out;
}

}  // namespace

std::u32string normalise_words(std::string_view text, const WordRules& rules) {
    std::u32string out = characters_of(text);
    if (rules.clean) clean(out);
    if (rules.chinese_apart) out = with_chinese_apart(out);
    if (rules.strip_accents) {
        out = decomposed(out);
        std::erase_if(out, [](char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_MN; });
    }
    if (rules.lowercase) out = lower(out);
    return out;
}

bool is_between_words(char32_t c) {
    return (c >= 0x9 && c <= 0xd) || c == U' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool is_punctuation_word(char32_t c) {
    if (c < 0x80) {
        return (c > U' ' && c < U'0') || (c > U'9' && c < U'A') || (c > U'Z' && c < U'a') ||
               (c > U'z' && c < 0x7f);
    }
    const utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

}  // namespace helix::text
