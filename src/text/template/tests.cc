#include <map>

#include "text/template/call.h"
#include "text/template/filters.h"
#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/string_ops.h"

namespace helix::text::jinja {

namespace {

struct TestCall {
    std::string_view name;
    const Value& value;
    const Arguments& arguments;
    Budget& budget;
};

using Test = Result<bool> (*)(const TestCall&);

Status no_arguments(const TestCall& call) {
    TRY_VOID(Bound::bind(call.name, "", 0, call.arguments));
    return base::Ok{};
}

Result<Value> one_argument(const TestCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "other", 1, call.arguments));
    return bound.at(0);
}

bool is_sequence(const Value& value) {
    if (const auto* sequence = value.get<SequencePtr>()) {
        const SequenceKind kind = (*sequence)->kind;
        return kind == SequenceKind::list || kind == SequenceKind::tuple ||
               kind == SequenceKind::group || kind == SequenceKind::range;
    }
    return value.is<Text>() || value.is<DictPtr>() || value.is<Undefined>();
}

bool is_kind(std::string_view name, const Value& value) {
    if (name == "defined") return !value.is<Undefined>();
    if (name == "undefined") return value.is<Undefined>();
    if (name == "none") return value.is<None>();
    if (name == "boolean") return value.is<bool>();
    if (name == "true") return value.is<bool>() && *value.get<bool>();
    if (name == "false") return value.is<bool>() && !*value.get<bool>();
    if (name == "integer") return value.is<std::int64_t>();
    if (name == "float") return value.is<double>();
    if (name == "number") return value.is<std::int64_t>() || value.is<double>() || value.is<bool>();
    if (name == "string") return value.is<Text>();
    if (name == "mapping") return value.is<DictPtr>();
    if (name == "sequence") return is_sequence(value);
    if (name == "callable")
        return value.is<CallablePtr>() || value.is<LoopPtr>() || value.is<Undefined>();
    if (name == "escaped") return value.is<Text>() && value.get<Text>()->markup;
    return value.is<SequencePtr>() || value.is<DictPtr>() || value.is<Text>() ||
           value.is<Undefined>() || value.is<LoopPtr>();  // iterable
}

Result<bool> test_kind(const TestCall& call) {
    TRY_VOID(no_arguments(call));
    return is_kind(call.name, call.value);
}

Result<bool> test_remainder(const TestCall& call) {
    Value divisor = make_int(2);
    if (call.name == "divisibleby") {
        TRY(divisor, one_argument(call));
    } else {
        TRY_VOID(no_arguments(call));
    }
    TRY(const Value rest, apply(BinaryOperator::modulo, call.value, divisor, call.budget));
    return equals(rest, make_int(call.name == "odd" ? 1 : 0), call.budget);
}

Result<bool> test_case(const TestCall& call) {
    TRY_VOID(no_arguments(call));
    TRY(const std::string text, to_text(call.value, call.budget));
    return has_characters(text, call.name == "lower" ? "islower" : "isupper");
}

Result<bool> test_compare(const TestCall& call) {
    static const std::map<std::string_view, CompareOperator> operators{
        {"eq", CompareOperator::equal},
        {"equalto", CompareOperator::equal},
        {"==", CompareOperator::equal},
        {"ne", CompareOperator::not_equal},
        {"!=", CompareOperator::not_equal},
        {"gt", CompareOperator::greater},
        {"greaterthan", CompareOperator::greater},
        {">", CompareOperator::greater},
        {"ge", CompareOperator::greater_equal},
        {">=", CompareOperator::greater_equal},
        {"lt", CompareOperator::less},
        {"lessthan", CompareOperator::less},
        {"<", CompareOperator::less},
        {"le", CompareOperator::less_equal},
        {"<=", CompareOperator::less_equal},
        {"in", CompareOperator::in}};
    TRY(const Value other, one_argument(call));
    return compare(operators.at(call.name), call.value, other, call.budget);
}

Result<bool> test_same(const TestCall& call) {
    TRY(const Value other, one_argument(call));
    const Value& value = call.value;
    if (value.state().index() != other.state().index()) return false;
    if (const auto* a = value.get<SequencePtr>()) return *a == *other.get<SequencePtr>();
    if (const auto* a = value.get<DictPtr>()) return *a == *other.get<DictPtr>();
    return equals(value, other, call.budget);
}

Result<bool> test_name(const TestCall& call) {
    TRY_VOID(no_arguments(call));
    const auto* text = call.value.get<Text>();
    if (text == nullptr) return false;
    return call.name == "filter" ? is_filter(text->str()) : is_test(text->str());
}

const std::map<std::string_view, Test>& tests() {
    static const std::map<std::string_view, Test> table = [] {
        std::map<std::string_view, Test> made;
        for (const char* name :
             {"defined", "undefined", "none", "boolean", "true", "false", "integer", "float",
              "number", "string", "mapping", "sequence", "callable", "escaped", "iterable"}) {
            made[name] = test_kind;
        }
        for (const char* name : {"eq", "equalto", "==", "ne", "!=", "gt", "greaterthan", ">", "ge",
                                 ">=", "lt", "lessthan", "<", "le", "<=", "in"}) {
            made[name] = test_compare;
        }
        for (const char* name : {"odd", "even", "divisibleby"}) made[name] = test_remainder;
        for (const char* name : {"lower", "upper"}) made[name] = test_case;
        for (const char* name : {"filter", "test"}) made[name] = test_name;
        made["sameas"] = test_same;
        return made;
    }();
    return table;
}

}  // namespace

bool is_test(std::string_view name) {
    return tests().contains(name);
}

Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments,
                        Budget& budget) {
    const auto found = tests().find(name);
    if (found == tests().end())
        return base::invalid("there is no test named '" + std::string(name) + "'");
    TRY_VOID(budget.charge(1));
    return found->second({name, value, arguments, budget});
}

}  // namespace helix::text::jinja
