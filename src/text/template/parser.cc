#include "text/template/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/template/expression_parser.h"

namespace helix::text::jinja {

namespace {

constexpr int kMaxBlocks = 60;

class Parser {
  public:
    explicit Parser(std::vector<Token> tokens)
        : tokens_(std::move(tokens)), expressions_(tokens_) {}

    Result<Body> run() {
        Body body;
        TRY_VOID(parse_until({}, body));
        return body;
    }

  private:
    using Words = std::initializer_list<const char*>;

    // Parses up to a block tag that begins with one of `ends`, and stops at that word; without
    // `ends` to the end of the template.
    Status parse_until(Words ends, Body& body) {
        while (!tokens_.at(TokenKind::end)) {
            const int line = tokens_.line();
            if (tokens_.at(TokenKind::data)) {
                body.push_back({line, DataStmt{tokens_.take().text}});
            } else if (tokens_.at(TokenKind::variable_begin)) {
                tokens_.take();
                TRY(ExprPtr value, expressions_.parse_tuple(true));
                TRY_VOID(tokens_.expect(TokenKind::variable_end, "'}}'"));
                body.push_back({line, PrintStmt{std::move(value)}});
            } else {
                TRY_VOID(tokens_.expect(TokenKind::block_begin, "a tag"));
                const auto ends_here = [&](const char* word) { return tokens_.at_name(word); };
                if (std::any_of(ends.begin(), ends.end(), ends_here)) return base::Ok{};
                TRY(Stmt statement, parse_statement());
                TRY_VOID(tokens_.expect(TokenKind::block_end, "'%}'"));
                body.push_back(std::move(statement));
            }
        }
        if (ends.size() == 0) return base::Ok{};
        std::string expected;
        for (const char* word : ends)
            expected += (expected.empty() ? "'" : " or '") + std::string(word) + "'";
        return error_at(tokens_.line(), "expected " + expected + " for the '" +
                                            open_blocks_.back().first + "' of line " +
                                            std::to_string(open_blocks_.back().second) +
                                            ", found the end of the template");
    }

    // Parses the rest of an opening tag and its body.
    Status parse_body(Words ends, Body& body) {
        tokens_.skip_symbol(":");
        TRY_VOID(tokens_.expect(TokenKind::block_end, "'%}'"));
        return parse_until(ends, body);
    }

    Status parse_last_body(const char* end, Body& body) {
        TRY_VOID(parse_body({end}, body));
        return tokens_.expect_name(end);
    }

    Result<Stmt> parse_statement() {
        const int line = tokens_.line();
        TRY(const std::string word, tokens_.expect_identifier("the name of a tag"));
        if (open_blocks_.size() >= kMaxBlocks) {
            return error_at(line,
                            "blocks are nested more than " + std::to_string(kMaxBlocks) + " deep");
        }
        open_blocks_.emplace_back(word, line);
        Result<Stmt> statement = parse_tag(word, line);
        open_blocks_.pop_back();
        return statement;
    }

    Result<Stmt> parse_tag(const std::string& word, int line) {
        if (word == "if") return parse_if(line);
        if (word == "for") return parse_for(line);
        if (word == "set") return parse_set(line);
        if (word == "macro") return parse_macro(line);
        if (word == "call") return parse_call_block(line);
        if (word == "filter") return parse_filter_block(line);
        if (word == "with") return parse_with(line);
        if (word == "generation") {
            GenerationStmt generation;
            TRY_VOID(parse_last_body("endgeneration", generation.body));
            return Stmt{line, std::move(generation)};
        }
        if (word == "break" || word == "continue") {
            if (loops_ == 0) return error_at(line, "'" + word + "' outside a loop");
            return word == "break" ? Stmt{line, BreakStmt{}} : Stmt{line, ContinueStmt{}};
        }
        if (open_blocks_.size() > 1) {
            const auto& [block, block_line] = open_blocks_[open_blocks_.size() - 2];
            return error_at(line, "unknown tag '" + word + "' inside the '" + block + "' of line " +
                                      std::to_string(block_line));
        }
        return error_at(line, "unknown tag '" + word + "'");
    }

    Result<Stmt> parse_if(int line) {
        IfStmt statement;
        while (true) {
            TRY(ExprPtr condition, expressions_.parse_tuple(false));
            statement.branches.emplace_back(std::move(condition), Body{});
            TRY_VOID(parse_body({"elif", "else", "endif"}, statement.branches.back().second));
            const std::string word = tokens_.take().text;
            if (word == "elif") continue;
            if (word == "else") TRY_VOID(parse_last_body("endif", statement.otherwise));
            return Stmt{line, std::move(statement)};
        }
    }

    Result<Stmt> parse_for(int line) {
        ForStmt loop;
        TRY(loop.target, expressions_.parse_target(false, "in"));
        TRY_VOID(tokens_.expect_name("in"));
        TRY(loop.iterable, expressions_.parse_tuple(false, "recursive"));
        if (tokens_.skip_name("if")) {
            TRY(loop.condition, expressions_.parse_expression());
        }
        loop.recursive = tokens_.skip_name("recursive");
        ++loops_;
        const Status body = parse_body({"endfor", "else"}, loop.body);
        --loops_;
        if (!body.ok()) return body.error();
        if (tokens_.take().text == "else") TRY_VOID(parse_last_body("endfor", loop.otherwise));
        return Stmt{line, std::move(loop)};
    }

    Result<Stmt> parse_set(int line) {
        TRY(Target target, expressions_.parse_target(true));
        if (tokens_.skip_symbol("=")) {
            TRY(ExprPtr value, expressions_.parse_tuple(true));
            return Stmt{line, SetStmt{std::move(target), std::move(value)}};
        }
        SetBlockStmt block;
        block.target = std::move(target);
        TRY(block.filter, expressions_.parse_filters(nullptr, false));
        TRY_VOID(parse_last_body("endset", block.body));
        return Stmt{line, std::move(block)};
    }

    Status parse_signature(MacroDef& macro) {
        TRY_VOID(tokens_.expect_symbol("("));
        while (!tokens_.at_symbol(")")) {
            if (!macro.parameters.empty()) TRY_VOID(tokens_.expect_symbol(","));
            TRY(std::string name, tokens_.expect_identifier("the name of a parameter"));
            if (std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
                macro.parameters.end()) {
                return error_at(tokens_.line(), "two parameters are named '" + name + "'");
            }
            macro.parameters.push_back(std::move(name));
            if (tokens_.skip_symbol("=")) {
                TRY(ExprPtr value, expressions_.parse_expression());
                macro.defaults.push_back(std::move(value));
            } else if (!macro.defaults.empty()) {
                return error_at(tokens_.line(),
                                "a parameter without a default follows one with a default");
            }
        }
        return tokens_.expect_symbol(")");
    }

    // The body of a macro is no part of the loop around it, and uses its own special names.
    Status parse_macro_body(MacroDef& macro, const char* end) {
        const int loops = std::exchange(loops_, 0);
        const SpecialNames outer = std::exchange(expressions_.special_names(), SpecialNames{});
        const Status body = parse_last_body(end, macro.body);
        SpecialNames& used = expressions_.special_names();
        macro.uses_caller = used.caller;
        macro.uses_kwargs = used.kwargs;
        macro.uses_varargs = used.varargs;
        used = {used.caller || outer.caller, used.kwargs || outer.kwargs,
                used.varargs || outer.varargs};
        loops_ = loops;
        return body;
    }

    Result<Stmt> parse_macro(int line) {
        auto macro = std::make_unique<MacroDef>();
        TRY(macro->name, tokens_.expect_identifier("the name of the macro"));
        TRY_VOID(parse_signature(*macro));
        TRY_VOID(parse_macro_body(*macro, "endmacro"));
        return Stmt{line, MacroStmt{std::move(macro)}};
    }

    Result<Stmt> parse_call_block(int line) {
        auto caller = std::make_unique<MacroDef>();
        caller->name = "caller";
        if (tokens_.at_symbol("(")) TRY_VOID(parse_signature(*caller));
        TRY(ExprPtr call, expressions_.parse_expression());
        if (!std::holds_alternative<CallExpr>(call->node))
            return error_at(line, "expected a call after 'call'");
        TRY_VOID(parse_macro_body(*caller, "endcall"));
        return Stmt{line, CallStmt{std::move(caller), std::move(call)}};
    }

    Result<Stmt> parse_filter_block(int line) {
        FilterStmt block;
        TRY(block.filter, expressions_.parse_filters(nullptr, true));
        TRY_VOID(parse_last_body("endfilter", block.body));
        return Stmt{line, std::move(block)};
    }

    Result<Stmt> parse_with(int line) {
        WithStmt block;
        while (!tokens_.at(TokenKind::block_end)) {
            if (!block.assignments.empty()) TRY_VOID(tokens_.expect_symbol(","));
            TRY(Target target, expressions_.parse_target(false));
            TRY_VOID(tokens_.expect_symbol("="));
            TRY(ExprPtr value, expressions_.parse_expression());
            block.assignments.emplace_back(std::move(target), std::move(value));
        }
        TRY_VOID(parse_last_body("endwith", block.body));
        return Stmt{line, std::move(block)};
    }

    TokenStream tokens_;
    ExpressionParser expressions_;
    std::vector<std::pair<std::string, int>> open_blocks_;  // tag and line
    int loops_ = 0;
};

}  // namespace

Result<Body> parse_template(std::string_view source) {
    TRY(std::vector<Token> tokens, tokenize(source));
    return Parser(std::move(tokens)).run();
}

}  // namespace helix::text::jinja
