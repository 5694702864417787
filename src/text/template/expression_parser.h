#pragma once

#include <string_view>

#include "text/template/ast.h"
#include "text/template/token_stream.h"

namespace helix::text::jinja {

// Which of the names that every macro has are used: they decide what arguments it accepts.
struct SpecialNames {
    bool caller = false;
    bool kwargs = false;
    bool varargs = false;
};

class ExpressionParser {
  public:
    explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

    Result<ExprPtr> parse_expression(bool with_conditional = true);
    // Parses one expression, or a tuple without brackets; `end` is a name that also ends it.
    Result<ExprPtr> parse_tuple(bool with_conditional, std::string_view end = {});
    // Parses |name(arguments)|..., from after the pipe if `inline_start`. A null value stands for a
    // block's body.
    Result<ExprPtr> parse_filters(ExprPtr value, bool inline_start);
    Result<Target> parse_target(bool with_namespace, std::string_view end = {});

    SpecialNames& special_names() { return special_names_; }

  private:
    Result<ExprPtr> parse_or();
    Result<ExprPtr> parse_and();
    Result<ExprPtr> parse_not();
    Result<ExprPtr> parse_compare();
    Result<ExprPtr> parse_sum();
    Result<ExprPtr> parse_concat();
    Result<ExprPtr> parse_product();
    Result<ExprPtr> parse_power();
    Result<ExprPtr> parse_unary(bool with_filters);
    Result<ExprPtr> parse_primary();
    Result<ExprPtr> parse_brackets();
    Result<ExprPtr> parse_list();
    Result<ExprPtr> parse_dict();
    Result<ExprPtr> parse_postfix(ExprPtr value);
    Result<ExprPtr> parse_filters_and_tests(ExprPtr value);
    Result<ExprPtr> parse_attribute(ExprPtr value);
    Result<ExprPtr> parse_subscript(ExprPtr value);
    Result<ExprPtr> parse_call(ExprPtr callee);
    Result<ExprPtr> parse_test(ExprPtr value);
    Result<std::string> parse_dotted(const char* what);  // name.name
    Result<CallArguments> parse_arguments();
    Status parse_argument(CallArguments& arguments);
    Result<Target> parse_target_item();
    bool at_tuple_end(std::string_view end) const;

    TokenStream& tokens_;
    SpecialNames special_names_;
    int depth_ = 0;
};

}  // namespace helix::text::jinja
