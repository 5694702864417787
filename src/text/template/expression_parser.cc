#include "text/template/expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>

namespace helix::text::jinja {

namespace {

constexpr int kMaxHeight = 150;
constexpr int kMaxDepth = 60;

int height_of(const ExprPtr& expr) {
    return expr ? expr->height : 0;
}

int height_of(const CallArguments& arguments) {
    int height = std::max(height_of(arguments.more_positional), height_of(arguments.more_named));
    for (const auto& argument : arguments.positional)
        height = std::max(height, height_of(argument));
    for (const auto& [name, argument] : arguments.named)
        height = std::max(height, height_of(argument));
    return height;
}

// `below` is the height of the tallest part.
template <typename Node>
Result<ExprPtr> make(int line, int below, Node node) {
    if (below >= kMaxHeight) {
        return error_at(line,
                        "the expression has more than " + std::to_string(kMaxHeight) + " levels");
    }
    auto expr = std::make_unique<Expr>();
    expr->line = line;
    expr->height = below + 1;
    expr->node = std::move(node);
    return expr;
}

Result<ExprPtr> make_literal(int line, Value value) {
    return make(line, 0, LiteralExpr{std::move(value)});
}

// Counts one level of recursion while it lives.
class Level {
  public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool too_deep() const { return depth_ > kMaxDepth; }

  private:
    int& depth_;
};

base::Error too_deep(int line) {
    return error_at(line,
                    "the expression is nested more than " + std::to_string(kMaxDepth) + " deep");
}

std::optional<BinaryOperator> binary_operator(const Token& token,
                                              std::initializer_list<BinaryOperator> wanted) {
    if (token.kind != TokenKind::symbol) return std::nullopt;
    for (const BinaryOperator op : wanted) {
        if (token.text == to_string(op)) return op;
    }
    return std::nullopt;
}

std::optional<CompareOperator> compare_operator(TokenStream& tokens) {
    static constexpr std::array<CompareOperator, 6> kSymbols{
        CompareOperator::equal,      CompareOperator::not_equal, CompareOperator::less,
        CompareOperator::less_equal, CompareOperator::greater,   CompareOperator::greater_equal};
    for (const CompareOperator op : kSymbols) {
        if (tokens.skip_symbol(to_string(op))) return op;
    }
    if (tokens.skip_name("in")) return CompareOperator::in;
    if (tokens.at_name("not") && tokens.next().is(TokenKind::name, "in")) {
        tokens.take();
        tokens.take();
        return CompareOperator::not_in;
    }
    return std::nullopt;
}

}  // namespace

Result<ExprPtr> ExpressionParser::parse_expression(bool with_conditional) {
    const Level level(depth_);
    if (level.too_deep()) return too_deep(tokens_.line());
    const int line = tokens_.line();
    TRY(ExprPtr value, parse_or());
    while (with_conditional && tokens_.skip_name("if")) {
        TRY(ExprPtr condition, parse_or());
        ExprPtr otherwise;
        if (tokens_.skip_name("else")) {
            TRY(otherwise, parse_expression());
        }
        const int below = std::max({height_of(value), height_of(condition), height_of(otherwise)});
        TRY(value,
            make(line, below,
                 ConditionalExpr{std::move(condition), std::move(value), std::move(otherwise)}));
    }
    return value;
}

Result<ExprPtr> ExpressionParser::parse_or() {
    TRY(ExprPtr left, parse_and());
    while (tokens_.at_name("or")) {
        const int line = tokens_.take().line;
        TRY(ExprPtr right, parse_and());
        const int below = std::max(height_of(left), height_of(right));
        TRY(left, make(line, below, LogicalExpr{false, std::move(left), std::move(right)}));
    }
    return left;
}

Result<ExprPtr> ExpressionParser::parse_and() {
    TRY(ExprPtr left, parse_not());
    while (tokens_.at_name("and")) {
        const int line = tokens_.take().line;
        TRY(ExprPtr right, parse_not());
        const int below = std::max(height_of(left), height_of(right));
        TRY(left, make(line, below, LogicalExpr{true, std::move(left), std::move(right)}));
    }
    return left;
}

Result<ExprPtr> ExpressionParser::parse_not() {
    if (!tokens_.at_name("not")) return parse_compare();
    const Level level(depth_);
    if (level.too_deep()) return too_deep(tokens_.line());
    const int line = tokens_.take().line;
    TRY(ExprPtr operand, parse_not());
    const int below = height_of(operand);
    return make(line, below, UnaryExpr{UnaryOperator::logical_not, std::move(operand)});
}

Result<ExprPtr> ExpressionParser::parse_compare() {
    const int line = tokens_.line();
    TRY(ExprPtr first, parse_sum());
    CompareExpr compare{nullptr, {}};
    int below = height_of(first);
    while (const auto op = compare_operator(tokens_)) {
        TRY(ExprPtr operand, parse_sum());
        below = std::max(below, height_of(operand));
        compare.rest.emplace_back(*op, std::move(operand));
    }
    if (compare.rest.empty()) return first;
    compare.first = std::move(first);
    return make(line, below, std::move(compare));
}

Result<ExprPtr> ExpressionParser::parse_sum() {
    TRY(ExprPtr left, parse_concat());
    while (const auto op = binary_operator(tokens_.current(),
                                           {BinaryOperator::add, BinaryOperator::subtract})) {
        const int line = tokens_.take().line;
        TRY(ExprPtr right, parse_concat());
        const int below = std::max(height_of(left), height_of(right));
        TRY(left, make(line, below, BinaryExpr{*op, std::move(left), std::move(right)}));
    }
    return left;
}

Result<ExprPtr> ExpressionParser::parse_concat() {
    const int line = tokens_.line();
    TRY(ExprPtr first, parse_product());
    if (!tokens_.at_symbol("~")) return first;
    ConcatExpr concat;
    int below = height_of(first);
    concat.parts.push_back(std::move(first));
    while (tokens_.skip_symbol("~")) {
        TRY(ExprPtr part, parse_product());
        below = std::max(below, height_of(part));
        concat.parts.push_back(std::move(part));
    }
    return make(line, below, std::move(concat));
}

Result<ExprPtr> ExpressionParser::parse_product() {
    TRY(ExprPtr left, parse_power());
    while (const auto op = binary_operator(
               tokens_.current(), {BinaryOperator::multiply, BinaryOperator::divide,
                                   BinaryOperator::floor_divide, BinaryOperator::modulo})) {
        const int line = tokens_.take().line;
        TRY(ExprPtr right, parse_power());
        const int below = std::max(height_of(left), height_of(right));
        TRY(left, make(line, below, BinaryExpr{*op, std::move(left), std::move(right)}));
    }
    return left;
}

Result<ExprPtr> ExpressionParser::parse_power() {
    TRY(ExprPtr left, parse_unary(true));
    while (tokens_.at_symbol("**")) {
        const int line = tokens_.take().line;
        TRY(ExprPtr right, parse_unary(true));
        const int below = std::max(height_of(left), height_of(right));
        TRY(left, make(line, below,
                       BinaryExpr{BinaryOperator::power, std::move(left), std::move(right)}));
    }
    return left;
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filters) {
    const Level level(depth_);
    if (level.too_deep()) return too_deep(tokens_.line());
    ExprPtr value;
    if (tokens_.at_symbol("-") || tokens_.at_symbol("+")) {
        const Token sign = tokens_.take();
        TRY(ExprPtr operand, parse_unary(false));
        const int below = height_of(operand);
        const UnaryOperator op = sign.text == "-" ? UnaryOperator::negate : UnaryOperator::plus;
        TRY(value, make(sign.line, below, UnaryExpr{op, std::move(operand)}));
    } else {
        TRY(value, parse_primary());
    }
    TRY(value, parse_postfix(std::move(value)));
    if (!with_filters) return value;
    return parse_filters_and_tests(std::move(value));
}

Result<ExprPtr> ExpressionParser::parse_primary() {
    const int line = tokens_.line();
    switch (tokens_.current().kind) {
        case TokenKind::name: {
            std::string name = tokens_.take().text;
            if (name == "true" || name == "True") return make_literal(line, make_bool(true));
            if (name == "false" || name == "False") return make_literal(line, make_bool(false));
            if (name == "none" || name == "None") return make_literal(line, Value());
            special_names_.caller = special_names_.caller || name == "caller";
            special_names_.kwargs = special_names_.kwargs || name == "kwargs";
            special_names_.varargs = special_names_.varargs || name == "varargs";
            return make(line, 0, NameExpr{std::move(name)});
        }
        case TokenKind::string: {
            std::string text;
            while (tokens_.at(TokenKind::string)) text += tokens_.take().text;
            return make_literal(line, make_text(std::move(text)));
        }
        case TokenKind::integer:
            return make_literal(line, make_int(tokens_.take().integer));
        case TokenKind::real:
            return make_literal(line, Value(tokens_.take().real));
        default:
            return parse_brackets();
    }
}

Result<ExprPtr> ExpressionParser::parse_brackets() {
    if (tokens_.at_symbol("[")) return parse_list();
    if (tokens_.at_symbol("{")) return parse_dict();
    if (!tokens_.at_symbol("(")) return tokens_.unexpected("an expression");
    const int line = tokens_.take().line;
    if (tokens_.skip_symbol(")")) return make(line, 0, ListExpr{{}, true});
    TRY(ExprPtr inner, parse_tuple(true));
    TRY_VOID(tokens_.expect_symbol(")"));
    return inner;
}

bool ExpressionParser::at_tuple_end(std::string_view end) const {
    return tokens_.at(TokenKind::variable_end) || tokens_.at(TokenKind::block_end) ||
           tokens_.at_symbol(")") || (!end.empty() && tokens_.at_name(end));
}

Result<ExprPtr> ExpressionParser::parse_tuple(bool with_conditional, std::string_view end) {
    const int line = tokens_.line();
    ListExpr tuple{{}, true};
    int below = 0;
    bool comma = false;
    while (!at_tuple_end(end)) {
        TRY(ExprPtr item, parse_expression(with_conditional));
        below = std::max(below, height_of(item));
        tuple.items.push_back(std::move(item));
        if (!tokens_.skip_symbol(",")) break;
        comma = true;
    }
    if (comma) return make(line, below, std::move(tuple));
    if (tuple.items.empty()) return tokens_.unexpected("an expression");
    return std::move(tuple.items.front());
}

Result<ExprPtr> ExpressionParser::parse_list() {
    const int line = tokens_.take().line;
    ListExpr list;
    int below = 0;
    while (!tokens_.at_symbol("]")) {
        if (!list.items.empty()) {
            TRY_VOID(tokens_.expect_symbol(","));
            if (tokens_.at_symbol("]")) break;
        }
        TRY(ExprPtr item, parse_expression());
        below = std::max(below, height_of(item));
        list.items.push_back(std::move(item));
    }
    tokens_.take();
    return make(line, below, std::move(list));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
    const int line = tokens_.take().line;
    DictExpr dict;
    int below = 0;
    while (!tokens_.at_symbol("}")) {
        if (!dict.entries.empty()) {
            TRY_VOID(tokens_.expect_symbol(","));
            if (tokens_.at_symbol("}")) break;
        }
        TRY(ExprPtr key, parse_expression());
        TRY_VOID(tokens_.expect_symbol(":"));
        TRY(ExprPtr value, parse_expression());
        below = std::max({below, height_of(key), height_of(value)});
        dict.entries.emplace_back(std::move(key), std::move(value));
    }
    tokens_.take();
    return make(line, below, std::move(dict));
}

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr value) {
    while (true) {
        if (tokens_.at_symbol(".")) {
            TRY(value, parse_attribute(std::move(value)));
        } else if (tokens_.at_symbol("[")) {
            TRY(value, parse_subscript(std::move(value)));
        } else if (tokens_.at_symbol("(")) {
            TRY(value, parse_call(std::move(value)));
        } else {
            return value;
        }
    }
}

Result<ExprPtr> ExpressionParser::parse_filters_and_tests(ExprPtr value) {
    while (true) {
        if (tokens_.at_symbol("|")) {
            TRY(value, parse_filters(std::move(value), false));
        } else if (tokens_.at_name("is")) {
            TRY(value, parse_test(std::move(value)));
        } else if (tokens_.at_symbol("(")) {
            TRY(value, parse_call(std::move(value)));
        } else {
            return value;
        }
    }
}

Result<ExprPtr> ExpressionParser::parse_attribute(ExprPtr value) {
    const int line = tokens_.take().line;
    const int below = height_of(value);
    if (tokens_.at(TokenKind::name)) {
        return make(line, below, AttributeExpr{std::move(value), tokens_.take().text});
    }
    if (!tokens_.at(TokenKind::integer)) return tokens_.unexpected("a name or number after '.'");
    TRY(ExprPtr index, make_literal(line, make_int(tokens_.take().integer)));
    return make(line, below, ItemExpr{std::move(value), std::move(index)});
}

Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr value) {
    const int line = tokens_.take().line;
    const auto at_end = [&] { return tokens_.at_symbol("]") || tokens_.at_symbol(","); };
    std::array<ExprPtr, 3> bounds;
    std::size_t colons = 0;
    int below = height_of(value);
    while (colons < 3 && !at_end()) {
        if (!tokens_.at_symbol(":")) {
            TRY(bounds[colons], parse_expression());
            below = std::max(below, height_of(bounds[colons]));
        }
        if (colons == 2 || !tokens_.skip_symbol(":")) break;
        ++colons;
    }
    if (tokens_.at_symbol(",")) return tokens_.unexpected("']' (an index is one value)");
    if (colons == 0 && !bounds[0]) return tokens_.unexpected("an index");
    TRY_VOID(tokens_.expect_symbol("]"));
    if (colons == 0) return make(line, below, ItemExpr{std::move(value), std::move(bounds[0])});
    return make(line, below,
                SliceExpr{std::move(value), std::move(bounds[0]), std::move(bounds[1]),
                          std::move(bounds[2])});
}

Status ExpressionParser::parse_argument(CallArguments& arguments) {
    if (tokens_.skip_symbol("*")) {
        if (arguments.more_positional || arguments.more_named)
            return tokens_.unexpected("one '*' argument, before '**'");
        TRY(arguments.more_positional, parse_expression());
        return base::Ok{};
    }
    if (arguments.more_named) return tokens_.unexpected("')' after the '**' argument");
    if (tokens_.skip_symbol("**")) {
        TRY(arguments.more_named, parse_expression());
        return base::Ok{};
    }
    if (tokens_.at(TokenKind::name) && tokens_.next().is(TokenKind::symbol, "=")) {
        std::string name = tokens_.take().text;
        tokens_.take();
        const bool twice = std::any_of(arguments.named.begin(), arguments.named.end(),
                                       [&](const auto& named) { return named.first == name; });
        if (twice) return error_at(tokens_.line(), "the argument '" + name + "' is given twice");
        TRY(ExprPtr value, parse_expression());
        arguments.named.emplace_back(std::move(name), std::move(value));
        return base::Ok{};
    }
    if (!arguments.named.empty() || arguments.more_positional) {
        return tokens_.unexpected("name=value, as named arguments come last");
    }
    TRY(ExprPtr value, parse_expression());
    arguments.positional.push_back(std::move(value));
    return base::Ok{};
}

Result<CallArguments> ExpressionParser::parse_arguments() {
    TRY_VOID(tokens_.expect_symbol("("));
    CallArguments arguments;
    bool first = true;
    while (!tokens_.at_symbol(")")) {
        if (!first) {
            TRY_VOID(tokens_.expect_symbol(","));
            if (tokens_.at_symbol(")")) break;
        }
        first = false;
        TRY_VOID(parse_argument(arguments));
    }
    tokens_.take();
    return arguments;
}

Result<ExprPtr> ExpressionParser::parse_call(ExprPtr callee) {
    const int line = tokens_.line();
    TRY(CallArguments arguments, parse_arguments());
    const int below = std::max(height_of(callee), height_of(arguments));
    return make(line, below, CallExpr{std::move(callee), std::move(arguments)});
}

Result<std::string> ExpressionParser::parse_dotted(const char* what) {
    TRY(std::string name, tokens_.expect_identifier(what));
    while (tokens_.skip_symbol(".")) {
        TRY(const std::string part, tokens_.expect_identifier(what));
        name += "." + part;
    }
    return name;
}

Result<ExprPtr> ExpressionParser::parse_filters(ExprPtr value, bool inline_start) {
    while (inline_start || tokens_.at_symbol("|")) {
        if (!inline_start) tokens_.take();
        inline_start = false;
        const int line = tokens_.line();
        TRY(std::string name, parse_dotted("the name of a filter"));
        CallArguments arguments;
        if (tokens_.at_symbol("(")) {
            TRY(arguments, parse_arguments());
        }
        const int below = std::max(height_of(value), height_of(arguments));
        TRY(value,
            make(line, below, FilterExpr{std::move(value), std::move(name), std::move(arguments)}));
    }
    return value;
}

Result<ExprPtr> ExpressionParser::parse_test(ExprPtr value) {
    const int line = tokens_.take().line;
    const bool negated = tokens_.skip_name("not");
    TRY(std::string name, parse_dotted("the name of a test"));
    CallArguments arguments;
    const TokenKind kind = tokens_.current().kind;
    const bool operand = kind == TokenKind::name || kind == TokenKind::string ||
                         kind == TokenKind::integer || kind == TokenKind::real ||
                         tokens_.at_symbol("[") || tokens_.at_symbol("{");
    if (tokens_.at_symbol("(")) {
        TRY(arguments, parse_arguments());
    } else if (operand && !tokens_.at_name("else") && !tokens_.at_name("or") &&
               !tokens_.at_name("and")) {
        if (tokens_.at_name("is")) return error_at(line, "tests with 'is' cannot be chained");
        TRY(ExprPtr argument, parse_primary());
        TRY(argument, parse_postfix(std::move(argument)));
        arguments.positional.push_back(std::move(argument));
    }
    int below = std::max(height_of(value), height_of(arguments));
    TRY(ExprPtr test,
        make(line, below, TestExpr{std::move(value), std::move(name), std::move(arguments)}));
    if (!negated) return test;
    below = height_of(test);
    return make(line, below, UnaryExpr{UnaryOperator::logical_not, std::move(test)});
}

Result<Target> ExpressionParser::parse_target_item() {
    const Level level(depth_);
    if (level.too_deep()) return too_deep(tokens_.line());
    Target target;
    target.line = tokens_.line();
    if (tokens_.skip_symbol("(")) {
        TRY(target, parse_target(false));
        TRY_VOID(tokens_.expect_symbol(")"));
        return target;
    }
    TRY(target.name, tokens_.expect_identifier("a name to assign to"));
    static constexpr std::array<std::string_view, 6> kConstants{"true",  "True", "false",
                                                                "False", "none", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), target.name) != kConstants.end()) {
        return error_at(target.line, "cannot assign to '" + target.name + "'");
    }
    return target;
}

Result<Target> ExpressionParser::parse_target(bool with_namespace, std::string_view end) {
    const int line = tokens_.line();
    if (with_namespace && tokens_.next().is(TokenKind::symbol, ".")) {
        Target target;
        target.line = line;
        TRY(target.name, tokens_.expect_identifier("a name to assign to"));
        tokens_.take();
        TRY(target.attribute, tokens_.expect_identifier("an attribute to assign to"));
        return target;
    }
    Target tuple;
    tuple.line = line;
    bool comma = false;
    while (tuple.parts.empty() || !(at_tuple_end(end) || tokens_.at_symbol("="))) {
        TRY(Target part, parse_target_item());
        tuple.parts.push_back(std::move(part));
        if (!tokens_.skip_symbol(",")) break;
        comma = true;
    }
    if (!comma) return Target(std::move(tuple.parts.front()));
    tuple.is_tuple = true;
    return tuple;
}

}  // namespace helix::text::jinja
