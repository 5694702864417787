#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::text::jinja {

enum class TokenKind {
    data,            // text between tags, after whitespace control
    variable_begin,  // {{
    variable_end,
    block_begin,  // {%
    block_end,
    name,
    string,
    integer,
    real,
    symbol,  // operators and brackets; `text` holds the characters
    end,
};

struct Token {
    TokenKind kind = TokenKind::end;
    int line = 1;
    std::string text;  // data, name, symbol; a string's value with its escapes resolved
    std::int64_t integer = 0;
    double real = 0;

    bool is(TokenKind wanted, std::string_view wanted_text) const {
        return kind == wanted && text == wanted_text;
    }
};

// What a token is, for messages.
std::string describe(const Token& token);

// Jinja's tokens with trim_blocks and lstrip_blocks on: the newline after a block tag goes, and so
// does the white space before a block tag that begins its line. Comments and raw blocks are
// resolved here. The last token is `end`.
base::Result<std::vector<Token>> tokenize(std::string_view source);

// An error that says where in the template it is.
base::Error error_at(int line, const std::string& message);

}  // namespace helix::text::jinja
