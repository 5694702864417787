#include "text/tool_calls/tool_schemas.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "text/grammar/schema_words.h"

namespace helix::text {
namespace {

using nlohmann::ordered_json;

constexpr int kMaxSchemaDepth = 8;

std::uint8_t type_of_name(std::string_view name) {
    if (name == "string") return json_type::kString;
    if (name == "number" || name == "integer") return json_type::kNumber;
    if (name == "boolean") return json_type::kBoolean;
    if (name == "null") return json_type::kNull;
    if (name == "array") return json_type::kArray;
    if (name == "object") return json_type::kObject;
    return 0;
}

std::uint8_t type_of_value(const ordered_json& value) {
    if (value.is_string()) return json_type::kString;
    if (value.is_number()) return json_type::kNumber;
    if (value.is_boolean()) return json_type::kBoolean;
    if (value.is_null()) return json_type::kNull;
    return value.is_array() ? json_type::kArray : json_type::kObject;
}

std::uint8_t types_of_schema(grammar::SchemaReferences& references, const ordered_json& schema,
                             int depth) {
    if (!schema.is_object() || depth > kMaxSchemaDepth) return 0;
    std::uint8_t types = 0;
    for (const auto& [key, value] : schema.items()) {
        if (key == "type" && value.is_string()) {
            types |= type_of_name(value.get_ref<const std::string&>());
        } else if (key == "type" && value.is_array()) {
            for (const auto& name : value) {
                if (name.is_string()) types |= type_of_name(name.get_ref<const std::string&>());
            }
        } else if (key == "enum" && value.is_array()) {
            for (const auto& item : value) types |= type_of_value(item);
        } else if (key == "const") {
            types |= type_of_value(value);
        } else if (key == "nullable" && value == true) {
            types |= json_type::kNull;
        } else if ((key == "anyOf" || key == "oneOf" || key == "allOf") && value.is_array()) {
            for (const auto& part : value) types |= types_of_schema(references, part, depth + 1);
        } else if (key == "$ref" && value.is_string()) {
            const auto target = references.resolve(value);
            if (target.ok()) types |= types_of_schema(references, **target, depth + 1);
        }
    }
    return types;
}

}  // namespace

ToolSchemas::ToolSchemas(const ordered_json& tools) {
    for (const ordered_json& tool : tools) {
        if (!tool.is_object()) continue;
        const auto function = tool.find("function");
        if (function == tool.end() || !function->is_object()) continue;
        const auto name = function->find("name");
        if (name == function->end() || !name->is_string()) continue;
        Parameters& parameters = tools_[name->get<std::string>()];
        const auto schema = function->find("parameters");
        if (schema == function->end() || !schema->is_object()) continue;
        const auto properties = schema->find("properties");
        if (properties == schema->end() || !properties->is_object()) continue;
        grammar::SchemaReferences references(*schema);
        for (const auto& [key, property] : properties->items()) {
            parameters[key] = types_of_schema(references, property, 0);
        }
    }
}

std::uint8_t ToolSchemas::types(std::string_view tool, std::string_view parameter) const {
    const auto found = tools_.find(tool);
    if (found == tools_.end()) return 0;
    const auto types = found->second.find(parameter);
    return types == found->second.end() ? std::uint8_t{0} : types->second;
}

}  // namespace helix::text
