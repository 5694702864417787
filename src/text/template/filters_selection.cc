#include "text/template/access.h"
#include "text/template/filters.h"
#include "text/template/repr.h"

namespace helix::text::jinja {

namespace {

Result<std::string> name_argument(const FilterCall& call, std::size_t place, const char* what) {
    const auto* text = call.arguments.positional[place].get<Text>();
    if (text == nullptr)
        return base::invalid(std::string(call.name) + " needs the name of a " + what);
    return text->str();
}

Arguments rest_of(const FilterCall& call, std::size_t first) {
    Arguments rest;
    rest.positional.assign(call.arguments.positional.begin() + static_cast<std::ptrdiff_t>(first),
                           call.arguments.positional.end());
    rest.named = call.arguments.named;
    return rest;
}

// map(attribute="name", default=...)
Result<std::vector<Value>> map_attribute(const FilterCall& call, const std::vector<Value>& items) {
    TRY(const Bound bound, call.bind("attribute default"));
    std::vector<Value> out;
    for (const Value& item : items) {
        TRY(Value found, get_path(item, bound.at(0), call.budget));
        if (found.is<Undefined>() && bound.has(1) && !bound.at(1).is<None>()) found = bound.at(1);
        out.push_back(std::move(found));
    }
    return out;
}

// map("filter", arguments...)
Result<std::vector<Value>> map_filter(const FilterCall& call, const std::vector<Value>& items) {
    if (call.arguments.positional.empty())
        return base::invalid("map needs the name of a filter or attribute=");
    TRY(const std::string filter, name_argument(call, 0, "filter"));
    const Arguments rest = rest_of(call, 1);
    if (!is_filter(filter)) return base::invalid("there is no filter named '" + filter + "'");
    std::vector<Value> out;
    for (const Value& item : items) {
        TRY(Value made, apply_filter(filter, item, rest, call.budget));
        out.push_back(std::move(made));
    }
    return out;
}

Result<Value> map(const FilterCall& call) {
    std::vector<Value> out;
    if (is_truthy(call.value)) {
        TRY(const std::vector<Value> items, iterate(call.value, call.budget));
        const bool attribute =
            call.arguments.positional.empty() && call.arguments.find("attribute") != nullptr;
        TRY(out, attribute ? map_attribute(call, items) : map_filter(call, items));
    }
    return make_generator(std::move(out), call.budget, "generator");
}

// select, reject, selectattr, rejectattr: ([attribute,] [test, arguments...])
Result<Value> select(const FilterCall& call) {
    const bool by_attribute = call.name.ends_with("attr");
    const bool wanted = call.name.starts_with("select");
    const std::size_t offset = by_attribute ? 1 : 0;
    const std::size_t given = call.arguments.positional.size();
    std::vector<Value> kept;
    if (is_truthy(call.value)) {
        if (given < offset)
            return base::invalid(std::string(call.name) + " needs the name of an attribute");
        std::string test;
        if (given > offset) {
            TRY(test, name_argument(call, offset, "test"));
        }
        const Arguments rest = given > offset ? rest_of(call, offset + 1) : Arguments{};
        TRY(const std::vector<Value> items, iterate(call.value, call.budget));
        for (const Value& item : items) {
            TRY(const Value tested, by_attribute
                                        ? get_path(item, call.arguments.positional[0], call.budget)
                                        : Result<Value>(item));
            bool fits = is_truthy(tested);
            if (given > offset) {
                TRY(fits, apply_test(test, tested, rest, call.budget));
            }
            if (fits == wanted) kept.push_back(item);
        }
    }
    return make_generator(std::move(kept), call.budget, "generator");
}

Result<Value> attribute(const FilterCall& call) {
    TRY(const Bound bound, call.bind("name", 1));
    TRY(const std::string name, bound.text_at(0, ""));
    // Of a mapping only the methods are attributes, not the items.
    if (const auto* dict = call.value.get<DictPtr>()) {
        TRY(Value found, get_attribute(call.value, name, call.budget));
        const bool own = found.is<CallablePtr>() && (*dict)->find_text(name) == nullptr;
        return own ? found : make_undefined("'dict object' has no attribute '" + name + "'");
    }
    return get_attribute(call.value, name, call.budget);
}

}  // namespace

const FilterTable& selection_filters() {
    static const FilterTable table{{"map", map},           {"select", select},
                                   {"reject", select},     {"selectattr", select},
                                   {"rejectattr", select}, {"attr", attribute}};
    return table;
}

}  // namespace helix::text::jinja
