#include "text/template/access.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

Value missing(const Value& value, std::string_view name) {
    return make_undefined("'" + type_name(value) + " object' has no attribute '" +
                          std::string(name) + "'");
}

Value unsafe(const Value& value, std::string_view name) {
    return make_undefined("access to attribute '" + std::string(name) + "' of '" +
                          type_name(value) + "' object is unsafe");
}

Value method(const Value& receiver, std::string_view name) {
    auto callable = std::make_shared<Callable>();
    callable->kind = Callable::Kind::method;
    callable->name = name;
    callable->receiver = receiver;
    return Value(CallablePtr(std::move(callable)));
}

Value loop_attribute(const Loop& loop, const Value& value, std::string_view name) {
    const auto size = static_cast<std::int64_t>(loop.items->size());
    const auto index0 = static_cast<std::int64_t>(loop.index0);
    if (name == "index") return make_int(index0 + 1);
    if (name == "index0") return make_int(index0);
    if (name == "revindex") return make_int(size - index0);
    if (name == "revindex0") return make_int(size - index0 - 1);
    if (name == "first") return make_bool(index0 == 0);
    if (name == "last") return make_bool(index0 + 1 == size);
    if (name == "length") return make_int(size);
    if (name == "depth") return make_int(loop.depth0 + 1);
    if (name == "depth0") return make_int(loop.depth0);
    if (name == "previtem") {
        return index0 == 0 ? make_undefined("there is no previous item")
                           : (*loop.items)[loop.index0 - 1];
    }
    if (name == "nextitem") {
        return index0 + 1 == size ? make_undefined("there is no next item")
                                  : (*loop.items)[loop.index0 + 1];
    }
    if (name == "cycle" || name == "changed") return method(value, name);
    return missing(value, name);
}

// The object's own attribute, or no value. Sets `found` also for those that are not safe.
Value own_attribute(const Value& value, std::string_view name, bool& found) {
    static constexpr std::array<std::string_view, 6> kDictMethods{"copy", "get",    "items",
                                                                  "keys", "values", "fromkeys"};
    static constexpr std::array<std::string_view, 5> kDictUnsafe{"clear", "pop", "popitem",
                                                                 "setdefault", "update"};
    static constexpr std::array<std::string_view, 5> kListMethods{"copy", "count", "index", "pop",
                                                                  "clear"};
    static constexpr std::array<std::string_view, 6> kListUnsafe{"append", "reverse", "insert",
                                                                 "sort",   "extend",  "remove"};
    found = true;
    if (value.is<Text>() && is_string_method(name)) return method(value, name);
    if (value.is<DictPtr>()) {
        if (is_one_of(name, kDictMethods)) return method(value, name);
        if (is_one_of(name, kDictUnsafe)) return unsafe(value, name);
    }
    if (const auto* sequence = value.get<SequencePtr>()) {
        const SequenceKind kind = (*sequence)->kind;
        if (kind == SequenceKind::group && name == "grouper") return (*sequence)->items[0];
        if (kind == SequenceKind::group && name == "list") return (*sequence)->items[1];
        if (kind == SequenceKind::list && is_one_of(name, kListUnsafe)) return unsafe(value, name);
        if (kind == SequenceKind::list && is_one_of(name, kListMethods)) return method(value, name);
        if (kind == SequenceKind::tuple && (name == "count" || name == "index"))
            return method(value, name);
    }
    if (const auto* names = value.get<NamespacePtr>()) {
        if (const Value* attribute = (*names)->attributes.find_text(name)) return *attribute;
    }
    if (const auto* loop = value.get<LoopPtr>()) {
        Value attribute = loop_attribute(**loop, value, name);
        found = !attribute.is<Undefined>() || name == "previtem" || name == "nextitem";
        return attribute;
    }
    if (const auto* callable = value.get<CallablePtr>()) {
        if ((*callable)->kind == Callable::Kind::macro && name == "name")
            return make_text((*callable)->name);
    }
    found = false;
    return Value();
}

Result<Value> sequence_index(const Value& value, const Sequence& sequence, std::int64_t index) {
    const auto size = static_cast<std::int64_t>(sequence.items.size());
    const std::int64_t at = index < 0 ? index + size : index;
    const bool indexable =
        sequence.kind != SequenceKind::generator && sequence.kind != SequenceKind::keys &&
        sequence.kind != SequenceKind::values && sequence.kind != SequenceKind::items;
    if (!indexable || at < 0 || at >= size) {
        return make_undefined(type_name(value) + " object has no element " + std::to_string(index));
    }
    return sequence.items[static_cast<std::size_t>(at)];
}

Result<Value> text_index(const Text& text, std::int64_t index, Budget& budget) {
    TRY_VOID(budget.charge(text.str().size() / 8));
    const auto size = static_cast<std::int64_t>(count_code_points(text.str()));
    const std::int64_t at = index < 0 ? index + size : index;
    if (at < 0 || at >= size)
        return make_undefined("str object has no element " + std::to_string(index));
    const std::size_t offset = byte_offset(text.str(), static_cast<std::size_t>(at));
    return make_text(text.str().substr(offset, code_point_bytes(text.str(), offset)), text.markup);
}

Result<Value> dict_view(const Dict& dict, SequenceKind kind, Budget& budget) {
    std::vector<Value> items;
    for (const auto& entry : dict.entries()) {
        if (kind == SequenceKind::keys) {
            items.push_back(entry.key);
        } else if (kind == SequenceKind::values) {
            items.push_back(entry.value);
        } else {
            TRY(Value pair, make_pair(entry.key, entry.value, budget));
            items.push_back(std::move(pair));
        }
    }
    return make_sequence(std::move(items), budget, kind);
}

Result<Value> dict_from_keys(const Arguments& arguments, Budget& budget) {
    TRY(const Bound bound, Bound::bind("fromkeys", "iterable value", 1, arguments));
    TRY(const std::vector<Value> keys, iterate(bound.at(0), budget));
    Dict dict;
    for (const Value& key : keys) TRY_VOID(dict.set(key, bound.at(1)));
    return make_dict(std::move(dict), budget);
}

Result<Value> call_dict_method(const Value& receiver, const Dict& dict, std::string_view name,
                               const Arguments& arguments, Budget& budget) {
    if (name == "get") {
        if (!arguments.named.empty()) return base::invalid("get takes no keyword arguments");
        TRY(const Bound bound, Bound::bind("get", "key default", 1, arguments));
        TRY(const Value* found, dict.find(bound.at(0)));
        return found != nullptr ? *found : bound.at(1);
    }
    if (name == "fromkeys") return dict_from_keys(arguments, budget);
    TRY_VOID(Bound::bind(name, "", 0, arguments));
    if (name == "copy") return receiver;
    if (name == "keys") return dict_view(dict, SequenceKind::keys, budget);
    if (name == "values") return dict_view(dict, SequenceKind::values, budget);
    return dict_view(dict, SequenceKind::items, budget);
}

Result<Value> list_index(const Sequence& list, const Value& item, Budget& budget) {
    for (std::size_t i = 0; i < list.items.size(); ++i) {
        TRY(const bool same, equals(list.items[i], item, budget));
        if (same) return make_int(static_cast<std::int64_t>(i));
    }
    return base::invalid("index: the value is not in the list");
}

Result<Value> list_pop(Sequence& list, const Arguments& arguments) {
    TRY(const Bound bound, Bound::bind("pop", "index", 0, arguments));
    TRY(std::int64_t index, bound.int_at(0, -1));
    const auto size = static_cast<std::int64_t>(list.items.size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return base::invalid("pop: index out of range");
    Value item = list.items[static_cast<std::size_t>(index)];
    list.items.erase(list.items.begin() + index);
    return item;
}

Result<Value> call_list_method(Sequence& list, std::string_view name, const Arguments& arguments,
                               Budget& budget) {
    TRY_VOID(budget.charge(list.items.size()));
    if (name == "pop") return list_pop(list, arguments);
    if (name == "copy") return make_sequence(list.items, budget);
    if (name == "clear") {
        list.items.clear();
        return Value();
    }
    TRY(const Bound bound, Bound::bind(name, "value", 1, arguments));
    if (name == "index") return list_index(list, bound.at(0), budget);
    std::int64_t count = 0;
    for (const Value& item : list.items) {
        TRY(const bool same, equals(item, bound.at(0), budget));
        count += same ? 1 : 0;
    }
    return make_int(count);
}

}  // namespace

Result<Value> get_attribute(const Value& value, std::string_view name, Budget& budget) {
    if (auto error = undefined_error(value)) return *error;
    if (name.starts_with("__") && !value.is<DictPtr>()) return unsafe(value, name);
    bool found = false;
    Value own = own_attribute(value, name, found);
    if (found) return own;
    if (const auto* dict = value.get<DictPtr>()) {
        if (const Value* item = (*dict)->find_text(name)) return *item;
    }
    TRY_VOID(budget.charge(1));
    return missing(value, name);
}

Result<Value> get_item(const Value& value, const Value& index, Budget& budget) {
    if (auto error = undefined_error(value)) return *error;
    if (const auto* dict = value.get<DictPtr>()) {
        const auto item = (*dict)->find(index);
        if (item.ok() && *item != nullptr) return **item;
    }
    std::int64_t storage = 0;
    if (const auto* number = as_int(index, storage)) {
        if (const auto* sequence = value.get<SequencePtr>())
            return sequence_index(value, **sequence, *number);
        if (const auto* text = value.get<Text>()) return text_index(*text, *number, budget);
    }
    if (const auto* name = index.get<Text>()) {
        if (name->str().starts_with("_")) return unsafe(value, name->str());
        bool found = false;
        Value own = own_attribute(value, name->str(), found);
        return found ? own : missing(value, name->str());
    }
    TRY(const std::string shown, to_repr(index, budget));
    return make_undefined(type_name(value) + " object has no element " + shown);
}

Result<Value> get_path(const Value& value, const Value& path, Budget& budget) {
    if (path.is<None>()) return value;
    const auto* text = path.get<Text>();
    if (text == nullptr) return get_item(value, path, budget);
    Value current = value;
    const std::string_view names = text->str();
    for (std::size_t at = 0; at <= names.size();) {
        const std::size_t end = std::min(names.find('.', at), names.size());
        const std::string_view part = names.substr(at, end - at);
        std::int64_t number = 0;
        const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
        const bool digits = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
            return c >= '0' && c <= '9';
        });
        const bool is_index = digits && parsed.ec == std::errc();
        TRY(current,
            get_item(current, is_index ? make_int(number) : make_text(std::string(part)), budget));
        at = end + 1;
    }
    return current;
}

Result<Value> call_loop_method(Loop& loop, std::string_view name, const Arguments& arguments,
                               Budget& budget) {
    if (name == "cycle") {
        if (arguments.positional.empty())
            return base::invalid("loop.cycle: no items to cycle through");
        return arguments.positional[loop.index0 % arguments.positional.size()];
    }
    bool same = loop.changed_before && loop.changed_values.size() == arguments.positional.size();
    for (std::size_t i = 0; same && i < arguments.positional.size(); ++i) {
        TRY(same, equals(loop.changed_values[i], arguments.positional[i], budget));
    }
    loop.changed_before = true;
    // Containers are not kept: one that holds this loop would never be released.
    for (const Value& value : arguments.positional) {
        if (nesting_of(value) > 0) return base::invalid("loop.changed takes text and numbers only");
    }
    loop.changed_values = arguments.positional;
    return make_bool(!same);
}

Result<Value> call_method(const Value& receiver, std::string_view name, const Arguments& arguments,
                          Budget& budget) {
    if (const auto* text = receiver.get<Text>())
        return call_string_method(*text, name, arguments, budget);
    if (const auto* dict = receiver.get<DictPtr>())
        return call_dict_method(receiver, **dict, name, arguments, budget);
    if (const auto* loop = receiver.get<LoopPtr>())
        return call_loop_method(**loop, name, arguments, budget);
    if (const auto* list = receiver.get<SequencePtr>())
        return call_list_method(**list, name, arguments, budget);
    return base::invalid("'" + type_name(receiver) + "' object has no method '" +
                         std::string(name) + "'");
}

}  // namespace helix::text::jinja
