#include "text/grammar/python_arguments.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "text/grammar/json_schema.h"

namespace helix::text::grammar {
namespace {

using PythonJson = nlohmann::ordered_json;

}  // namespace

base::Result<Expr> PythonArguments::of(const PythonJson& schema) {
    TRY(const std::vector<CallArgument> arguments, call_arguments(schema));
    // From the last one back: what may follow where nothing is written yet, and where something is.
    Expr first;
    Expr later;
    for (std::size_t i = arguments.size(); i-- > 0;) {
        TRY(const Expr argument, one(arguments[i], schema));
        Expr here = sequence({argument, later});
        const RuleIndex after = grammar_.add("arguments", sequence({literal(", "), here}));
        const bool required = arguments[i].required;
        first = required ? std::move(here) : choice({std::move(here), std::move(first)});
        later = required ? rule(after) : choice({rule(after), std::move(later)});
        first = rule(grammar_.add("arguments", std::move(first)));
        later = rule(grammar_.add("arguments", std::move(later)));
    }
    return first;
}

base::Result<Expr> PythonArguments::one(const CallArgument& argument, const PythonJson& root) {
    const std::string& name = argument.name;
    if (!is_plain_name(name)) return not_in_call("the name " + PythonJson(name).dump());
    const std::string key = key_of(argument, root);
    auto known = values_.find(key);
    if (known == values_.end()) {
        TRY(Grammar made,
            schema_grammar(root, *argument.schema, argument.place(), Notation::python));
        known = values_.emplace(key, append(grammar_, std::move(made))).first;
    }
    return sequence({literal(name + "="), rule(known->second)});
}

}  // namespace helix::text::grammar
