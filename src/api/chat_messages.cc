#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/completion_request.h"
#include "api/field_reader.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

ApiError wrong(const std::string& field, const std::string& message) {
    return bad_field(field, fmt::format("'{}': {}", field, message));
}

// An array of text parts becomes one string.
MaybeError join_parts(const std::string& field, const RequestLimits& limits, Json& content) {
    if (content.size() > limits.max_parts) {
        return wrong(field, fmt::format("at most {} parts (max_parts)", limits.max_parts));
    }
    std::string text;
    for (std::size_t i = 0; i < content.size(); ++i) {
        const std::string where = fmt::format("{}[{}]", field, i);
        const Json& part = content[i];
        if (part.is_string()) {
            text += (i > 0 ? "\n" : "") + part.get<std::string>();
            continue;
        }
        if (!part.is_object()) return wrong(where, "expected an object, got " + kind_of(part));
        const auto type = part.find("type");
        if (type == part.end() || !type->is_string()) {
            return wrong(where + ".type", "expected a string");
        }
        const auto name = type->get<std::string>();
        if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal") {
            return wrong(
                where + ".type",
                fmt::format("this model takes text only, got a part of type '{:.40}'", name));
        }
        const char* key = name == "refusal" ? "refusal" : "text";
        const auto value = part.find(key);
        if (value == part.end() || !value->is_string()) {
            return wrong(where + "." + key, "expected a string");
        }
        text += (i > 0 ? "\n" : "") + value->get<std::string>();
    }
    content = std::move(text);
    return {};
}

MaybeError check_tool_calls(const std::string& field, const RequestLimits& limits, Json& calls) {
    if (!calls.is_array()) return wrong(field, "expected an array, got " + kind_of(calls));
    if (calls.size() > limits.max_tool_calls) {
        return wrong(field, fmt::format("at most {} (max_tool_calls)", limits.max_tool_calls));
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const std::string where = fmt::format("{}[{}].function", field, i);
        if (!calls[i].is_object() || !calls[i].contains("function") ||
            !calls[i]["function"].is_object()) {
            return wrong(where, "expected an object");
        }
        if (!calls[i].contains("type")) calls[i]["type"] = "function";
        Json& function = calls[i]["function"];
        if (!function.contains("name") || !function["name"].is_string()) {
            return wrong(where + ".name", "expected a string");
        }
        // In the API arguments are JSON inside a string; templates want the object.
        const auto arguments = function.find("arguments");
        const auto* text =
            arguments == function.end() ? nullptr : arguments->get_ptr<const Json::string_t*>();
        const bool none = arguments == function.end() || arguments->is_null();
        if (none || (text != nullptr && text->empty())) {
            function["arguments"] = Json::object();
            continue;
        }
        if (arguments->is_object()) continue;
        if (!arguments->is_string()) {
            return wrong(where + ".arguments", "expected a string, got " + kind_of(*arguments));
        }
        Json parsed;
        if (!parse_json_object(arguments->get_ref<const std::string&>(), parsed)) {
            *arguments = std::move(parsed);
        }
    }
    return {};
}

// What the model thought in an earlier turn comes under either name; templates know the older one.
MaybeError check_reasoning(const std::string& where, Json& message) {
    for (const char* name : {"reasoning_content", "reasoning"}) {
        const auto found = message.find(name);
        if (found == message.end()) continue;
        if (!found->is_string() && !found->is_null()) {
            return wrong(where + "." + name, "expected a string, got " + kind_of(*found));
        }
    }
    const auto newer = message.find("reasoning");
    if (newer == message.end()) return {};
    Json text = std::move(*newer);
    message.erase("reasoning");
    if (!message.contains("reasoning_content")) message["reasoning_content"] = std::move(text);
    if (message["reasoning_content"].is_null()) message.erase("reasoning_content");
    return {};
}

MaybeError check_message(const std::string& where, const RequestLimits& limits, Json& message) {
    if (!message.is_object()) return wrong(where, "expected an object, got " + kind_of(message));
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) {
        return wrong(where + ".role", "expected a string");
    }
    const auto name = role->get<std::string>();  // a copy: message grows below
    if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
        return wrong(
            where + ".role",
            fmt::format("expected system, developer, user, assistant or tool, got '{:.40}'", name));
    }
    if (name == "assistant") {
        if (MaybeError error = check_reasoning(where, message)) return error;
    }
    const bool may_be_null = name == "assistant" || name == "function";
    if (message.contains("tool_calls") && message["tool_calls"].is_null())
        message.erase("tool_calls");
    if (message.contains("tool_calls")) {
        if (MaybeError error =
                check_tool_calls(where + ".tool_calls", limits, message["tool_calls"])) {
            return error;
        }
    }
    const std::string field = where + ".content";
    Json& content = message["content"];
    if (content.is_string()) return {};
    if (content.is_array()) return join_parts(field, limits, content);
    if (content.is_null()) {
        if (may_be_null) return {};
        return wrong(field, "a message of role " + name + " needs a content");
    }
    return wrong(field, "expected a string or an array of parts, got " + kind_of(content));
}

}  // namespace

std::optional<ApiError> normalise_messages(Json& messages, const RequestLimits& limits) {
    if (!messages.is_array()) {
        return wrong("messages", "expected an array, got " + kind_of(messages));
    }
    if (messages.empty()) return wrong("messages", "expected at least one message");
    if (messages.size() > limits.max_messages) {
        return wrong("messages", fmt::format("at most {} (max_messages)", limits.max_messages));
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (MaybeError error = check_message(fmt::format("messages[{}]", i), limits, messages[i]))
            return error;
    }
    return {};
}

}  // namespace helix::api
