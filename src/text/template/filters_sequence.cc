#include <algorithm>
#include <optional>

#include "text/template/access.h"
#include "text/template/filters.h"
#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

Value fold_case(const Value& value, bool case_sensitive) {
    const auto* text = value.get<Text>();
    return text == nullptr || case_sensitive ? value : make_text(to_lower(text->str()));
}

struct Keyed {
    Value key;
    Value item;
};

// Sorts by key with Python's `<`, stably. The first comparison that fails is the error.
Status sort_keyed(std::vector<Keyed>& items, bool reverse, Budget& budget) {
    std::optional<base::Error> failed;
    std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
        if (failed) return false;
        const auto below = reverse ? less(b.key, a.key, budget) : less(a.key, b.key, budget);
        if (!below.ok()) failed = below.error();
        return below.ok() && *below;
    });
    if (failed) return *failed;
    return base::Ok{};
}

Result<Value> take_items(std::vector<Keyed>& keyed, Budget& budget) {
    std::vector<Value> items;
    items.reserve(keyed.size());
    for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
    return make_sequence(std::move(items), budget);
}

Result<Value> default_value(const FilterCall& call) {
    TRY(const Bound bound, call.bind("default_value boolean"));
    const bool absent = call.value.is<Undefined>() || (bound.truth_at(1) && !is_truthy(call.value));
    return absent ? bound.at_or(0, make_text("")) : call.value;
}

Result<Value> length(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY_VOID(
        call.budget.charge(call.value.is<Text>() ? call.value.get<Text>()->str().size() / 8 : 0));
    if (const auto* text = call.value.get<Text>()) {
        return make_int(static_cast<std::int64_t>(count_code_points(text->str())));
    }
    if (const auto* dict = call.value.get<DictPtr>())
        return make_int(static_cast<std::int64_t>((*dict)->size()));
    const auto* sequence = call.value.get<SequencePtr>();
    if (sequence != nullptr && (*sequence)->kind != SequenceKind::generator) {
        return make_int(static_cast<std::int64_t>((*sequence)->items.size()));
    }
    if (const auto* loop = call.value.get<LoopPtr>())
        return make_int(static_cast<std::int64_t>((*loop)->items->size()));
    if (call.value.is<Undefined>()) return make_int(0);
    return base::invalid("object of type '" + type_name(call.value) + "' has no length");
}

Result<Value> first(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    if (const auto* sequence = call.value.get<SequencePtr>()) {
        Sequence& source = **sequence;
        if (source.consumed >= source.items.size())
            return make_undefined("no first item, the sequence was empty");
        if (source.kind != SequenceKind::generator) return source.items.front();
        return source.items[source.consumed++];
    }
    TRY(const std::vector<Value> items, iterate(call.value, call.budget));
    return items.empty() ? make_undefined("no first item, the sequence was empty") : items.front();
}

Result<Value> last(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    if (const auto* sequence = call.value.get<SequencePtr>()) {
        const Sequence& source = **sequence;
        if (source.kind == SequenceKind::generator)
            return base::invalid("last: a generator cannot be reversed");
        return source.items.empty() ? make_undefined("no last item, the sequence was empty")
                                    : source.items.back();
    }
    TRY(const std::vector<Value> items, iterate(call.value, call.budget));
    return items.empty() ? make_undefined("no last item, the sequence was empty") : items.back();
}

Result<Value> list(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(std::vector<Value> items, iterate(call.value, call.budget));
    return make_sequence(std::move(items), call.budget);
}

Result<Value> join(const FilterCall& call) {
    TRY(const Bound bound, call.bind("d attribute"));
    TRY(const std::string separator, to_text(bound.at_or(0, make_text("")), call.budget));
    TRY(const std::vector<Value> items, iterate(call.value, call.budget));
    TextBuilder out(call.budget);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) TRY_VOID(out.append(separator));
        TRY(const Value item, get_path(items[i], bound.at(1), call.budget));
        TRY(const std::string text, to_text(item, call.budget));
        TRY_VOID(out.append(text));
    }
    return call.text(out.take());
}

Result<Value> reverse(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(std::vector<Value> items, iterate(call.value, call.budget));
    std::reverse(items.begin(), items.end());
    if (const auto* text = call.value.get<Text>()) {
        std::string out;
        for (const Value& character : items) out += character.get<Text>()->str();
        return call.text(std::move(out), text->markup);
    }
    const auto* sequence = call.value.get<SequencePtr>();
    if (sequence != nullptr && (*sequence)->kind == SequenceKind::generator) {
        return make_sequence(std::move(items), call.budget);
    }
    return make_generator(std::move(items), call.budget, "reversed");
}

// The values of "a,b.c" as a list, to compare by one after the other.
Result<Value> sort_key(const Value& item, const Value& attribute, bool case_sensitive,
                       Budget& budget) {
    std::vector<Value> parts;
    const auto* paths = attribute.get<Text>();
    if (paths == nullptr) {
        TRY(const Value part, get_path(item, attribute, budget));
        parts.push_back(fold_case(part, case_sensitive));
    } else {
        for (std::size_t at = 0; at <= paths->str().size();) {
            const std::size_t end = std::min(paths->str().find(',', at), paths->str().size());
            TRY(const Value part,
                get_path(item, make_text(paths->str().substr(at, end - at)), budget));
            parts.push_back(fold_case(part, case_sensitive));
            at = end + 1;
        }
    }
    return make_sequence(std::move(parts), budget);
}

Result<Value> sort(const FilterCall& call) {
    TRY(const Bound bound, call.bind("reverse case_sensitive attribute"));
    TRY(std::vector<Value> items, iterate(call.value, call.budget));
    std::vector<Keyed> keyed;
    for (Value& item : items) {
        TRY(Value key, sort_key(item, bound.at(2), bound.truth_at(1), call.budget));
        keyed.push_back({std::move(key), std::move(item)});
    }
    TRY_VOID(sort_keyed(keyed, bound.truth_at(0), call.budget));
    return take_items(keyed, call.budget);
}

Result<Value> dict_sort(const FilterCall& call) {
    TRY(const Bound bound, call.bind("case_sensitive by reverse"));
    if (auto error = undefined_error(call.value)) return *error;
    const auto* dict = call.value.get<DictPtr>();
    if (dict == nullptr)
        return base::invalid("dictsort needs a mapping, not '" + type_name(call.value) + "'");
    TRY(const std::string by, bound.text_at(1, "key"));
    if (by != "key" && by != "value")
        return base::invalid("dictsort: by must be key or value, not '" + by + "'");
    std::vector<Keyed> keyed;
    for (const auto& entry : (*dict)->entries()) {
        TRY(Value pair, make_pair(entry.key, entry.value, call.budget));
        keyed.push_back(
            {fold_case(by == "key" ? entry.key : entry.value, bound.truth_at(0)), std::move(pair)});
    }
    TRY_VOID(sort_keyed(keyed, bound.truth_at(2), call.budget));
    return take_items(keyed, call.budget);
}

Result<Value> unique(const FilterCall& call) {
    TRY(const Bound bound, call.bind("case_sensitive attribute"));
    TRY(std::vector<Value> items, iterate(call.value, call.budget));
    Dict seen;
    std::vector<Value> kept;
    for (Value& item : items) {
        TRY(const Value part, get_path(item, bound.at(1), call.budget));
        const std::size_t before = seen.size();
        TRY_VOID(seen.set(fold_case(part, bound.truth_at(0)), Value()));
        if (seen.size() > before) kept.push_back(std::move(item));
    }
    return make_generator(std::move(kept), call.budget, "generator");
}

Result<Value> extreme(const FilterCall& call) {
    TRY(const Bound bound, call.bind("case_sensitive attribute"));
    TRY(const std::vector<Value> items, iterate(call.value, call.budget));
    if (items.empty()) return make_undefined("no aggregated item, the sequence was empty");
    std::size_t best = 0;
    Value best_key;
    for (std::size_t i = 0; i < items.size(); ++i) {
        TRY(const Value part, get_path(items[i], bound.at(1), call.budget));
        Value key = fold_case(part, bound.truth_at(0));
        if (i > 0) {
            TRY(const bool better, call.name == "min" ? less(key, best_key, call.budget)
                                                      : less(best_key, key, call.budget));
            if (!better) continue;
        }
        best = i;
        best_key = std::move(key);
    }
    return items[best];
}

Result<Value> sum(const FilterCall& call) {
    TRY(const Bound bound, call.bind("attribute start"));
    TRY(const std::vector<Value> items, iterate(call.value, call.budget));
    Value total = bound.at_or(1, make_int(0));
    if (total.is<Text>()) return base::invalid("sum does not add strings, use join");
    for (const Value& item : items) {
        TRY(const Value part, get_path(item, bound.at(0), call.budget));
        TRY(total, apply(BinaryOperator::add, total, part, call.budget));
    }
    return total;
}

Result<Value> items(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    std::vector<Value> pairs;
    if (const auto* dict = call.value.get<DictPtr>()) {
        for (const auto& entry : (*dict)->entries()) {
            TRY(Value pair, make_pair(entry.key, entry.value, call.budget));
            pairs.push_back(std::move(pair));
        }
    } else if (!call.value.is<Undefined>()) {
        return base::invalid("items needs a mapping, not '" + type_name(call.value) + "'");
    }
    return make_generator(std::move(pairs), call.budget, "generator");
}

Result<Value> batch(const FilterCall& call) {
    TRY(const Bound bound, call.bind("linecount fill_with", 1));
    TRY(const std::int64_t size, bound.int_at(0, 0));
    TRY(const std::vector<Value> source, iterate(call.value, call.budget));
    std::vector<Value> rows;
    std::vector<Value> row;
    const auto flush = [&]() -> Status {
        TRY(Value made, make_sequence(std::exchange(row, {}), call.budget));
        rows.push_back(std::move(made));
        return base::Ok{};
    };
    for (const Value& item : source) {
        if (static_cast<std::int64_t>(row.size()) == size) TRY_VOID(flush());
        row.push_back(item);
    }
    if (!row.empty()) {
        if (!bound.at(1).is<None>() && size > static_cast<std::int64_t>(row.size())) {
            TRY_VOID(call.budget.charge(static_cast<std::uint64_t>(size)));
            row.resize(static_cast<std::size_t>(size), bound.at(1));
        }
        TRY_VOID(flush());
    }
    return make_generator(std::move(rows), call.budget, "generator");
}

Result<Value> slices(const FilterCall& call) {
    TRY(const Bound bound, call.bind("slices fill_with", 1));
    TRY(const std::int64_t count, bound.int_at(0, 0));
    TRY(const std::vector<Value> source, iterate(call.value, call.budget));
    if (count == 0) return base::invalid("slice: the number of slices cannot be zero");
    TRY_VOID(call.budget.charge(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0))));
    const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
    std::vector<Value> rows;
    std::size_t at = 0;
    for (std::size_t i = 0; i < wanted; ++i) {
        const bool extra = i < source.size() % wanted;
        const std::size_t end = at + source.size() / wanted + (extra ? 1 : 0);
        std::vector<Value> row(source.begin() + static_cast<std::ptrdiff_t>(at),
                               source.begin() + static_cast<std::ptrdiff_t>(end));
        if (!bound.at(1).is<None>() && !extra) row.push_back(bound.at(1));
        TRY(Value made, make_sequence(std::move(row), call.budget));
        rows.push_back(std::move(made));
        at = end;
    }
    return make_generator(std::move(rows), call.budget, "generator");
}

Result<Value> path_or(const Value& item, const Value& attribute, const Value& fallback,
                      Budget& budget) {
    TRY(Value found, get_path(item, attribute, budget));
    return found.is<Undefined>() && !fallback.is<None>() ? fallback : found;
}

Result<Value> group_by(const FilterCall& call) {
    TRY(const Bound bound, call.bind("attribute default case_sensitive", 1));
    TRY(std::vector<Value> source, iterate(call.value, call.budget));
    std::vector<Keyed> keyed;
    for (Value& item : source) {
        TRY(const Value key, path_or(item, bound.at(0), bound.at(1), call.budget));
        keyed.push_back({fold_case(key, bound.truth_at(2)), std::move(item)});
    }
    TRY_VOID(sort_keyed(keyed, false, call.budget));
    std::vector<Value> groups;
    for (std::size_t begin = 0; begin < keyed.size();) {
        std::vector<Value> members;
        std::size_t end = begin;
        for (; end < keyed.size(); ++end) {
            TRY(const bool same, equals(keyed[begin].key, keyed[end].key, call.budget));
            if (!same) break;
            members.push_back(keyed[end].item);
        }
        TRY(Value key, path_or(members.front(), bound.at(0), bound.at(1), call.budget));
        TRY(Value member_list, make_sequence(std::move(members), call.budget));
        std::vector<Value> group;
        group.push_back(std::move(key));
        group.push_back(std::move(member_list));
        TRY(Value made, make_sequence(std::move(group), call.budget, SequenceKind::group));
        groups.push_back(std::move(made));
        begin = std::max(end, begin + 1);
    }
    return make_sequence(std::move(groups), call.budget);
}

}  // namespace

const FilterTable& sequence_filters() {
    static const FilterTable table{
        {"default", default_value},
        {"d", default_value},
        {"length", length},
        {"count", length},
        {"first", first},
        {"last", last},
        {"list", list},
        {"join", join},
        {"reverse", reverse},
        {"sort", sort},
        {"unique", unique},
        {"min", extreme},
        {"max", extreme},
        {"sum", sum},
        {"items", items},
        {"dictsort", dict_sort},
        {"batch", batch},
        {"slice", slices},
        {"groupby", group_by},
    };
    return table;
}

}  // namespace helix::text::jinja
