#include "text/template/filters.h"

namespace helix::text::jinja {

namespace {

const Filter* find_filter(std::string_view name) {
    for (const FilterTable* table :
         {&text_filters(), &number_filters(), &sequence_filters(), &selection_filters()}) {
        const auto found = table->find(name);
        if (found != table->end()) return &found->second;
    }
    return nullptr;
}

}  // namespace

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments,
                           Budget& budget) {
    const Filter* filter = find_filter(name);
    if (filter == nullptr)
        return base::invalid("there is no filter named '" + std::string(name) + "'");
    TRY_VOID(budget.charge(1));
    return (*filter)({name, value, arguments, budget});
}

bool is_filter(std::string_view name) {
    return find_filter(name) != nullptr;
}

}  // namespace helix::text::jinja
