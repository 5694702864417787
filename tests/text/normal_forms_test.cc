#include "text/normal_forms.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/random.h"
#include "text/utf8.h"

namespace helix::text::normal_forms_test {
namespace {

TEST(NormalForms, CharactersAreTakenApartAndPutTogether) {
    const std::pair<const char*, const char*> cases[] = {
        {"", ""},
        {"plain ASCII, na\u00efve", "plain ASCII, na\u00efve"},
        {"e\u0301tude", "\u00e9tude"},
        {"e\u0323\u0302", "\u1ec7"},
        {"a\u0307\u0323", "\u1ea1\u0307"},                 // marks come into order first
        {"\u212b \u212a \u2126", "\u00c5 K \u03a9"},       // Angstrom, Kelvin and Ohm
        {"\u1112\u1161\u11ab", "\ud55c"},                  // Hangul
        {"\u0958", "\u0915\u093c"},                        // never put together
        {"\u0301e", "\u0301e"},                            // a mark without a character before it
        {"\ufb01 \u00b2 \uff21", "\ufb01 \u00b2 \uff21"},  // compatible is not the same
        {"\xf0\x9d\x85\x9e", "\xf0\x9d\x85\x97\xf0\x9d\x85\xa5"},
    };
    for (const auto& [text, expected] : cases) EXPECT_EQ(composed(text), expected) << text;
}

TEST(NormalForms, BytesThatAreNoTextStayAndPartWhatIsAroundThem) {
    EXPECT_EQ(composed("e\xff\u0301"), "e\xff\u0301");
    EXPECT_EQ(composed("\xffu\u0308\xc3"), "\xff\u00fc\xc3");
    EXPECT_EQ(composed("\xed\xa0\x80o\u0308"), "\xed\xa0\x80\u00f6");  // a surrogate
}

// Some characters of every kind, marks most often.
char32_t drawn(base::Random& random) {
    switch (random.below(6)) {
        case 0:
            return static_cast<char32_t>('a' + random.below(26));
        case 1:
            return static_cast<char32_t>(0xac00 + random.below(11172));  // Hangul
        case 2:
            return static_cast<char32_t>(0x1100 + random.below(0x100));  // parts of it
        case 3:
            return static_cast<char32_t>(0xa0 + random.below(0x2000));
        default:
            return static_cast<char32_t>(0x300 + random.below(0x70));
    }
}

TEST(NormalForms, ItIsWhatTheLibraryMakesOfShortTexts) {
    base::Random random(5);
    for (int trial = 0; trial < 3000; ++trial) {
        std::string text;
        for (std::uint64_t n = random.below(12); n > 0; --n) append_utf8(text, drawn(random));
        utf8proc_uint8_t* made =
            utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
        ASSERT_NE(made, nullptr);
        const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
        const std::string once = composed(text);
        EXPECT_EQ(once, reinterpret_cast<const char*>(made)) << text;
        EXPECT_EQ(composed(once), once);
    }
}

// The library's own order of marks would take the square of their number.
TEST(NormalForms, EndlessMarksAreSorted) {
    std::string text = "a";
    std::string expected = "\u1ea1";
    for (int i = 0; i < 200'000; ++i) text += "\u0301\u0323";
    for (int i = 1; i < 200'000; ++i) expected += "\u0323";
    for (int i = 0; i < 200'000; ++i) expected += "\u0301";
    EXPECT_EQ(composed(text), expected);
}

}  // namespace
}  // namespace helix::text::normal_forms_test
