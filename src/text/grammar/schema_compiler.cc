#include "text/grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "spec/bounded_json.h"
#include "text/grammar/json_schema.h"

namespace helix::text::grammar {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxSteps = 5'000;  // schemas looked at; those of merged branches count every time
constexpr std::size_t kMaxOneOf = 64;  // each pair is compared
constexpr std::uint64_t kMaxSetSteps = 4'000'000;
constexpr std::size_t kSmallExpr =
    8;  // an expression of at most this size is copied and not made a rule

// Whether an expression has at most `left` parts.
bool is_small(const Expr& e, std::size_t& left) {
    if (left == 0 || e.text.size() > 64 || e.kind == Expr::Kind::graph) return false;
    --left;
    return std::all_of(e.items.begin(), e.items.end(),
                       [&left](const Expr& item) { return is_small(item, left); });
}

}  // namespace

SchemaCompiler::SchemaCompiler(const SchemaJson& root, Notation notation)
    : root_(root), reader_(root), json_(grammar_, notation), budget_(kMaxSetSteps) {}

Expr SchemaCompiler::shared(Expr e, const char* name) {
    std::size_t left = kSmallExpr;
    return is_small(e, left) ? std::move(e) : rule(grammar_.add(name, std::move(e)));
}

Expr SchemaCompiler::never(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return nothing();
}

base::Result<Grammar> SchemaCompiler::compile() {
    return compile(root_, "#");
}

base::Result<Grammar> SchemaCompiler::compile(const SchemaJson& part, const std::string& place) {
    const RuleIndex root = grammar_.add("root");
    if (&part == &root_) references_["#"] = root;
    TRY(Expr body, schema(part, place));
    if (is_nothing(body)) return base::invalid(reason_);
    grammar_.body(root) = std::move(body);
    grammar_.root = root;
    return std::move(grammar_);
}

base::Result<Expr> SchemaCompiler::schema(const SchemaJson& s, const std::string& place) {
    if (s == true) return json_.value();
    if (depth_ >= kMaxDepth) {
        return schema_error(place, fmt::format("schemas are nested more than {} deep", kMaxDepth));
    }
    if (++steps_ > kMaxSteps) {
        return schema_error(place, fmt::format("the schema is too large: its combinations are more "
                                               "than {} schemas",
                                               kMaxSteps));
    }
    const std::string* name = reader_.only_reference(s);
    if (name != nullptr) return reference(*name, s, place);
    // Equal schemas are read once, wherever they stand.
    TRY_VOID(reader_.charge(s, place));
    const std::string text = s.dump();
    const auto known = schemas_.find(text);
    if (known != schemas_.end()) return known->second;
    const auto [making, is_new] = being_made_.emplace(text, -1);
    if (!is_new) {  // it has itself as a part
        if (making->second < 0) making->second = grammar_.add("schema");
        return rule(making->second);
    }
    ++depth_;
    auto made = new_schema(s, place);
    --depth_;
    const RuleIndex own = being_made_.at(text);
    being_made_.erase(text);
    if (!made.ok()) return made;
    if (own >= 0) {
        grammar_.body(own) = std::move(*made);
        made = rule(own);
    }
    schemas_.emplace(text, *made);
    return made;
}

base::Result<Expr> SchemaCompiler::new_schema(const SchemaJson& s, const std::string& place) {
    Facts facts;
    TRY_VOID(reader_.add(s, place, facts));
    TRY(Expr made, of_facts(facts, place));
    return shared(std::move(made), "schema");
}

base::Result<Expr> SchemaCompiler::reference(const std::string& name, const SchemaJson& s,
                                             const std::string& place) {
    const auto known = references_.find(name);
    if (known != references_.end()) return rule(known->second);
    TRY(const SchemaJson* target, reader_.resolve(s["$ref"], schema_place(place, "$ref")));
    const RuleIndex index = grammar_.add(name);
    references_[name] = index;
    ++depth_;
    auto body = schema(*target, name);
    --depth_;
    if (!body.ok()) return body;
    grammar_.body(index) = std::move(*body);
    return rule(index);
}

base::Result<Expr> SchemaCompiler::of_facts(const Facts& facts, const std::string& place) {
    if (!facts.never.empty()) return never(facts.never);
    if (facts.values) return values(facts, place);
    if (!facts.choices.empty()) return choice_of(facts, place);
    return typed(facts, place);
}

// Takes the first choice: one of its branches holds together with all the rest.
base::Result<Expr> SchemaCompiler::choice_of(const Facts& facts, const std::string& place) {
    const Facts::Choice choice = facts.choices.front();
    if (choice.only_one && choice.branches.size() > kMaxOneOf) {
        return schema_error(choice.place,
                            fmt::format("more than {} schemas; use anyOf", kMaxOneOf));
    }
    Facts rest = facts;
    rest.choices.erase(rest.choices.begin());
    // To be compared without what the whole says, of which this choice is a part.
    Facts compared = rest;
    compared.sources.clear();
    std::vector<Facts> branches;
    for (std::size_t i = 0; i < choice.branches.size(); ++i) {
        TRY_VOID(reader_.charge(4 + rest.sources.size() + rest.excluded.size(), choice.place));
        branches.push_back(compared);
        TRY_VOID(reader_.add(*choice.branches[i], schema_place(choice.place, std::to_string(i)),
                             branches.back()));
    }
    std::vector<Expr> out;
    for (std::size_t i = 0; i < branches.size(); ++i) {
        TRY(Expr made, branch_of(choice, branches, i, rest, place));
        if (!is_nothing(made)) out.push_back(shared(std::move(made), "schema"));
    }
    if (out.empty()) return never(choice.place + ": no branch can be satisfied");
    return out.size() == 1 ? std::move(out.front()) : grammar::choice(std::move(out));
}

// One branch together with the rest, without what another branch matches, too, if only one may.
base::Result<Expr> SchemaCompiler::branch_of(const Facts::Choice& choice,
                                             const std::vector<Facts>& branches, std::size_t i,
                                             const Facts& rest, const std::string& place) {
    if (++steps_ > kMaxSteps) {
        return schema_error(place, fmt::format("the schema is too large: its combinations are more "
                                               "than {} schemas",
                                               kMaxSteps));
    }
    const std::string here = schema_place(choice.place, std::to_string(i));
    std::vector<const SchemaJson*> parts{choice.branches[i]};
    std::optional<std::size_t> other;  // that may match the same
    for (std::size_t j = 0; choice.only_one && j < branches.size(); ++j) {
        if (i == j) continue;
        TRY(const bool are_apart, apart(branches[i], branches[j], 0));
        if (are_apart) continue;
        parts.push_back(reader_.opposite(choice.branches[j]));
        other = j;
    }
    const SchemaJson* all = reader_.all_of(std::move(parts));
    if (rest.plain && rest.choices.empty()) {
        auto made = schema(*all, here);
        return made.ok() || !other ? made : may_match_both(choice, i, *other, made.error());
    }
    Facts facts = rest;
    const base::Status added = reader_.add(*all, here, facts);
    auto made = added.ok() ? of_facts(facts, here) : ExprResult(added.error());
    return made.ok() || !other ? made : may_match_both(choice, i, *other, made.error());
}

base::Error SchemaCompiler::may_match_both(const Facts::Choice& choice, std::size_t i,
                                           std::size_t j, const base::Error& why) {
    return schema_error(
        choice.place,
        fmt::format("a value may match both [{}] and [{}]; use anyOf, or tell them apart by type "
                    "or by a required property with different constants ({})",
                    std::min(i, j), std::max(i, j), why.message));
}

// The values that are left of enum and const, as they are written without spaces.
base::Result<Expr> SchemaCompiler::values(const Facts& facts, const std::string& place) {
    std::vector<Expr> out;
    std::set<std::string> written;
    TRY_VOID(reader_.charge(facts.values->size(), place));
    for (const SchemaJson& value : *facts.values) {
        const auto [text, is_new] = written.insert(value.dump());
        if (!is_new) continue;
        TRY(const bool good, all_hold(value, facts, false));
        const auto noted = good ? written_value(json_.notation(), value) : std::nullopt;
        if (noted) out.push_back(literal(*noted));
    }
    if (out.empty()) return never(place + ": no value of enum or const satisfies the rest");
    return out.size() == 1 ? std::move(out.front()) : grammar::choice(std::move(out));
}

base::Result<Expr> SchemaCompiler::typed(const Facts& facts, const std::string& place) {
    unsigned types = facts.written_types();
    for (const SchemaJson& value : facts.excluded) {
        const unsigned type = type_of(value);
        if (type == kNullType) types &= ~static_cast<unsigned>(kNullType);
        if ((type & (kArrayType | kObjectType) & types) == 0) continue;
        return schema_error(
            place, fmt::format("\"not\" around the value {:.40} is not supported", value.dump()));
    }
    const bool any = types == kAllTypes && facts.hints == 0 && facts.excluded.empty();
    if (any) return json_.value();
    std::vector<Expr> out;
    constexpr std::array<unsigned, 6> kInOrder = {kNullType,   kBooleanType, kNumberTypes,
                                                  kStringType, kArrayType,   kObjectType};
    for (const unsigned type : kInOrder) {
        if ((types & type) == 0) continue;
        TRY(Expr e, of_type(facts, types & type, place));
        if (!is_nothing(e)) out.push_back(std::move(e));
    }
    if (out.empty()) return never(place + ": no type satisfies all of these");
    return out.size() == 1 ? std::move(out.front()) : grammar::choice(std::move(out));
}

base::Result<Expr> SchemaCompiler::of_type(const Facts& facts, unsigned type,
                                           const std::string& place) {
    switch (type) {
        case kNullType:
            return json_.null();
        case kBooleanType: {
            std::vector<Expr> out;
            for (const bool value : {true, false}) {
                const bool excluded = std::find(facts.excluded.begin(), facts.excluded.end(),
                                                SchemaJson(value)) != facts.excluded.end();
                if (!excluded) out.push_back(literal(*written_value(json_.notation(), value)));
            }
            return out.empty() ? never(place + ": true and false are excluded")
                               : grammar::choice(std::move(out));
        }
        case kIntegerType:
            return integer(facts, place);
        case kNumberTypes:
            return number(facts, place);
        case kFractionType: {
            Facts fractions = facts;
            fractions.numbers.no_multiples_of.push_back({false, "1", ""});
            return number(fractions, place);
        }
        case kStringType:
            return string(facts, place);
        case kArrayType:
            return array(facts, place);
        default:
            return object(facts, place);
    }
}

base::Result<Grammar> json_schema_grammar(const nlohmann::ordered_json& schema) {
    return SchemaCompiler(schema).compile();
}

base::Result<Grammar> schema_grammar(const nlohmann::ordered_json& document,
                                     const nlohmann::ordered_json& part, const std::string& place,
                                     Notation notation) {
    return SchemaCompiler(document, notation).compile(part, place);
}

base::Result<Grammar> json_schema_grammar(std::string_view schema) {
    SchemaJson parsed;
    const auto problem = spec::read_bounded_json(schema, {.depth = 4 * kMaxDepth}, parsed);
    if (problem && problem->over_limit) {
        return base::invalid("the schema cannot be read: " + problem->message);
    }
    if (problem) {
        return base::invalid(
            fmt::format("the schema is not valid JSON: {:.200}", problem->message));
    }
    return json_schema_grammar(parsed);
}

Grammar json_object_grammar() {
    Grammar grammar;
    JsonRules json(grammar);
    const Expr object = json.object();
    grammar.root = object.rule;
    return grammar;
}

}  // namespace helix::text::grammar
