#include "text/template/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

std::string number_code(double number) {
    std::array<char, 40> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
    return "n" + std::string(buffer.data(), end);
}

Status check_nesting(int nesting, const Budget& budget) {
    if (nesting <= budget.limits().nesting) return base::Ok{};
    return base::Error{
        base::Errc::too_large,
        "containers nested more than " + std::to_string(budget.limits().nesting) + " deep"};
}

}  // namespace

Value make_undefined(std::string reason) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

Value make_text(std::string bytes, bool markup) {
    return Value(Text{std::make_shared<const std::string>(std::move(bytes)), markup});
}

Value make_int(std::int64_t number) {
    return Value(number);
}

Result<Value> make_text(std::string bytes, Budget& budget, bool markup) {
    TRY_VOID(budget.charge_text(bytes.size()));
    return make_text(std::move(bytes), markup);
}

Result<Value> make_sequence(std::vector<Value> items, Budget& budget, SequenceKind kind) {
    TRY_VOID(budget.charge(items.size() + 1));
    auto sequence = std::make_shared<Sequence>();
    sequence->kind = kind;
    for (const Value& item : items)
        sequence->nesting = std::max(sequence->nesting, nesting_of(item) + 1);
    sequence->items = std::move(items);
    TRY_VOID(check_nesting(sequence->nesting, budget));
    return Value(std::move(sequence));
}

Result<Value> make_generator(std::vector<Value> items, Budget& budget, std::string_view name) {
    TRY(Value made, make_sequence(std::move(items), budget, SequenceKind::generator));
    (*made.get<SequencePtr>())->label = "<" + std::string(name) + " object>";
    return made;
}

Result<Value> make_range(std::vector<Value> items, std::array<std::int64_t, 3> range,
                         Budget& budget) {
    TRY(Value made, make_sequence(std::move(items), budget, SequenceKind::range));
    (*made.get<SequencePtr>())->range = range;
    return made;
}

Result<Value> make_dict(Dict dict, Budget& budget) {
    TRY_VOID(budget.charge(dict.size() + 1));
    TRY_VOID(check_nesting(dict.nesting(), budget));
    return Value(DictPtr(std::make_shared<const Dict>(std::move(dict))));
}

Result<Value> make_pair(Value first, Value second, Budget& budget) {
    std::vector<Value> both;
    both.push_back(std::move(first));
    both.push_back(std::move(second));
    return make_sequence(std::move(both), budget, SequenceKind::tuple);
}

int nesting_of(const Value& value) {
    if (const auto* sequence = value.get<SequencePtr>()) return (*sequence)->nesting;
    if (const auto* dict = value.get<DictPtr>()) return (*dict)->nesting();
    if (const auto* loop = value.get<LoopPtr>()) return (*loop)->nesting;
    if (const auto* callable = value.get<CallablePtr>())
        return nesting_of((*callable)->receiver) + 1;
    return 0;
}

Result<std::string> key_code(const Value& value) {
    if (const auto* text = value.get<Text>()) return "s" + text->str();
    if (value.is<None>()) return std::string("z");
    std::int64_t storage = 0;
    if (const auto* number = as_int(value, storage)) return "n" + std::to_string(*number);
    if (const auto* number = value.get<double>()) {
        if (*number == std::floor(*number) && std::abs(*number) < 9e18) {
            return "n" + std::to_string(static_cast<std::int64_t>(*number));
        }
        return number_code(*number);
    }
    if (value.is<Undefined>()) return std::string("u");
    if (const auto* sequence = value.get<SequencePtr>()) {
        const auto kind = (*sequence)->kind;
        if (kind == SequenceKind::tuple || kind == SequenceKind::group) {
            std::string code = "t" + std::to_string((*sequence)->items.size()) + ":";
            for (const Value& item : (*sequence)->items) {
                TRY(const std::string part, key_code(item));
                code += std::to_string(part.size()) + ":" + part;
            }
            return code;
        }
    }
    return base::invalid("unhashable type: '" + type_name(value) + "'");
}

std::string type_name(const Value& value) {
    static constexpr const char* kNames[] = {"Undefined", "NoneType",    "bool",    "int",
                                             "float",     "str",         "list",    "dict",
                                             "Namespace", "LoopContext", "function"};
    if (const auto* sequence = value.get<SequencePtr>()) {
        static constexpr const char* kKinds[] = {"list",       "tuple",     "tuple",
                                                 "range",      "dict_keys", "dict_values",
                                                 "dict_items", "generator"};
        return kKinds[static_cast<std::size_t>((*sequence)->kind)];
    }
    return kNames[value.state().index()];
}

bool is_truthy(const Value& value) {
    struct Visitor {
        bool operator()(const Undefined&) const { return false; }
        bool operator()(const None&) const { return false; }
        bool operator()(bool truth) const { return truth; }
        bool operator()(std::int64_t number) const { return number != 0; }
        bool operator()(double number) const { return number != 0.0; }
        bool operator()(const Text& text) const { return !text.str().empty(); }
        bool operator()(const SequencePtr& sequence) const {
            return sequence->kind == SequenceKind::generator || !sequence->items.empty();
        }
        bool operator()(const DictPtr& dict) const { return dict->size() != 0; }
        bool operator()(const NamespacePtr&) const { return true; }
        bool operator()(const LoopPtr&) const { return true; }
        bool operator()(const CallablePtr&) const { return true; }
    };
    return std::visit(Visitor{}, value.state());
}

const std::int64_t* as_int(const Value& value, std::int64_t& storage) {
    if (const auto* number = value.get<std::int64_t>()) return number;
    if (const auto* truth = value.get<bool>()) {
        storage = *truth ? 1 : 0;
        return &storage;
    }
    return nullptr;
}

Result<std::vector<Value>> iterate(const Value& value, Budget& budget) {
    std::vector<Value> items;
    if (const auto* sequence = value.get<SequencePtr>()) {
        Sequence& source = **sequence;
        TRY_VOID(budget.charge(source.items.size() + 1));
        if (source.kind != SequenceKind::generator) return source.items;
        items.assign(source.items.begin() + static_cast<std::ptrdiff_t>(source.consumed),
                     source.items.end());
        source.consumed = source.items.size();
        return items;
    }
    if (const auto* dict = value.get<DictPtr>()) {
        TRY_VOID(budget.charge((*dict)->size() + 1));
        for (const auto& entry : (*dict)->entries()) items.push_back(entry.key);
        return items;
    }
    if (const auto* text = value.get<Text>()) {
        TRY_VOID(budget.charge(text->str().size() + 1));
        for (std::size_t at = 0; at < text->str().size();) {
            const std::size_t bytes = code_point_bytes(text->str(), at);
            items.push_back(make_text(text->str().substr(at, bytes), text->markup));
            at += bytes;
        }
        return items;
    }
    if (value.is<Undefined>()) return items;
    return base::invalid("'" + type_name(value) + "' object is not iterable");
}

Status Dict::set(Value key, Value value) {
    TRY(std::string code, key_code(key));
    set_coded(std::move(code), std::move(key), std::move(value));
    return base::Ok{};
}

void Dict::set_text(std::string_view key, Value value) {
    set_coded("s" + std::string(key), make_text(std::string(key)), std::move(value));
}

void Dict::set_coded(std::string code, Value key, Value value) {
    nesting_ = std::max({nesting_, nesting_of(key) + 1, nesting_of(value) + 1});
    const auto found = index_.find(code);
    if (found != index_.end()) {
        entries_[found->second].value = std::move(value);
        return;
    }
    index_.emplace(std::move(code), entries_.size());
    entries_.push_back({std::move(key), std::move(value)});
}

const Value* Dict::find_text(std::string_view key) const {
    const auto found = index_.find("s" + std::string(key));
    return found == index_.end() ? nullptr : &entries_[found->second].value;
}

Result<const Value*> Dict::find(const Value& key) const {
    TRY(const std::string code, key_code(key));
    const auto found = index_.find(code);
    return found == index_.end() ? static_cast<const Value*>(nullptr)
                                 : &entries_[found->second].value;
}

void Dict::clear() {
    index_.clear();
    entries_.clear();
}

}  // namespace helix::text::jinja
