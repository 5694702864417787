#include "text/template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/hex.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

using base::Result;
using base::Status;

// Turns \r\n and \r into \n, and drops one newline at the end of the template.
std::string normalize_newlines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
        } else if (i + 1 >= source.size() || source[i + 1] != '\n') {
            out += '\n';
        }
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

bool is_digit(char c, int radix) {
    const int value = base::hex_digit(c);
    return value >= 0 && value < radix;
}

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(source) {}

    Result<std::vector<Token>> run() {
        while (at_ < source_.size()) TRY_VOID(read_data_and_tag());
        add(TokenKind::end);
        return std::move(tokens_);
    }

  private:
    enum class Tag { none, variable, block, comment, raw };

    bool looking_at(std::string_view text) const { return source_.substr(at_).starts_with(text); }

    Token& add(TokenKind kind, std::string text = {}) {
        Token token;
        token.kind = kind;
        token.line = line_;
        token.text = std::move(text);
        tokens_.push_back(std::move(token));
        return tokens_.back();
    }

    // Moves on over `bytes` bytes and counts their lines.
    void advance(std::size_t bytes) {
        const std::string_view passed = source_.substr(at_, bytes);
        line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
        if (!passed.empty()) line_starting_ = passed.back() == '\n';
        at_ += passed.size();
    }

    void skip_space() {
        std::size_t end = at_;
        std::size_t bytes = 0;
        while (end < source_.size() && is_space(code_point_at(source_, end, bytes))) end += bytes;
        advance(end - at_);
    }

    std::size_t find_tag(Tag& tag) const {
        for (std::size_t at = source_.find('{', at_); at != std::string_view::npos;
             at = source_.find('{', at + 1)) {
            const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
            tag = next == '{'   ? Tag::variable
                  : next == '%' ? Tag::block
                  : next == '#' ? Tag::comment
                                : Tag::none;
            if (tag != Tag::none) return at;
        }
        tag = Tag::none;
        return source_.size();
    }

    // Length of "{% raw %}" at `at`, its trailing white space included if it says so; 0 if it is
    // another tag.
    std::size_t raw_tag_bytes(std::size_t at, std::string_view word, bool begin) const {
        std::size_t end = at + 2;
        if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) ++end;
        const auto skip = [&] {
            std::size_t bytes = 0;
            while (end < source_.size() && is_space(code_point_at(source_, end, bytes)))
                end += bytes;
        };
        skip();
        if (!source_.substr(end).starts_with(word)) return 0;
        end += word.size();
        skip();
        const std::string_view rest = source_.substr(end);
        if (rest.starts_with("-%}")) {
            end += 3;
            skip();
            return end - at;
        }
        if (rest.starts_with("%}")) {
            const bool newline = !begin && rest.size() > 2 && rest[2] == '\n';
            return end + 2 + (newline ? 1 : 0) - at;
        }
        return !begin && rest.starts_with("+%}") ? end + 3 - at : 0;
    }

    // The text before a tag, with what the tag's sign and lstrip_blocks take from its end.
    std::string_view strip_before(std::string_view text, char sign, bool variable) const {
        if (sign == '-') return strip(text, Side::right, nullptr);
        if (sign == '+' || variable) return text;
        const std::size_t newline = text.rfind('\n');
        if (newline == std::string_view::npos && !line_starting_) return text;
        const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        return strip(text.substr(line), Side::left, nullptr).empty() ? text.substr(0, line) : text;
    }

    char sign_after(std::size_t at) const {
        const char sign = at < source_.size() ? source_[at] : '\0';
        return sign == '-' || sign == '+' ? sign : '\0';
    }

    Status read_data_and_tag() {
        Tag tag = Tag::none;
        const std::size_t begin = find_tag(tag);
        const std::string_view text = source_.substr(at_, begin - at_);
        std::size_t raw_bytes = 0;
        if (tag == Tag::block) raw_bytes = raw_tag_bytes(begin, "raw", true);
        const char sign = tag == Tag::none ? '\0' : sign_after(begin + 2);
        const std::string_view data =
            tag == Tag::none ? text : strip_before(text, sign, tag == Tag::variable);
        if (!data.empty()) add(TokenKind::data, std::string(data));
        advance(text.size());
        if (tag == Tag::none) return base::Ok{};
        if (raw_bytes > 0) {
            advance(raw_bytes);
            return read_raw();
        }
        const TokenKind kind =
            tag == Tag::variable ? TokenKind::variable_begin : TokenKind::block_begin;
        if (tag != Tag::comment) add(kind);
        advance(2 + (sign != '\0' ? 1u : 0u));
        return tag == Tag::comment ? read_comment() : read_tag(tag == Tag::variable);
    }

    Status read_comment() {
        const std::size_t end = source_.find("#}", at_);
        if (end == std::string_view::npos)
            return error_at(line_, "this comment has no end: expected '#}'");
        const char sign = end > at_ ? source_[end - 1] : '\0';
        advance(end + 2 - at_);
        if (sign == '-') {
            skip_space();
        } else if (sign != '+' && looking_at("\n")) {
            advance(1);
        }
        return base::Ok{};
    }

    Status read_raw() {
        for (std::size_t at = source_.find("{%", at_); at != std::string_view::npos;
             at = source_.find("{%", at + 1)) {
            const std::size_t bytes = raw_tag_bytes(at, "endraw", false);
            if (bytes == 0) continue;
            const std::string_view text = source_.substr(at_, at - at_);
            const std::string_view data = strip_before(text, sign_after(at + 2), false);
            if (!data.empty()) add(TokenKind::data, std::string(data));
            advance(text.size() + bytes);
            return base::Ok{};
        }
        return error_at(line_, "this raw block has no end: expected '{% endraw %}'");
    }

    // True at the end of the tag, which is then passed over.
    bool read_end(bool variable) {
        const std::string_view close = variable ? "}}" : "%}";
        if (looking_at(close)) {
            add(variable ? TokenKind::variable_end : TokenKind::block_end);
            advance(2);
            if (!variable && looking_at("\n")) advance(1);
            return true;
        }
        const std::string_view rest = source_.substr(at_);
        const bool dash = rest.starts_with("-") && rest.substr(1).starts_with(close);
        const bool plus = !variable && rest.starts_with("+") && rest.substr(1).starts_with(close);
        if (!dash && !plus) return false;
        add(variable ? TokenKind::variable_end : TokenKind::block_end);
        advance(3);
        if (dash) skip_space();
        return true;
    }

    Status read_tag(bool variable) {
        std::string open;  // brackets that wait for their partner
        while (true) {
            if (open.empty() && read_end(variable)) return base::Ok{};
            if (at_ >= source_.size()) {
                // The parser says what is missing.
                return base::Ok{};
            }
            const char c = source_[at_];
            std::size_t bytes = 0;
            const std::int32_t code_point = code_point_at(source_, at_, bytes);
            if (is_space(code_point)) {
                advance(bytes);
            } else if (c >= '0' && c <= '9') {
                TRY_VOID(read_number());
            } else if (is_word(code_point)) {
                read_name();
            } else if (c == '"' || c == '\'') {
                TRY_VOID(read_string(c));
            } else {
                TRY_VOID(read_symbol(open));
            }
        }
    }

    void read_name() {
        std::size_t end = at_;
        std::size_t bytes = 0;
        while (end < source_.size() && is_word(code_point_at(source_, end, bytes))) end += bytes;
        add(TokenKind::name, std::string(source_.substr(at_, end - at_)));
        advance(end - at_);
    }

    // The end of digits with single underscores between them.
    std::size_t digits_end(std::size_t at, int radix) const {
        while (at < source_.size()) {
            const bool underscore = source_[at] == '_' && at + 1 < source_.size();
            const std::size_t digit = at + (underscore ? 1u : 0u);
            if (!is_digit(source_[digit], radix)) break;
            at = digit + 1;
        }
        return at;
    }

    Status read_number() {
        const char mark =
            at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
        const int radix = source_[at_] != '0' ? 10
                          : mark == 'x'       ? 16
                          : mark == 'o'       ? 8
                          : mark == 'b'       ? 2
                                              : 10;
        if (radix != 10 && digits_end(at_ + 2, radix) > at_ + 2)
            return add_integer(2, digits_end(at_ + 2, radix), radix);
        std::size_t end = digits_end(at_, 10);
        const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
        const auto digit_at = [&](std::size_t at) {
            return at < source_.size() && source_[at] >= '0' && source_[at] <= '9';
        };
        bool real = false;
        if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
            end = digits_end(end + 1, 10);
            real = true;
        }
        if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
            const bool sign =
                end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
            const std::size_t exponent = end + (sign ? 2 : 1);
            if (digit_at(exponent)) {
                end = digits_end(exponent, 10);
                real = true;
            }
        }
        if (!real) return add_integer(0, end, 10);
        std::string text(source_.substr(at_, end - at_));
        std::erase(text, '_');
        add(TokenKind::real, text).real = std::strtod(text.c_str(), nullptr);
        advance(end - at_);
        return base::Ok{};
    }

    Status add_integer(std::size_t skip, std::size_t end, int radix) {
        std::string text(source_.substr(at_ + skip, end - at_ - skip));
        std::erase(text, '_');
        std::int64_t number = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, radix);
        if (parsed.ec != std::errc())
            return error_at(line_, "the integer " + text + " does not fit in 64 bits");
        if (radix == 10 && text.size() > 1 && text[0] == '0' &&
            text.find_first_not_of('0') != std::string::npos) {
            return error_at(line_, "the integer " + text + " begins with 0");
        }
        add(TokenKind::integer, text).integer = number;
        advance(end - at_);
        return base::Ok{};
    }

    Status read_string(char quote) {
        std::size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2u : 1u;
        if (end >= source_.size())
            return error_at(line_, std::string("this string has no end: expected ") + quote);
        TRY(std::string text, unescape(source_.substr(at_ + 1, end - at_ - 1)));
        add(TokenKind::string, std::move(text));
        advance(end + 1 - at_);
        return base::Ok{};
    }

    Result<std::string> unescape(std::string_view text) const {
        std::string out;
        for (std::size_t at = 0; at < text.size();) {
            if (text[at] != '\\') {
                out += text[at++];
                continue;
            }
            const char c = text[at + 1];  // read_string saw a character after each backslash
            at += 2;
            static constexpr std::string_view kLetters = "abfnrtv\\'\"";
            static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
            const std::size_t simple = kLetters.find(c);
            if (simple != std::string_view::npos) {
                out += kMeanings[simple];
            } else if (c == 'x' || c == 'u' || c == 'U') {
                TRY_VOID(append_coded(out, text, at, c == 'x' ? 2u : c == 'u' ? 4u : 8u, 16));
            } else if (c >= '0' && c <= '7') {
                --at;
                std::size_t digits = 1;
                while (digits < 3 && at + digits < text.size() && is_digit(text[at + digits], 8))
                    ++digits;
                TRY_VOID(append_coded(out, text, at, digits, 8));
            } else if (c == 'N') {
                return error_at(line_, "characters by name (\\N) are not supported");
            } else if (c != '\n') {
                out += '\\';
                out += c;
            }
        }
        return out;
    }

    Status append_coded(std::string& out, std::string_view text, std::size_t& at,
                        std::size_t digits, int radix) const {
        std::int32_t code_point = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            const bool digit = at + i < text.size() && is_digit(text[at + i], radix);
            if (!digit || code_point > 0x10FFFF)
                return error_at(line_, "a truncated or invalid escape in a string");
            code_point = code_point * radix + base::hex_digit(text[at + i]);
        }
        if (code_point > 0x10FFFF)
            return error_at(line_, "an escape in a string is beyond U+10FFFF");
        if (code_point >= 0xD800 && code_point < 0xE000)
            return error_at(line_, "an escape in a string is half a surrogate pair");
        append_utf8(out, code_point);
        at += digits;
        return base::Ok{};
    }

    Status read_symbol(std::string& open) {
        static constexpr std::array<std::string_view, 25> kSymbols{
            "==", "!=", ">=", "<=", "//", "**", "+", "-", "*", "/", "%", "~", ">",
            "<",  "=",  ".",  ":",  "|",  ",",  ";", "(", ")", "[", "]", "{"};
        std::string_view symbol = looking_at("}") ? "}" : "";
        for (const std::string_view candidate : kSymbols) {
            if (symbol.empty() && looking_at(candidate)) symbol = candidate;
        }
        if (symbol.empty()) {
            return error_at(line_,
                            "unexpected character " +
                                std::string(source_.substr(at_, code_point_bytes(source_, at_))));
        }
        if (symbol == "(") open += ')';
        if (symbol == "[") open += ']';
        if (symbol == "{") open += '}';
        if (symbol == ")" || symbol == "]" || symbol == "}") {
            if (open.empty() || open.back() != symbol[0]) {
                const std::string expected = open.empty()
                                                 ? "no bracket is open"
                                                 : std::string("expected '") + open.back() + "'";
                return error_at(line_, "unexpected '" + std::string(symbol) + "', " + expected);
            }
            open.pop_back();
        }
        add(TokenKind::symbol, std::string(symbol));
        advance(symbol.size());
        return base::Ok{};
    }

    std::string_view source_;
    std::size_t at_ = 0;
    int line_ = 1;
    bool line_starting_ = true;
    std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
    switch (token.kind) {
        case TokenKind::data:
            return "text";
        case TokenKind::variable_begin:
            return "'{{'";
        case TokenKind::variable_end:
            return "'}}'";
        case TokenKind::block_begin:
            return "'{%'";
        case TokenKind::block_end:
            return "'%}'";
        case TokenKind::string:
            return "a string";
        case TokenKind::end:
            return "the end of the template";
        default:
            return "'" + token.text + "'";
    }
}

base::Error error_at(int line, const std::string& message) {
    return base::invalid("chat template, line " + std::to_string(line) + ": " + message);
}

base::Result<std::vector<Token>> tokenize(std::string_view source) {
    if (!is_valid_utf8(source)) return base::invalid("chat template: the text is not valid UTF-8");
    const std::string text = normalize_newlines(source);
    return Lexer(text).run();
}

}  // namespace helix::text::jinja
