// Numbers of a schema: sets of digit strings.

#include <fmt/format.h>

#include <algorithm>

#include "text/grammar/schema_compiler.h"

namespace helix::text::grammar {
namespace {

// Bounds with more digits than this are only kept where every number that is drawn keeps them.
constexpr std::size_t kMaxBoundDigits = 40;
constexpr std::size_t kFractionDigits = 16;
constexpr std::size_t kMaxDivisor = 10'000;
constexpr std::size_t kMaxDivisorStates = 20'000;

Expr some_digits(std::size_t min, std::int32_t max = kNoLimit) {
    return repeat(one_of("0-9"), static_cast<std::int32_t>(min), max);
}

Expr digit_from(char low, char high) {
    if (low > high) return nothing();
    return chars({{static_cast<char32_t>(low), static_cast<char32_t>(high)}});
}

Expr any_fraction() {
    return optional(sequence({literal("."), some_digits(1)}));
}

Expr zeros_then_any() {
    return sequence({repeat(literal("0"), 0), one_of("1-9"), some_digits(0)});
}

// Digits after the point that make at least (or more than) 0.bound, itself without trailing zeros.
Expr digits_from(std::string_view bound, bool exclusive) {
    if (bound.empty()) return exclusive ? zeros_then_any() : some_digits(0);
    const char c = bound[0];
    return choice({sequence({digit_from(static_cast<char>(c + 1), '9'), some_digits(0)}),
                   sequence({digit_from(c, c), digits_from(bound.substr(1), exclusive)})});
}

// Digits after the point, perhaps none, that make at most (or less than) 0.bound.
Expr digits_to(std::string_view bound, bool exclusive) {
    if (bound.empty()) return exclusive ? nothing() : repeat(literal("0"), 0);
    const char c = bound[0];
    return choice({Expr(), sequence({digit_from('0', static_cast<char>(c - 1)), some_digits(0)}),
                   sequence({digit_from(c, c), digits_to(bound.substr(1), exclusive)})});
}

// Numbers without sign of at least (or above) a bound. Leading zeros play no part here.
Expr size_from(const Decimal& bound, bool exclusive) {
    const std::string& whole = bound.whole;
    std::vector<Expr> out;
    out.push_back(sequence({one_of("1-9"), some_digits(whole.size()), any_fraction()}));
    for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto left = static_cast<std::int32_t>(whole.size() - i - 1);
        out.push_back(
            sequence({literal(whole.substr(0, i)), digit_from(static_cast<char>(whole[i] + 1), '9'),
                      some_digits(whole.size() - i - 1, left), any_fraction()}));
    }
    if (bound.fraction.empty() && !exclusive) {
        out.push_back(sequence({literal(whole), any_fraction()}));
    } else {
        out.push_back(
            sequence({literal(whole), literal("."), digits_from(bound.fraction, exclusive)}));
    }
    return choice(std::move(out));
}

// Numbers without sign of at most (or below) a bound.
Expr size_to(const Decimal& bound, bool exclusive) {
    const std::string& whole = bound.whole;
    std::vector<Expr> out;
    if (whole.size() > 1) {
        out.push_back(sequence(
            {some_digits(1, static_cast<std::int32_t>(whole.size()) - 1), any_fraction()}));
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto left = static_cast<std::int32_t>(whole.size() - i - 1);
        out.push_back(
            sequence({literal(whole.substr(0, i)), digit_from('0', static_cast<char>(whole[i] - 1)),
                      some_digits(whole.size() - i - 1, left), any_fraction()}));
    }
    if (!bound.fraction.empty() || !exclusive) {
        out.push_back(literal(whole));
        out.push_back(
            sequence({literal(whole), literal("."), digits_to(bound.fraction, exclusive)}));
    }
    return choice(std::move(out));
}

Expr zero() {
    return sequence({literal("0"), optional(sequence({literal("."), repeat(literal("0"), 0)}))});
}

// Numbers without an exponent of at least a limit, or at most.
Expr from_limit(const SchemaFacts::Limit& limit) {
    const Decimal& value = limit.value;
    if (!value.negative) {
        std::vector<Expr> out{size_from(value, limit.exclusive)};
        if (value.is_zero() && !limit.exclusive) out.push_back(sequence({literal("-"), zero()}));
        return choice(std::move(out));
    }
    return choice({sequence({some_digits(1), any_fraction()}),
                   sequence({literal("-"), size_to(value, limit.exclusive)})});
}

Expr to_limit(const SchemaFacts::Limit& limit) {
    const Decimal& value = limit.value;
    if (value.negative) return sequence({literal("-"), size_from(value, limit.exclusive)});
    const Expr below = sequence({literal("-"), some_digits(1), any_fraction()});
    if (!value.is_zero()) return choice({below, size_to(value, limit.exclusive)});
    if (!limit.exclusive) return choice({below, zero()});
    return sequence(
        {literal("-"), choice({sequence({one_of("1-9"), some_digits(0), any_fraction()}),
                               sequence({literal("0."), zeros_then_any()})})});
}

// How numbers are written. exponent: also with one.
Expr spelling(std::size_t whole_digits, std::size_t fraction_digits, bool exponent) {
    std::vector<Expr> items;
    items.push_back(optional(literal("-")));
    items.push_back(choice(
        {literal("0"),
         sequence({one_of("1-9"), some_digits(0, static_cast<std::int32_t>(whole_digits) - 1)})}));
    if (fraction_digits > 0) {
        items.push_back(optional(
            sequence({literal("."), some_digits(1, static_cast<std::int32_t>(fraction_digits))})));
    }
    if (exponent) {
        items.push_back(
            optional(sequence({one_of("eE"), optional(one_of("+-")), some_digits(1, 2)})));
    }
    return sequence(std::move(items));
}

// A bound of 0 is about the sign and whether there is a digit but 0, so an exponent may follow.
Expr from_zero(bool exclusive) {
    const Expr more = optional(sequence({one_of("eE"), repeat(one_of("0-9+-"), 0)}));
    if (!exclusive) return sequence({one_of("0-9"), repeat(one_of("0-9.eE+-"), 0)});
    return sequence({repeat(one_of("0."), 0), one_of("1-9"), repeat(one_of("0-9."), 0), more});
}

Expr to_zero(bool exclusive) {
    const Expr more = optional(sequence({one_of("eE"), repeat(one_of("0-9+-"), 0)}));
    const Expr below = sequence({literal("-"), from_zero(true)});
    if (exclusive) return below;
    return choice({below, sequence({optional(literal("-")), zero(), more})});
}

std::optional<std::uint64_t> small_number(const std::string& text) {
    if (text.size() > 9) return {};
    return std::stoull(text);
}

// Multiples of a number: the rest of the division is followed digit by digit. Nothing when it is
// too large or has too many digits.
std::optional<Dfa> multiples(const Decimal& of, const Alphabet& alphabet) {
    const auto divisor = small_number(of.whole + of.fraction);
    const std::size_t after = of.fraction.size();
    if (!divisor || *divisor > kMaxDivisor || (after + 2) * *divisor > kMaxDivisorStates) return {};
    Dfa out(alphabet.classes());
    // States by the digits read after the point (0: no point yet, 1: the point, ...) and the rest.
    const auto state = [&](std::size_t phase, std::uint64_t rest) {
        return static_cast<Dfa::State>(2 + phase * *divisor + rest);
    };
    const Dfa::State begin = out.add_state(false);
    for (std::size_t phase = 0; phase < after + 2; ++phase) {
        for (std::uint64_t rest = 0; rest < *divisor; ++rest) {
            std::uint64_t scaled = rest;
            for (std::size_t i = phase == 0 ? 0 : phase - 1; i < after; ++i)
                scaled = scaled * 10 % *divisor;
            out.add_state(scaled == 0);
        }
    }
    for (char digit = '0'; digit <= '9'; ++digit) {
        const std::uint32_t c = alphabet.class_of(static_cast<char32_t>(digit));
        const auto value = static_cast<std::uint64_t>(digit - '0');
        out.set(begin, c, state(0, value % *divisor));
        for (std::uint64_t rest = 0; rest < *divisor; ++rest) {
            const std::uint64_t next = (rest * 10 + value) % *divisor;
            out.set(state(0, rest), c, state(0, next));
            for (std::size_t phase = 1; phase <= after; ++phase) {
                out.set(state(phase, rest), c, state(phase + 1, next));
            }
            if (digit == '0') out.set(state(after + 1, rest), c, state(after + 1, rest));
        }
    }
    out.set(begin, alphabet.class_of('-'), begin);
    for (std::uint64_t rest = 0; rest < *divisor; ++rest) {
        out.set(state(0, rest), alphabet.class_of('.'), state(1, rest));
    }
    out.set_start(begin);
    return out;
}

bool outside_of_all(const SchemaFacts::Limit& limit) {
    return limit.value.whole.size() > kMaxBoundDigits;
}

}  // namespace

base::Result<Expr> SchemaCompiler::integer(const Facts& facts, const std::string& place) {
    const Facts::Numbers& said = facts.numbers;
    const bool plain = said.multiples_of.empty() && said.no_multiples_of.empty() &&
                       std::none_of(facts.excluded.begin(), facts.excluded.end(),
                                    [](const SchemaJson& value) { return value.is_number(); });
    if (!plain) return number_in(facts, true, place);
    if (!said.low && !said.high) return json_.integer();
    const auto exclusive = [](const Facts::Limit& limit) {
        return limit.exclusive && limit.value.is_whole();
    };
    const std::string nines(kIntegerDigits, '9');
    const auto whole = [](const std::string& text) {
        const bool negative = text.starts_with('-');
        return Decimal{negative, negative ? text.substr(1) : text, ""};
    };
    Decimal low{true, nines, ""};
    Decimal high{false, nines, ""};
    if (said.low) {
        low =
            exclusive(*said.low) ? said.low->value.plus_one() : whole(said.low->value.rounded_up());
        if (low > high) high.whole = std::string(low.whole.size(), '9');
    }
    if (said.high) {
        high = exclusive(*said.high) ? said.high->value.minus_one()
                                     : whole(said.high->value.rounded_down());
        if (!said.low && high < low) low.whole = std::string(high.whole.size(), '9');
    }
    if (low > high) {
        return never(place + fmt::format(": no integer is at least {} and at most {}", low.text(),
                                         high.text()));
    }
    // Far beyond what programs read as whole numbers, as in the largest of a double.
    if (low.negative && low.whole.size() > kMaxBoundDigits) low.whole = nines;
    if (!high.negative && high.whole.size() > kMaxBoundDigits) high.whole = nines;
    if (low.whole.size() > kMaxBoundDigits || high.whole.size() > kMaxBoundDigits) {
        return schema_error(place, fmt::format("a bound has more than {} digits", kMaxBoundDigits));
    }
    return integers_between(low.text(), high.text());
}

base::Result<Expr> SchemaCompiler::number(const Facts& facts, const std::string& place) {
    const Facts::Numbers& said = facts.numbers;
    const bool any = !said.low && !said.high && said.multiples_of.empty() &&
                     said.no_multiples_of.empty() &&
                     std::none_of(facts.excluded.begin(), facts.excluded.end(),
                                  [](const SchemaJson& value) { return value.is_number(); });
    return any ? json_.number() : number_in(facts, false, place);
}

base::Result<Expr> SchemaCompiler::numbers_left(Dfa dfa, const Facts& facts,
                                                const Alphabet& alphabet,
                                                const std::string& place) {
    const auto narrow = [&](const std::optional<Dfa>& other, bool wanted) -> base::Status {
        if (!other) return too_costly(place);
        auto both = Dfa::both(dfa, wanted ? *other : other->complement(), budget_);
        if (!both) return too_costly(place);
        dfa = std::move(*both);
        return base::Ok{};
    };
    for (const SchemaJson& value : facts.excluded) {
        const auto number = value.is_number() ? Decimal::of(value) : std::optional<Decimal>();
        if (!number || number->whole.size() > kMaxBoundDigits) continue;
        const Facts::Limit at{*number, false};
        TRY(const Dfa equal,
            dfa_of({{from_limit(at), false, true}, {to_limit(at), false, true}}, alphabet, place));
        TRY_VOID(narrow(equal, false));
    }
    for (const bool wanted : {true, false}) {
        for (const Decimal& divisor :
             wanted ? facts.numbers.multiples_of : facts.numbers.no_multiples_of) {
            const auto of = multiples(divisor, alphabet);
            if (!of) {
                return schema_error(place, fmt::format("multipleOf {} has too many digits; at most "
                                                       "{} without the point are supported",
                                                       divisor.text(), kMaxDivisor));
            }
            TRY_VOID(narrow(of, wanted));
        }
    }
    if (dfa.empty()) return never(place + ": no number satisfies all of these");
    const auto states = to_state_graph(dfa, alphabet, 0, kNoLimit, kMaxDivisorStates);
    if (!states) return too_costly(place);
    return graph(*states);
}

base::Result<Expr> SchemaCompiler::number_in(const Facts& facts, bool whole,
                                             const std::string& place) {
    Facts::Numbers said = facts.numbers;
    std::string key = whole ? "integer" : "number";
    for (const auto* limit : {&said.low, &said.high}) {
        key += *limit ? " " + (*limit)->value.text() + ((*limit)->exclusive ? "x" : "") : " -";
    }
    for (const Decimal& d : said.multiples_of) key += " of " + d.text();
    for (const Decimal& d : said.no_multiples_of) key += " not of " + d.text();
    for (const SchemaJson& value : facts.excluded) {
        if (value.is_number()) key += " not " + value.dump();
    }
    const auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    if (said.low && said.low->value.negative && outside_of_all(*said.low)) said.low.reset();
    if (said.high && !said.high->value.negative && outside_of_all(*said.high)) said.high.reset();
    std::size_t whole_digits = kIntegerDigits;
    std::size_t fraction_digits = kFractionDigits;
    for (const auto* limit : {&said.low, &said.high}) {
        if (!*limit) continue;
        whole_digits = std::max(whole_digits, (*limit)->value.whole.size());
        fraction_digits = std::max(fraction_digits, (*limit)->value.fraction.size() + 1);
    }
    if (whole_digits > kMaxBoundDigits || fraction_digits > kMaxBoundDigits) {
        return schema_error(place, fmt::format("a bound has more than {} digits", kMaxBoundDigits));
    }
    const auto about_zero = [](const std::optional<Facts::Limit>& limit) {
        return !limit || limit->value.is_zero();
    };
    const bool excludes = key.find(" not") != std::string::npos;
    const bool exponent = !whole && about_zero(said.low) && about_zero(said.high) &&
                          said.multiples_of.empty() && !excludes;
    std::vector<TextSet> sets;
    sets.push_back({spelling(whole_digits, whole ? 0 : fraction_digits, exponent), false, true});
    if (said.low) {
        sets.push_back(
            {exponent ? from_zero(said.low->exclusive) : from_limit(*said.low), false, true});
    }
    if (said.high) {
        sets.push_back(
            {exponent ? to_zero(said.high->exclusive) : to_limit(*said.high), false, true});
    }
    std::vector<CharSet> used;
    for (const TextSet& set : sets) append_char_sets(set.expr, used);
    append_char_sets(sequence({literal("0123456789.-")}), used);
    const Alphabet alphabet(std::move(used), budget_);
    TRY(Dfa dfa, dfa_of(sets, alphabet, place));
    TRY(Expr left, numbers_left(std::move(dfa), facts, alphabet, place));
    Expr made = is_nothing(left) ? left : shared(std::move(left), whole ? "integer" : "number");
    made_.emplace(key, made);
    return made;
}

}  // namespace helix::text::grammar
