#include "text/tool_calls/literal.h"

#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hex.h"
#include "text/tool_calls/json_reader.h"
#include "text/utf8.h"

namespace helix::text {
namespace {

constexpr int kMaxLiteralDepth = 64;
constexpr std::array<std::string_view, 2> kGemmaQuotes = {"<|\"|>", "<escape>"};

// Reads literals and appends them as JSON. Each method is false where the text is something else.
class LiteralReader {
  public:
    enum class Notation { python, gemma };
    LiteralReader(std::string_view text, Notation notation) : rest_(text), notation_(notation) {}

    void skip_blanks() {
        while (!rest_.empty() && is_json_blank(rest_.front())) rest_.remove_prefix(1);
    }
    bool at_end() {
        skip_blanks();
        return rest_.empty();
    }
    bool take(std::string_view text) {
        skip_blanks();
        if (!rest_.starts_with(text)) return false;
        rest_.remove_prefix(text.size());
        return true;
    }
    bool name(std::string& out);
    bool members(char end, std::string_view between, std::string& json);
    bool value(std::string& json, int depth);

  private:
    bool items(char end, std::string& json, int depth);
    bool object(std::string& json, int depth);
    bool key(std::string& json);
    bool quoted(std::string& out);
    bool python_string(char quote, std::string& out);
    bool escape(std::string& out);
    bool code_point(std::size_t digits, std::string& out);
    bool word(std::string& json);

    std::string_view rest_;
    Notation notation_;
};

bool LiteralReader::name(std::string& out) {
    skip_blanks();
    std::size_t length = 0;
    const auto is_part = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
    };
    while (length < rest_.size() && is_part(rest_[length])) ++length;
    out = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return length > 0;
}

// Members up to end; the object's brackets are added.
bool LiteralReader::members(char end, std::string_view between, std::string& json) {
    json += '{';
    bool first = true;
    while (!take({&end, 1})) {
        if (!first && !take(",")) return false;
        if (!first && take({&end, 1})) break;
        std::string key;
        skip_blanks();
        const bool in_quotes = notation_ == Notation::gemma && quoted(key);
        if ((!in_quotes && !name(key)) || !take(between)) return false;
        json += (first ? "" : ", ") + json_quoted(key) + ": ";
        if (!value(json, 0)) return false;
        first = false;
    }
    json += '}';
    return true;
}

bool LiteralReader::value(std::string& json, int depth) {
    if (depth > kMaxLiteralDepth) return false;
    skip_blanks();
    std::string text;
    if (quoted(text)) {
        json += json_quoted(text);
        return true;
    }
    if (take("[")) return items(']', json, depth);
    if (notation_ == Notation::python && take("(")) return items(')', json, depth);
    if (take("{")) return object(json, depth);
    return word(json);
}

bool LiteralReader::items(char end, std::string& json, int depth) {
    json += '[';
    bool first = true;
    while (!take({&end, 1})) {
        if (!first && !take(",")) return false;
        if (!first && take({&end, 1})) break;
        if (!first) json += ", ";
        if (!value(json, depth + 1)) return false;
        first = false;
    }
    json += ']';
    return true;
}

bool LiteralReader::object(std::string& json, int depth) {
    json += '{';
    bool first = true;
    while (!take("}")) {
        if (!first && !take(",")) return false;
        if (!first && take("}")) break;
        if (!first) json += ", ";
        if (!key(json) || !take(":")) return false;
        json += ": ";
        if (!value(json, depth + 1)) return false;
        first = false;
    }
    json += '}';
    return true;
}

bool LiteralReader::key(std::string& json) {
    skip_blanks();
    std::string text;
    if (!quoted(text) && !(notation_ == Notation::gemma && name(text))) return false;
    json += json_quoted(text);
    return true;
}

bool LiteralReader::quoted(std::string& out) {
    if (notation_ == Notation::gemma) {
        for (const std::string_view quote : kGemmaQuotes) {
            if (!rest_.starts_with(quote)) continue;
            const std::size_t end = rest_.find(quote, quote.size());
            if (end == std::string_view::npos) return false;
            out = rest_.substr(quote.size(), end - quote.size());
            rest_.remove_prefix(end + quote.size());
            return true;
        }
        return rest_.starts_with('"') && python_string('"', out);
    }
    if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'')) return false;
    return python_string(rest_.front(), out);
}

bool LiteralReader::python_string(char quote, std::string& out) {
    rest_.remove_prefix(1);
    while (!rest_.empty()) {
        const char c = rest_.front();
        rest_.remove_prefix(1);
        if (c == quote) return true;
        if (c != '\\') {
            out += c;
        } else if (!escape(out)) {
            return false;
        }
    }
    return false;
}

bool LiteralReader::escape(std::string& out) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kNames = "nrtbf\\'\"/";
    constexpr std::string_view kMeanings = "\n\r\t\b\f\\'\"/";
    const std::size_t at = kNames.find(c);
    if (at != std::string_view::npos) {
        out += kMeanings[at];
        return true;
    }
    if (c == 'x') return code_point(2, out);
    if (c == 'u') return code_point(4, out);
    if (c == 'U') return code_point(8, out);
    if (c != '\n') {  // Python keeps a backslash that means nothing
        out += '\\';
        out += c;
    }
    return true;
}

bool LiteralReader::code_point(std::size_t digits, std::string& out) {
    if (rest_.size() < digits) return false;
    char32_t value = 0;
    for (const char c : rest_.substr(0, digits)) {
        const int digit = base::hex_digit(c);
        if (digit < 0) return false;
        value = value * 16 + static_cast<char32_t>(digit);
    }
    rest_.remove_prefix(digits);
    const bool surrogate = value >= 0xD800 && value < 0xE000;
    if (value > 0x10FFFF || surrogate) {
        out += kReplacement;
    } else {
        append_utf8(out, value);
    }
    return true;
}

bool LiteralReader::word(std::string& json) {
    std::size_t length = 0;
    while (length < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[length])) != 0 ||
            std::string_view("+-._").find(rest_[length]) != std::string_view::npos)) {
        ++length;
    }
    std::string text(rest_.substr(0, length));
    if (text == "True") text = "true";
    if (text == "False") text = "false";
    if (text == "None") text = "null";
    if (!nlohmann::json::accept(text)) return false;
    rest_.remove_prefix(length);
    json += text;
    return true;
}

}  // namespace

std::optional<WrittenCall> read_python_call(std::string_view text) {
    LiteralReader reader(text, LiteralReader::Notation::python);
    WrittenCall call;
    const bool good = reader.name(call.name) && reader.take("(") &&
                      reader.members(')', "=", call.arguments) && reader.at_end();
    if (!good) return {};
    return call;
}

std::optional<WrittenCall> read_gemma_call(std::string_view text) {
    LiteralReader reader(text, LiteralReader::Notation::gemma);
    WrittenCall call;
    const bool good = reader.take("call:") && reader.name(call.name) && reader.take("{") &&
                      reader.members('}', ":", call.arguments) && reader.at_end();
    if (!good) return {};
    return call;
}

}  // namespace helix::text
