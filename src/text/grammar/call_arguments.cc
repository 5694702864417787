#include "text/grammar/call_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/grammar/schema_reader.h"
#include "text/grammar/schema_words.h"

namespace helix::text::grammar {
namespace {

base::Status check_arguments(const SchemaJson& schema) {
    if (!schema.is_object()) return not_in_call("a schema that is no object");
    for (const auto& [key, value] : schema.items()) {
        const bool known = is_schema_annotation(key) || key == "additionalProperties" ||
                           key == "$defs" || key == "definitions";
        if (known || (key == "type" && value == "object")) continue;
        if (key == "properties" && value.is_object()) continue;
        if (key == "required" && value.is_array()) continue;
        return not_in_call(key);
    }
    const auto required = schema.find("required");
    if (required == schema.end()) return base::Ok{};
    const auto properties = schema.find("properties");
    for (const SchemaJson& name : *required) {
        const bool listed = name.is_string() && properties != schema.end() &&
                            properties->contains(name.get_ref<const std::string&>());
        if (!listed) return not_in_call("a required property without a schema");
    }
    return base::Ok{};
}

bool has_reference(const SchemaJson& schema) {
    if (schema.is_object() && schema.contains("$ref")) return true;
    return schema.is_structured() && std::ranges::any_of(schema, has_reference);
}

}  // namespace

std::string CallArgument::place() const {
    return schema_place("#/properties", name);
}

base::Result<std::vector<CallArgument>> call_arguments(const SchemaJson& schema) {
    TRY_VOID(check_arguments(schema));
    std::vector<CallArgument> all;
    const auto properties = schema.find("properties");
    if (properties == schema.end()) return all;
    const auto required = schema.find("required");
    for (const auto& [name, property] : properties->items()) {
        const bool needed = required != schema.end() &&
                            std::ranges::find(*required, SchemaJson(name)) != required->end();
        all.push_back({name, &property, needed});
    }
    return all;
}

std::string key_of(const CallArgument& argument, const SchemaJson& document) {
    std::string key = argument.schema->dump();
    if (has_reference(*argument.schema)) key += document.dump();
    return key;
}

base::Error not_in_call(std::string_view what) {
    return base::invalid(fmt::format("{} cannot be kept in calls as this model writes them", what));
}

}  // namespace helix::text::grammar
