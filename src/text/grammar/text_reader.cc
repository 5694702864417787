#include "text/grammar/text_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hex.h"
#include "text/grammar/grammar.h"
#include "text/utf8.h"

namespace helix::text::grammar {
namespace {

char32_t decode(std::string_view character) {
    const auto byte = [character](std::size_t i) {
        return static_cast<char32_t>(static_cast<unsigned char>(character[i]));
    };
    if (character.size() == 1) return byte(0);
    char32_t code = byte(0) & (character.size() == 2   ? 0x1FU
                               : character.size() == 3 ? 0x0FU
                                                       : 0x07U);
    for (std::size_t i = 1; i < character.size(); ++i) code = (code << 6) | (byte(i) & 0x3FU);
    return code;
}

}  // namespace

bool TextReader::take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
}

base::Result<char32_t> TextReader::take_char() {
    if (done()) return error("unexpected end");
    const Utf8Prefix prefix = utf8_prefix(text_.substr(at_));
    if (prefix.kind != Utf8Prefix::Kind::character) return error("the text is not valid UTF-8");
    const char32_t code = decode(text_.substr(at_, prefix.length));
    at_ += prefix.length;
    return code;
}

std::optional<std::int32_t> TextReader::take_number(std::int32_t limit) {
    const std::string_view digits = take_while([](char c) { return c >= '0' && c <= '9'; });
    if (digits.empty()) return {};
    std::int64_t number = 0;
    for (const char c : digits) {
        number = number * 10 + (c - '0');
        if (number > limit) return {};
    }
    return static_cast<std::int32_t>(number);
}

std::optional<char32_t> TextReader::take_hex(int digits) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i) {
        const int value = base::hex_digit(peek());
        if (value < 0) return {};
        code = code * 16 + static_cast<char32_t>(value);
        ++at_;
    }
    return code;
}

std::string TextReader::found() const {
    if (done()) return "the end";
    const Utf8Prefix prefix = utf8_prefix(text_.substr(at_));
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (prefix.kind != Utf8Prefix::Kind::character || byte < 0x20) {
        return fmt::format("byte 0x{:02X}", byte);
    }
    return fmt::format("'{}'", text_.substr(at_, prefix.length));
}

base::Error TextReader::error(std::string_view message) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_begin =
        before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    const auto continuation = [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    };
    const std::string_view on_line = before.substr(line_begin);
    const auto column =
        1 + std::ssize(on_line) - std::count_if(on_line.begin(), on_line.end(), continuation);
    return base::invalid(
        fmt::format("line {}, column {}: {}, found {}", line, column, message, found()));
}

std::u32string code_points(std::string_view text) {
    std::u32string out;
    while (!text.empty()) {
        const std::size_t length = utf8_prefix(text).length;
        out += decode(text.substr(0, length));
        text.remove_prefix(length);
    }
    return out;
}

base::Result<std::optional<Repetition>> take_repetition(TextReader& reader) {
    using Maybe = std::optional<Repetition>;
    if (reader.take("*")) return Maybe({0, kNoLimit});
    if (reader.take("+")) return Maybe({1, kNoLimit});
    if (reader.take("?")) return Maybe({0, 1});
    if (!reader.take("{")) return Maybe();
    const std::string number =
        fmt::format("expected a number of repetitions, at most {}", kMaxRepeats);
    const std::size_t begin = reader.position();
    const auto wrong = [&](std::size_t at) {
        reader.seek(at);
        return reader.error(number);
    };
    const auto min = reader.take_number(kMaxRepeats);
    if (!min) return wrong(begin);
    Repetition repetition{*min, *min};
    if (reader.take(",")) {
        repetition.max = kNoLimit;
        if (reader.peek() != '}') {
            const std::size_t at = reader.position();
            const auto max = reader.take_number(kMaxRepeats);
            if (!max) return wrong(at);
            if (*max < *min) {
                reader.seek(at);
                return reader.error(
                    fmt::format("expected at least {} repetitions as the most", *min));
            }
            repetition.max = *max;
        }
    }
    if (!reader.take("}")) return reader.error("expected '}' after the repetitions");
    return Maybe(repetition);
}

}  // namespace helix::text::grammar
