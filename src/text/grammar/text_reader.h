#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar/char_set.h"

namespace helix::text::grammar {

// Reads UTF-8 text character by character and says where it stands.
class TextReader {
  public:
    explicit TextReader(std::string_view text) : text_(text) {}

    bool done() const { return at_ == text_.size(); }
    std::size_t position() const { return at_; }
    void seek(std::size_t position) { at_ = position; }
    // The byte at hand, or one `ahead` bytes further; '\0' after the end.
    char peek(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    bool take(std::string_view expected);
    // Takes a whole character. Error invalid: the end, or bytes that are not UTF-8.
    base::Result<char32_t> take_char();
    // Takes a run of characters for which belongs() is true.
    template <typename Belongs>
    std::string_view take_while(const Belongs& belongs) {
        const std::size_t from = at_;
        while (!done() && belongs(text_[at_])) ++at_;
        return text_.substr(from, at_ - from);
    }
    // Takes decimal digits as a number; nothing when there are none, or it is above limit.
    std::optional<std::int32_t> take_number(std::int32_t limit);
    // Takes this many hexadecimal digits.
    std::optional<char32_t> take_hex(int digits);

    // An error like "line 3, column 5: message, found 'x'".
    base::Error error(std::string_view message) const;

  private:
    std::string found() const;

    std::string_view text_;
    std::size_t at_ = 0;
};

// The code points of UTF-8 text.
std::u32string code_points(std::string_view text);

// What follows an item: * + ? {m} {m,} {m,n}.
struct Repetition {
    std::int32_t min = 1;
    std::int32_t max = 1;  // kNoLimit
};
// Takes a repetition; nothing when none follows.
base::Result<std::optional<Repetition>> take_repetition(TextReader& reader);

}  // namespace helix::text::grammar
