#include "api/protocols/chat_body.h"

#include <fmt/format.h>

#include "api/field_reader.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

ApiError wrong_field(const std::string& field, const std::string& message) {
    return bad_field(field, fmt::format("'{}': {}", field, message));
}

ApiError renamed(ApiError error, std::span<const RenamedField> names) {
    for (const RenamedField& name : names) {
        if (!error.param.starts_with(name.chat)) continue;
        const std::string_view rest = std::string_view(error.param).substr(name.chat.size());
        if (!rest.empty() && rest.front() != '.' && rest.front() != '[') continue;
        const std::string quoted = fmt::format("'{}'", error.param);
        error.param = fmt::format("{}{}", name.own, rest);
        if (error.message.starts_with(quoted)) {
            error.message.replace(0, quoted.size(), fmt::format("'{}'", error.param));
        }
        break;
    }
    return error;
}

Json* member(Json& object, std::string_view name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<ApiError> take_text(const std::string& where, Json& object, std::string_view name,
                                  bool required, std::string& text) {
    Json* value = member(object, name);
    if (value == nullptr && !required) return {};
    const std::string field = where.empty() ? std::string(name) : fmt::format("{}.{}", where, name);
    if (value == nullptr) return wrong_field(field, "is required");
    if (!value->is_string()) return wrong_field(field, "expected a string, got " + kind_of(*value));
    text = std::move(value->get_ref<std::string&>());
    return {};
}

bool is_empty_text(const Json& value) {
    return value.is_string() && value.get_ref<const std::string&>().empty();
}

void move_member(Json& from, std::string_view name, Json& to, std::string_view new_name) {
    if (Json* value = member(from, name)) to[std::string(new_name)] = std::move(*value);
}

Json chat_message(std::string_view role, Json content) {
    Json message;
    message["role"] = role;
    message["content"] = std::move(content);
    return message;
}

Json chat_tool_call(const std::string& id, const std::string& name, std::string arguments) {
    return {{"id", id},
            {"type", "function"},
            {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

Json chat_tool(std::string name, Json description, Json parameters) {
    Json function;
    function["name"] = std::move(name);
    if (!description.is_null()) function["description"] = std::move(description);
    if (!parameters.is_null()) function["parameters"] = std::move(parameters);
    Json tool;
    tool["type"] = "function";
    tool["function"] = std::move(function);
    return tool;
}

// Qwen's and GLM's templates have one name for it, DeepSeek's and Granite's the other.
void set_thinking(Json& chat, bool on) {
    Json& kwargs = chat["chat_template_kwargs"];
    if (!kwargs.is_null() && !kwargs.is_object()) return;  // an error that is found later
    kwargs["enable_thinking"] = on;
    kwargs["thinking"] = on;
}

void set_schema(Json& chat, Json schema) {
    chat["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}}}};
    chat["response_format"]["json_schema"]["schema"] = std::move(schema);
}

}  // namespace helix::api
