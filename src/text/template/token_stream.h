#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/lexer.h"

namespace helix::text::jinja {

// The tokens of a template and a place in them.
class TokenStream {
  public:
    explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    const Token& current() const { return tokens_[at_]; }
    const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    int line() const { return current().line; }

    bool at(TokenKind kind) const { return current().kind == kind; }
    bool at_symbol(std::string_view text) const { return current().is(TokenKind::symbol, text); }
    bool at_name(std::string_view text) const { return current().is(TokenKind::name, text); }

    Token take() {
        const Token token = current();
        if (at_ + 1 < tokens_.size()) ++at_;
        return token;
    }
    bool skip_symbol(std::string_view text) { return at_symbol(text) && (take(), true); }
    bool skip_name(std::string_view text) { return at_name(text) && (take(), true); }

    base::Status expect_symbol(std::string_view text) {
        if (skip_symbol(text)) return base::Ok{};
        return unexpected("'" + std::string(text) + "'");
    }
    base::Status expect_name(std::string_view text) {
        if (skip_name(text)) return base::Ok{};
        return unexpected("'" + std::string(text) + "'");
    }
    base::Status expect(TokenKind kind, const char* what) {
        if (!at(kind)) return unexpected(what);
        take();
        return base::Ok{};
    }
    base::Result<std::string> expect_identifier(const char* what) {
        if (!at(TokenKind::name)) return unexpected(what);
        return take().text;
    }
    base::Error unexpected(const std::string& wanted) const {
        return error_at(line(), "expected " + wanted + ", found " + describe(current()));
    }

  private:
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
};

}  // namespace helix::text::jinja
