#include "text/template/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/escape.h"
#include "text/template/call.h"
#include "text/template/repr.h"
#include "text/template/string_format.h"
#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

base::Error unsupported(const char* op, const Value& left, const Value& right) {
    return base::invalid("unsupported operand types for " + std::string(op) + ": '" +
                         type_name(left) + "' and '" + type_name(right) + "'");
}

base::Error overflow(const char* op) {
    return base::Error{base::Errc::too_large,
                       "the result of " + std::string(op) + " does not fit in a 64-bit integer"};
}

bool is_number(const Value& value) {
    return value.is<std::int64_t>() || value.is<bool>() || value.is<double>();
}

double as_double(const Value& value) {
    if (const auto* number = value.get<double>()) return *number;
    std::int64_t storage = 0;
    return static_cast<double>(*as_int(value, storage));
}

bool is_tuple(const Sequence& sequence) {
    return sequence.kind == SequenceKind::tuple || sequence.kind == SequenceKind::group;
}

// Whether two sequences can be compared: list with list, tuple with tuple, range with range.
bool same_family(const Sequence& a, const Sequence& b) {
    return a.kind == b.kind || (is_tuple(a) && is_tuple(b));
}

bool is_ordered_family(const Sequence& sequence) {
    return sequence.kind == SequenceKind::list || is_tuple(sequence);
}

Result<Value> integer_power(std::int64_t base_number, std::int64_t exponent) {
    if (exponent < 0) {
        if (base_number == 0) return base::invalid("0.0 cannot be raised to a negative power");
        return Value(std::pow(static_cast<double>(base_number), static_cast<double>(exponent)));
    }
    std::int64_t result = 1;
    for (std::int64_t i = 0; i < exponent; ++i) {
        if (__builtin_mul_overflow(result, base_number, &result)) return overflow("**");
        if (result == 0 || (result == 1 && base_number == 1)) break;
        if (base_number == -1) return make_int(exponent % 2 == 0 ? 1 : -1);
    }
    return make_int(result);
}

Result<Value> integer_arithmetic(BinaryOperator op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    switch (op) {
        case BinaryOperator::add:
            if (__builtin_add_overflow(a, b, &result)) return overflow("+");
            return make_int(result);
        case BinaryOperator::subtract:
            if (__builtin_sub_overflow(a, b, &result)) return overflow("-");
            return make_int(result);
        case BinaryOperator::multiply:
            if (__builtin_mul_overflow(a, b, &result)) return overflow("*");
            return make_int(result);
        case BinaryOperator::divide:
            if (b == 0) return base::invalid("division by zero");
            return Value(static_cast<double>(a) / static_cast<double>(b));
        case BinaryOperator::floor_divide:
        case BinaryOperator::modulo: {
            if (b == 0) return base::invalid("integer division or modulo by zero");
            if (b == -1) {
                if (op == BinaryOperator::modulo) return make_int(0);
                if (a == std::numeric_limits<std::int64_t>::min()) return overflow("//");
            }
            const bool adjust = a % b != 0 && (a % b < 0) != (b < 0);
            if (op == BinaryOperator::modulo) return make_int(a % b + (adjust ? b : 0));
            return make_int(a / b - (adjust ? 1 : 0));
        }
        case BinaryOperator::power:
            return integer_power(a, b);
    }
    return base::invalid("unknown operator");
}

double python_modulo(double a, double b) {
    double rest = std::fmod(a, b);
    if (rest != 0.0) {
        if ((b < 0.0) != (rest < 0.0)) rest += b;
        return rest;
    }
    return std::copysign(0.0, b);
}

double python_floor_divide(double a, double b) {
    const double quotient = (a - python_modulo(a, b)) / b;
    if (quotient == 0.0) return std::copysign(0.0, a / b);
    const double floored = std::floor(quotient);
    return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

Result<Value> float_arithmetic(BinaryOperator op, double a, double b) {
    switch (op) {
        case BinaryOperator::add:
            return Value(a + b);
        case BinaryOperator::subtract:
            return Value(a - b);
        case BinaryOperator::multiply:
            return Value(a * b);
        case BinaryOperator::divide:
        case BinaryOperator::floor_divide:
        case BinaryOperator::modulo:
            if (b == 0.0) return base::invalid("float division by zero");
            if (op == BinaryOperator::divide) return Value(a / b);
            return Value(op == BinaryOperator::modulo ? python_modulo(a, b)
                                                      : python_floor_divide(a, b));
        case BinaryOperator::power:
            if (a == 0.0 && b < 0.0)
                return base::invalid("0.0 cannot be raised to a negative power");
            if (a < 0.0 && std::isfinite(a) && b != std::floor(b)) {
                return base::invalid("a negative number to a fractional power is not supported");
            }
            const double result = std::pow(a, b);
            if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
                return base::Error{base::Errc::too_large, "the result of ** is out of range"};
            }
            return Value(result);
    }
    return base::invalid("unknown operator");
}

Result<Value> add_text(const Text& a, const Text& b, Budget& budget) {
    const bool markup = a.markup || b.markup;
    TRY_VOID(budget.charge_text(a.str().size() + b.str().size()));
    std::string joined = markup && !a.markup ? base::escaped_markup(a.str()) : a.str();
    joined += markup && !b.markup ? base::escaped_markup(b.str()) : b.str();
    return make_text(std::move(joined), budget, markup);
}

Result<Value> add_sequences(const Sequence& a, const Sequence& b, Budget& budget) {
    TRY_VOID(budget.charge(a.items.size() + b.items.size()));
    std::vector<Value> items = a.items;
    items.insert(items.end(), b.items.begin(), b.items.end());
    return make_sequence(std::move(items), budget,
                         a.kind == SequenceKind::list ? a.kind : SequenceKind::tuple);
}

Result<Value> repeat(const Value& value, std::int64_t count, Budget& budget) {
    const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
    if (const auto* text = value.get<Text>()) {
        TextBuilder out(budget);
        TRY_VOID(out.append_repeated(text->str(), text->str().empty() ? 0 : times));
        return make_text(out.take(), budget, text->markup);
    }
    const Sequence& sequence = **value.get<SequencePtr>();
    if (!sequence.items.empty()) {
        if (times > budget.limits().steps / sequence.items.size())
            return budget.charge(~0ull).error();
        TRY_VOID(budget.charge(times * sequence.items.size()));
    }
    std::vector<Value> items;
    for (std::size_t i = 0; i < times && !sequence.items.empty(); ++i) {
        items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    }
    return make_sequence(std::move(items), budget,
                         is_tuple(sequence) ? SequenceKind::tuple : sequence.kind);
}

bool is_repeatable(const Value& value) {
    if (value.is<Text>()) return true;
    const auto* sequence = value.get<SequencePtr>();
    return sequence != nullptr && is_ordered_family(**sequence);
}

Result<bool> sequences_equal(const Sequence& a, const Sequence& b, Budget& budget) {
    if (&a == &b) return true;
    if (!same_family(a, b) || a.kind == SequenceKind::generator || a.kind == SequenceKind::values)
        return false;
    if (a.items.size() != b.items.size()) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
        TRY(const bool same, equals(a.items[i], b.items[i], budget));
        if (!same) return false;
    }
    return true;
}

Result<bool> dicts_equal(const Dict& a, const Dict& b, Budget& budget) {
    if (&a == &b) return true;
    if (a.size() != b.size()) return false;
    for (const auto& entry : a.entries()) {
        TRY(const Value* other, b.find(entry.key));
        if (other == nullptr) return false;
        TRY(const bool same, equals(entry.value, *other, budget));
        if (!same) return false;
    }
    return true;
}

Result<bool> sequence_less(const Sequence& a, const Sequence& b, Budget& budget) {
    const std::size_t common = std::min(a.items.size(), b.items.size());
    for (std::size_t i = 0; i < common; ++i) {
        TRY(const bool same, equals(a.items[i], b.items[i], budget));
        if (!same) return less(a.items[i], b.items[i], budget);
    }
    return a.items.size() < b.items.size();
}

bool is_identical(const Value& a, const Value& b) {
    if (const auto* x = a.get<NamespacePtr>())
        return b.is<NamespacePtr>() && *x == *b.get<NamespacePtr>();
    if (const auto* x = a.get<LoopPtr>()) return b.is<LoopPtr>() && *x == *b.get<LoopPtr>();
    if (const auto* x = a.get<CallablePtr>())
        return b.is<CallablePtr>() && *x == *b.get<CallablePtr>();
    return false;
}

// A bound of a slice, clipped to [low, high].
Result<std::int64_t> slice_bound(const Value& bound, std::int64_t absent, std::int64_t size,
                                 std::int64_t low, std::int64_t high) {
    if (bound.is<None>()) return absent;
    std::int64_t storage = 0;
    const auto* number = as_int(bound, storage);
    if (number == nullptr) {
        return base::invalid("slice indices must be integers or none, not '" + type_name(bound) +
                             "'");
    }
    const std::int64_t index = *number < 0 ? *number + size : *number;
    return std::clamp(index, low, high);
}

}  // namespace

const char* to_string(BinaryOperator op) {
    static constexpr const char* kNames[] = {"+", "-", "*", "/", "//", "%", "**"};
    return kNames[static_cast<std::size_t>(op)];
}

const char* to_string(CompareOperator op) {
    static constexpr const char* kNames[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kNames[static_cast<std::size_t>(op)];
}

std::optional<base::Error> undefined_error(const Value& value) {
    const auto* undefined = value.get<Undefined>();
    if (undefined == nullptr) return std::nullopt;
    return base::invalid(undefined->reason ? *undefined->reason : "the value is undefined");
}

Result<Value> apply(BinaryOperator op, const Value& left, const Value& right, Budget& budget) {
    const auto* text = left.get<Text>();
    if (op == BinaryOperator::modulo && text != nullptr)
        return format_percent(*text, right, budget);
    if (auto error = undefined_error(left)) return *error;
    if (auto error = undefined_error(right)) return *error;
    if (is_number(left) && is_number(right)) {
        std::int64_t a_storage = 0;
        std::int64_t b_storage = 0;
        const auto* a = as_int(left, a_storage);
        const auto* b = as_int(right, b_storage);
        if (a != nullptr && b != nullptr) return integer_arithmetic(op, *a, *b);
        return float_arithmetic(op, as_double(left), as_double(right));
    }
    if (op == BinaryOperator::add) {
        if (text != nullptr && right.is<Text>()) return add_text(*text, *right.get<Text>(), budget);
        const auto* a = left.get<SequencePtr>();
        const auto* b = right.get<SequencePtr>();
        if (a != nullptr && b != nullptr && is_ordered_family(**a) && same_family(**a, **b)) {
            return add_sequences(**a, **b, budget);
        }
    }
    if (op == BinaryOperator::multiply) {
        std::int64_t storage = 0;
        const auto* count = as_int(right, storage);
        if (count != nullptr && is_repeatable(left)) return repeat(left, *count, budget);
        count = as_int(left, storage);
        if (count != nullptr && is_repeatable(right)) return repeat(right, *count, budget);
    }
    return unsupported(to_string(op), left, right);
}

Result<Value> negate(const Value& value) {
    if (auto error = undefined_error(value)) return *error;
    if (const auto* number = value.get<double>()) return Value(-*number);
    std::int64_t storage = 0;
    const auto* number = as_int(value, storage);
    if (number == nullptr)
        return base::invalid("bad operand type for unary -: '" + type_name(value) + "'");
    if (*number == std::numeric_limits<std::int64_t>::min()) return overflow("-");
    return make_int(-*number);
}

Result<Value> unary_plus(const Value& value) {
    if (auto error = undefined_error(value)) return *error;
    if (const auto* number = value.get<double>()) return Value(*number);
    std::int64_t storage = 0;
    const auto* number = as_int(value, storage);
    if (number == nullptr)
        return base::invalid("bad operand type for unary +: '" + type_name(value) + "'");
    return make_int(*number);
}

Result<bool> equals(const Value& left, const Value& right, Budget& budget) {
    TRY_VOID(budget.charge(1));
    if (is_number(left) && is_number(right)) {
        std::int64_t a_storage = 0;
        std::int64_t b_storage = 0;
        const auto* a = as_int(left, a_storage);
        const auto* b = as_int(right, b_storage);
        if (a != nullptr && b != nullptr) return *a == *b;
        return as_double(left) == as_double(right);
    }
    if (left.state().index() != right.state().index()) return false;
    if (const auto* text = left.get<Text>()) return text->str() == right.get<Text>()->str();
    if (left.is<Undefined>() || left.is<None>()) return true;
    if (const auto* a = left.get<SequencePtr>())
        return sequences_equal(**a, **right.get<SequencePtr>(), budget);
    if (const auto* a = left.get<DictPtr>())
        return dicts_equal(**a, **right.get<DictPtr>(), budget);
    return is_identical(left, right);
}

Result<bool> less(const Value& left, const Value& right, Budget& budget) {
    TRY_VOID(budget.charge(1));
    if (auto error = undefined_error(left)) return *error;
    if (auto error = undefined_error(right)) return *error;
    if (is_number(left) && is_number(right)) {
        std::int64_t a_storage = 0;
        std::int64_t b_storage = 0;
        const auto* a = as_int(left, a_storage);
        const auto* b = as_int(right, b_storage);
        if (a != nullptr && b != nullptr) return *a < *b;
        return as_double(left) < as_double(right);
    }
    // UTF-8 sorts by code point when compared byte by byte.
    if (left.is<Text>() && right.is<Text>())
        return left.get<Text>()->str() < right.get<Text>()->str();
    const auto* a = left.get<SequencePtr>();
    const auto* b = right.get<SequencePtr>();
    if (a != nullptr && b != nullptr && is_ordered_family(**a) && same_family(**a, **b)) {
        return sequence_less(**a, **b, budget);
    }
    return base::invalid("'<' is not supported between '" + type_name(left) + "' and '" +
                         type_name(right) + "'");
}

Result<bool> contains(const Value& container, const Value& item, Budget& budget) {
    if (const auto* text = container.get<Text>()) {
        const auto* part = item.get<Text>();
        if (part == nullptr) {
            return base::invalid("'in' a string needs a string on its left, not '" +
                                 type_name(item) + "'");
        }
        TRY_VOID(budget.charge(text->str().size() / 8));
        return text->str().find(part->str()) != std::string::npos;
    }
    if (const auto* dict = container.get<DictPtr>()) {
        TRY(const Value* found, (*dict)->find(item));
        return found != nullptr;
    }
    TRY(const std::vector<Value> items, iterate(container, budget));
    for (const Value& candidate : items) {
        TRY(const bool same, equals(candidate, item, budget));
        if (same) return true;
    }
    return false;
}

Result<bool> compare(CompareOperator op, const Value& left, const Value& right, Budget& budget) {
    switch (op) {
        case CompareOperator::equal:
            return equals(left, right, budget);
        case CompareOperator::not_equal: {
            TRY(const bool same, equals(left, right, budget));
            return !same;
        }
        case CompareOperator::less:
            return less(left, right, budget);
        case CompareOperator::greater:
            return less(right, left, budget);
        case CompareOperator::less_equal:
        case CompareOperator::greater_equal: {
            const bool swapped = op == CompareOperator::greater_equal;
            TRY(const bool below, less(swapped ? right : left, swapped ? left : right, budget));
            if (below) return true;
            return equals(left, right, budget);
        }
        case CompareOperator::in:
            return contains(right, left, budget);
        case CompareOperator::not_in: {
            TRY(const bool inside, contains(right, left, budget));
            return !inside;
        }
    }
    return base::invalid("unknown comparison");
}

Result<Value> slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                    Budget& budget) {
    if (auto error = undefined_error(value)) return *error;
    const auto* sequence = value.get<SequencePtr>();
    const auto* text = value.get<Text>();
    const bool sliceable = sequence != nullptr && (is_ordered_family(**sequence) ||
                                                   (*sequence)->kind == SequenceKind::range);
    if (!sliceable && text == nullptr)
        return base::invalid("'" + type_name(value) + "' object cannot be sliced");
    TRY_VOID(budget.charge(text != nullptr ? text->str().size() / 8 : 0));
    const auto size = static_cast<std::int64_t>(text != nullptr ? count_code_points(text->str())
                                                                : (*sequence)->items.size());
    TRY(const std::int64_t stride, slice_bound(step, 1, 0, -size - 1, size + 1));
    if (stride == 0) return base::invalid("slice step cannot be zero");
    const bool forward = stride > 0;
    const std::int64_t low = forward ? 0 : -1;
    const std::int64_t high = forward ? size : size - 1;
    TRY(const std::int64_t first, slice_bound(start, forward ? low : high, size, low, high));
    TRY(const std::int64_t last, slice_bound(stop, forward ? high : low, size, low, high));
    if (text != nullptr && stride == 1) {
        const std::size_t begin = byte_offset(text->str(), static_cast<std::size_t>(first));
        const std::size_t end =
            byte_offset(text->str(), static_cast<std::size_t>(std::max(first, last)));
        return make_text(text->str().substr(begin, end - begin), budget, text->markup);
    }
    std::vector<Value> items;
    if (text != nullptr) {
        TRY(items, iterate(value, budget));
    }
    const std::vector<Value>& source = text != nullptr ? items : (*sequence)->items;
    std::vector<Value> picked;
    for (std::int64_t i = first; forward ? i < last : i > last; i += stride) {
        picked.push_back(source[static_cast<std::size_t>(i)]);
    }
    if (sequence != nullptr && (*sequence)->kind == SequenceKind::range) {
        const auto [begin, end, step_size] = (*sequence)->range;
        return make_range(std::move(picked),
                          {begin + first * step_size, begin + last * step_size, stride * step_size},
                          budget);
    }
    if (text == nullptr) {
        return make_sequence(std::move(picked), budget,
                             is_tuple(**sequence) ? SequenceKind::tuple : SequenceKind::list);
    }
    std::string out;
    for (const Value& character : picked) out += character.get<Text>()->str();
    return make_text(std::move(out), budget, text->markup);
}

}  // namespace helix::text::jinja
