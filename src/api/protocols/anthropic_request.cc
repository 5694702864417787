#include "api/protocols/anthropic_request.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "api/field_reader.h"
#include "api/protocols/chat_body.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";
// Fields that mean the same in both bodies; the last ones are extensions of ours.
constexpr std::array<std::string_view, 11> kSameFields = {
    "model", "max_tokens", "stream",     "temperature",         "top_k", "top_p", "seed",
    "min_p", "priority",   "ignore_eos", "chat_template_kwargs"};
constexpr std::array<RenamedField, 4> kNames = {{{"stop", "stop_sequences"},
                                                 {"response_format", "output_config.format"},
                                                 {"reasoning_effort", "output_config.effort"},
                                                 {"parallel_tool_calls", "tool_choice"}}};

MaybeError read_type(const std::string& where, Json& block, std::string& type) {
    if (!block.is_object()) return wrong_field(where, "expected an object, got " + kind_of(block));
    return take_text(where, block, "type", true, type);
}

ApiError no_such_block(const std::string& where, const std::string& type) {
    return wrong_field(where + ".type",
                       fmt::format("a block of type '{:.40}' is not supported here", type));
}

// The text of a block of type text, or of a document that is plain text.
MaybeError read_text_block(const std::string& where, const std::string& type, Json& block,
                           std::string& text) {
    if (type == "text") return take_text(where, block, "text", true, text);
    Json* source = type == "document" ? member(block, "source") : nullptr;
    const bool plain =
        source != nullptr && source->is_object() && source->value("type", Json()) == "text";
    if (plain) return take_text(where + ".source", *source, "data", true, text);
    return wrong_field(
        where + ".type",
        fmt::format("this model takes text only, got a block of type '{:.40}'", type));
}

void add_part(Json& parts, std::string text) {
    Json part;
    part["type"] = "text";
    part["text"] = std::move(text);
    parts.push_back(std::move(part));
}

// Text of a field that is a string or an array of blocks, as parts for a message of chat.
MaybeError read_content(const std::string& where, Json& content, Json& parts) {
    parts = Json::array();
    if (content.is_string()) {
        add_part(parts, std::move(content.get_ref<std::string&>()));
        return {};
    }
    if (!content.is_array()) {
        return wrong_field(where,
                           "expected a string or an array of blocks, got " + kind_of(content));
    }
    for (std::size_t i = 0; i < content.size(); ++i) {
        const std::string at = fmt::format("{}[{}]", where, i);
        std::string type;
        std::string text;
        if (auto error = read_type(at, content[i], type)) return error;
        if (auto error = read_text_block(at, type, content[i], text)) return error;
        add_part(parts, std::move(text));
    }
    return {};
}

MaybeError add_system(Json& system, Json& messages) {
    Json* first = system.is_array() && !system.empty() ? &system.front() : nullptr;
    if (first != nullptr && first->is_object()) {
        const Json* text = member(*first, "text");
        const bool billing = text != nullptr && text->is_string() &&
                             text->get_ref<const std::string&>().starts_with(kBillingHeader);
        if (billing) system.erase(0);
    }
    if (system.empty() || is_empty_text(system)) return {};
    Json parts;
    if (auto error = read_content("system", system, parts)) return error;
    messages.push_back(chat_message("system", std::move(parts)));
    return {};
}

// The messages of one user's message: its text, and between it the results of tools.
class UserMessage {
  public:
    UserMessage(std::string where, Json& messages)
        : where_(std::move(where)), messages_(messages) {}

    MaybeError add(Json& content) {
        for (std::size_t i = 0; i < content.size(); ++i) {
            const std::string at = fmt::format("{}[{}]", where_, i);
            std::string type;
            if (auto error = read_type(at, content[i], type)) return error;
            if (type == "tool_result") {
                flush();
                if (auto error = add_result(at, content[i])) return error;
                continue;
            }
            std::string text;
            if (auto error = read_text_block(at, type, content[i], text)) return error;
            add_part(parts_, std::move(text));
        }
        if (content.empty()) add_part(parts_, "");
        flush();
        return {};
    }

  private:
    MaybeError add_result(const std::string& at, Json& block) {
        std::string id;
        if (auto error = take_text(at, block, "tool_use_id", true, id)) return error;
        Json parts = "";
        if (Json* content = member(block, "content")) {
            if (auto error = read_content(at + ".content", *content, parts)) return error;
        }
        Json message = chat_message("tool", std::move(parts));
        message["tool_call_id"] = std::move(id);
        messages_.push_back(std::move(message));
        return {};
    }

    void flush() {
        if (parts_.empty()) return;
        messages_.push_back(chat_message("user", std::exchange(parts_, Json::array())));
    }

    std::string where_;  // of its content
    Json& messages_;
    Json parts_ = Json::array();
};

// One message of the assistant. Its texts are joined as they were when the model wrote them.
class AssistantMessage {
  public:
    MaybeError add(const std::string& at, Json& block) {
        std::string type;
        if (auto error = read_type(at, block, type)) return error;
        std::string text;
        if (type == "text") {
            if (auto error = take_text(at, block, "text", true, text)) return error;
            content_ += text;
        } else if (type == "thinking") {
            if (auto error = take_text(at, block, "thinking", true, text)) return error;
            thinking_ += text;
        } else if (type == "tool_use") {
            return add_call(at, block);
        } else if (type != "redacted_thinking") {
            return no_such_block(at, type);
        }
        return {};
    }

    Json message() && {
        const bool silent = content_.empty() && !calls_.empty();
        Json message = chat_message("assistant", silent ? Json() : Json(std::move(content_)));
        if (!thinking_.empty()) message["reasoning_content"] = std::move(thinking_);
        if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
        return message;
    }

  private:
    MaybeError add_call(const std::string& at, Json& block) {
        std::string id;
        std::string name;
        if (auto error = take_text(at, block, "id", true, id)) return error;
        if (auto error = take_text(at, block, "name", true, name)) return error;
        const Json* input = member(block, "input");
        if (input == nullptr || !input->is_object()) {
            return wrong_field(at + ".input", "expected an object");
        }
        calls_.push_back(chat_tool_call(id, name, input->dump()));
        return {};
    }

    std::string content_;
    std::string thinking_;
    Json calls_ = Json::array();
};

MaybeError add_message(const std::string& where, Json& message, Json& messages) {
    if (!message.is_object()) {
        return wrong_field(where, "expected an object, got " + kind_of(message));
    }
    std::string role;
    if (auto error = take_text(where, message, "role", true, role)) return error;
    if (role != "user" && role != "assistant" && role != "system") {
        return wrong_field(where + ".role",
                           fmt::format("expected user, assistant or system, got '{:.40}'", role));
    }
    const std::string field = where + ".content";
    Json* content = member(message, "content");
    if (content == nullptr) return wrong_field(field, "is required");
    if (content->is_string()) {
        messages.push_back(chat_message(role, std::move(*content)));
        return {};
    }
    if (!content->is_array()) {
        return wrong_field(field,
                           "expected a string or an array of blocks, got " + kind_of(*content));
    }
    if (role == "user") return UserMessage(field, messages).add(*content);
    if (role == "system") {
        Json parts;
        if (auto error = read_content(field, *content, parts)) return error;
        messages.push_back(chat_message(role, std::move(parts)));
        return {};
    }
    AssistantMessage assistant;
    for (std::size_t i = 0; i < content->size(); ++i) {
        if (auto error = assistant.add(fmt::format("{}[{}]", field, i), (*content)[i])) {
            return error;
        }
    }
    messages.push_back(std::move(assistant).message());
    return {};
}

MaybeError add_messages(Json& body, Json& chat) {
    Json messages = Json::array();
    if (Json* system = member(body, "system")) {
        if (auto error = add_system(*system, messages)) return error;
    }
    Json* given = member(body, "messages");
    if (given == nullptr) return wrong_field("messages", "is required");
    if (!given->is_array() || given->empty()) {
        return wrong_field("messages", "expected at least one message in an array");
    }
    for (std::size_t i = 0; i < given->size(); ++i) {
        if (auto error = add_message(fmt::format("messages[{}]", i), (*given)[i], messages)) {
            return error;
        }
    }
    chat["messages"] = std::move(messages);
    return {};
}

MaybeError add_tools(Json& body, Json& chat) {
    Json* given = member(body, "tools");
    if (given == nullptr) return {};
    if (!given->is_array()) {
        return wrong_field("tools", "expected an array, got " + kind_of(*given));
    }
    Json tools = Json::array();
    for (std::size_t i = 0; i < given->size(); ++i) {
        const std::string where = fmt::format("tools[{}]", i);
        Json& tool = (*given)[i];
        if (!tool.is_object()) {
            return wrong_field(where, "expected an object, got " + kind_of(tool));
        }
        const Json type = tool.value("type", Json("custom"));
        if (!type.is_null() && type != "custom") {
            return wrong_field(where + ".type",
                               "only tools with an input_schema of their own are supported");
        }
        std::string name;
        if (auto error = take_text(where, tool, "name", true, name)) return error;
        Json* schema = member(tool, "input_schema");
        if (schema == nullptr || !schema->is_object()) {
            return wrong_field(where + ".input_schema", "expected a JSON schema");
        }
        Json* about = member(tool, "description");
        tools.push_back(chat_tool(std::move(name), about != nullptr ? std::move(*about) : Json(),
                                  std::move(*schema)));
        move_member(tool, "strict", tools.back()["function"], "strict");
    }
    chat["tools"] = std::move(tools);
    return {};
}

MaybeError add_tool_choice(Json& body, Json& chat) {
    Json* choice = member(body, "tool_choice");
    if (choice == nullptr) return {};
    std::string type;
    if (auto error = read_type("tool_choice", *choice, type)) return error;
    if (type == "auto" || type == "none") {
        chat["tool_choice"] = type;
    } else if (type == "any") {
        chat["tool_choice"] = "required";
    } else if (type == "tool") {
        std::string name;
        if (auto error = take_text("tool_choice", *choice, "name", true, name)) return error;
        chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", std::move(name)}}}};
    } else {
        return wrong_field("tool_choice.type",
                           fmt::format("expected auto, any, tool or none, got '{:.40}'", type));
    }
    bool one_at_a_time = false;
    FieldReader fields(*choice, "tool_choice.");
    fields.boolean(field::kOneAtATime, one_at_a_time);
    if (one_at_a_time) chat["parallel_tool_calls"] = false;
    return fields.error();
}

MaybeError add_thinking(Json& body, Json& chat) {
    Json* thinking = member(body, "thinking");
    if (thinking == nullptr) return {};
    std::string type;
    if (auto error = read_type("thinking", *thinking, type)) return error;
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
        return wrong_field(
            "thinking.type",
            fmt::format("expected enabled, disabled or adaptive, got '{:.40}'", type));
    }
    set_thinking(chat, type != "disabled");
    if (const Json* budget = member(*thinking, "budget_tokens")) {
        const auto tokens = as_integer(*budget);
        if (type != "enabled" || !tokens || *tokens < 1) {
            return wrong_field("thinking.budget_tokens",
                               "expected a whole number from 1 on, beside the type enabled");
        }
        chat["thinking_token_budget"] = *tokens;
    }
    return {};
}

MaybeError add_output_config(Json& body, Json& chat) {
    Json* config = member(body, "output_config");
    Json* format = member(body, "output_format");  // its older place
    if (config != nullptr) {
        if (!config->is_object()) {
            return wrong_field("output_config", "expected an object, got " + kind_of(*config));
        }
        move_member(*config, "effort", chat, "reasoning_effort");
        if (Json* newer = member(*config, "format")) format = newer;
    }
    if (format == nullptr) return {};
    const std::string where = "output_config.format";
    std::string type;
    if (auto error = read_type(where, *format, type)) return error;
    Json* schema = member(*format, "schema");
    if (type != "json_schema" || schema == nullptr) {
        return wrong_field(where, R"(expected {"type":"json_schema","schema":SCHEMA})");
    }
    set_schema(chat, std::move(*schema));
    return {};
}

MaybeError add_sampling(Json& body, bool asks_answer, Json& chat) {
    FieldReader fields(body);
    std::int32_t most = 0;
    fields.integer(field::kMessagesMaxTokens, most);
    if (asks_answer && fields.find(field::kMessagesMaxTokens) == nullptr) {
        fields.fail(field::kMessagesMaxTokens, "is required");
    }
    const Json* stops = fields.find(field::kStopSequences);
    if (stops != nullptr && !stops->is_array()) {
        fields.fail(field::kStopSequences, "expected an array of strings, got " + kind_of(*stops));
    }
    if (fields.failed()) return fields.error();
    for (const std::string_view name : kSameFields) move_member(body, name, chat, name);
    move_member(body, "stop_sequences", chat, "stop");
    return {};
}

}  // namespace

MaybeError chat_body_of_messages(Json& body, bool asks_answer, Json& chat) {
    chat = Json::object();
    if (auto error = add_sampling(body, asks_answer, chat)) return error;
    if (auto error = add_messages(body, chat)) return error;
    if (auto error = add_tools(body, chat)) return error;
    if (auto error = add_tool_choice(body, chat)) return error;
    if (auto error = add_thinking(body, chat)) return error;
    return add_output_config(body, chat);
}

ApiError anthropic_too_long(std::int64_t context, std::int64_t prompt, std::int64_t answer) {
    ApiError error = bad_field(
        "messages",
        prompt >= context
            ? fmt::format("prompt is too long: {} tokens > {} maximum", prompt, context)
            : fmt::format("input length and `max_tokens` exceed context limit: {} + {} > {}, "
                          "decrease input length or `max_tokens` and try again",
                          prompt, answer, context));
    error.code = "context_length_exceeded";
    return error;
}

ApiError in_anthropic_words(ApiError error) {
    return renamed(std::move(error), kNames);
}

}  // namespace helix::api
