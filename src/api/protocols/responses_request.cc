#include "api/protocols/responses_request.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "api/field_reader.h"
#include "api/protocols/chat_body.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

constexpr std::array<RenamedField, 5> kResponsesNames = {
    {{"max_tokens", "max_output_tokens"},
     {"messages", "input"},
     {"response_format.json_schema", "text.format"},
     {"response_format", "text.format"},
     {"reasoning_effort", "reasoning.effort"}}};
// Fields that mean the same in both bodies; the last ones are extensions of ours.
constexpr std::array<std::string_view, 15> kResponsesSame = {
    "model",     "temperature", "top_p", "stream", "parallel_tool_calls",  "user",     "metadata",
    "seed",      "min_p",       "top_k", "stop",   "chat_template_kwargs", "priority", "ignore_eos",
    "min_tokens"};

// The text of an array of parts that have one, as of a reasoning item.
std::string joined_texts(Json* parts) {
    std::string text;
    if (parts == nullptr || !parts->is_array()) return text;
    for (Json& part : *parts) {
        const Json* one = part.is_object() ? member(part, "text") : nullptr;
        if (one != nullptr && one->is_string()) text += one->get_ref<const std::string&>();
    }
    return text;
}

// Gathers the items of input as messages of chat. What the model said in one go (thoughts, text and
// calls) is one message of the assistant, as it was when it was said.
class InputItems {
  public:
    explicit InputItems(Json& messages) : messages_(messages) {}

    MaybeError add(const std::string& where, Json& item) {
        if (!item.is_object()) {
            return wrong_field(where, "expected an object, got " + kind_of(item));
        }
        std::string type = "message";
        const Json* given = member(item, "type");
        if (given != nullptr) {
            if (auto error = take_text(where, item, "type", true, type)) return error;
        }
        if (type == "message") return add_message(where, item);
        if (type == "reasoning") return add_reasoning(item);
        if (type == "function_call") return add_call(where, item);
        if (type == "function_call_output") return add_output(where, item);
        return wrong_field(where + ".type",
                           fmt::format("an item of type '{:.40}' is not supported", type));
    }
    // No item follows.
    void end() {
        if (!thinking_.empty()) assistant();
    }

  private:
    MaybeError add_message(const std::string& where, Json& item) {
        std::string role;
        if (auto error = take_text(where, item, "role", true, role)) return error;
        const bool known =
            role == "user" || role == "assistant" || role == "system" || role == "developer";
        if (!known) {
            return wrong_field(
                where + ".role",
                fmt::format("expected user, assistant, system or developer, got '{:.40}'", role));
        }
        Json* content = member(item, "content");
        if (content == nullptr) return wrong_field(where + ".content", "is required");
        if (role != "assistant") {
            end();
            messages_.push_back(chat_message(role, std::move(*content)));
            open_ = false;
            return {};
        }
        if (open_ && !messages_.back()["content"].is_null()) open_ = false;
        assistant()["content"] = std::move(*content);
        return {};
    }

    MaybeError add_reasoning(Json& item) {
        std::string text = joined_texts(member(item, "content"));
        if (text.empty()) text = joined_texts(member(item, "summary"));
        if (!text.empty()) open_ = false;
        thinking_ += text;
        return {};
    }

    MaybeError add_call(const std::string& where, Json& item) {
        std::string id;
        std::string name;
        std::string arguments;
        if (auto error = take_text(where, item, "call_id", true, id)) return error;
        if (auto error = take_text(where, item, "name", true, name)) return error;
        if (auto error = take_text(where, item, "arguments", true, arguments)) return error;
        assistant()["tool_calls"].push_back(chat_tool_call(id, name, std::move(arguments)));
        return {};
    }

    MaybeError add_output(const std::string& where, Json& item) {
        std::string id;
        if (auto error = take_text(where, item, "call_id", true, id)) return error;
        Json* output = member(item, "output");
        if (output == nullptr) return wrong_field(where + ".output", "is required");
        end();
        Json message = chat_message("tool", std::move(*output));
        message["tool_call_id"] = std::move(id);
        messages_.push_back(std::move(message));
        open_ = false;
        return {};
    }

    // The message of the assistant that goes on, or a new one.
    Json& assistant() {
        if (!std::exchange(open_, true)) {
            messages_.push_back(chat_message("assistant", nullptr));
            if (!thinking_.empty()) {
                messages_.back()["reasoning_content"] = std::exchange(thinking_, {});
            }
        }
        return messages_.back();
    }

    Json& messages_;
    std::string thinking_;  // of the message that comes next
    bool open_ = false;     // the last message is the assistant's, and may go on
};

MaybeError take_input(Json& body, Json& chat) {
    Json& messages = chat["messages"] = Json::array();
    if (Json* instructions = member(body, "instructions")) {
        if (!instructions->is_string()) {
            return wrong_field("instructions", "expected a string, got " + kind_of(*instructions));
        }
        messages.push_back(chat_message("system", *instructions));
    }
    Json* input = member(body, "input");
    if (input == nullptr) return wrong_field("input", "is required");
    if (input->is_string()) {
        messages.push_back(chat_message("user", std::move(*input)));
        return {};
    }
    if (!input->is_array() || input->empty()) {
        return wrong_field("input", "expected a string or an array of items");
    }
    InputItems items(messages);
    for (std::size_t i = 0; i < input->size(); ++i) {
        if (auto error = items.add(fmt::format("input[{}]", i), (*input)[i])) return error;
    }
    items.end();
    return {};
}

MaybeError take_response_tools(Json& body, Json& chat) {
    const Json* given = member(body, "tools");
    if (given == nullptr) return {};
    if (!given->is_array()) {
        return wrong_field("tools", "expected an array, got " + kind_of(*given));
    }
    Json tools = Json::array();
    for (std::size_t i = 0; i < given->size(); ++i) {
        const std::string where = fmt::format("tools[{}]", i);
        Json tool = (*given)[i];
        if (!tool.is_object()) {
            return wrong_field(where, "expected an object, got " + kind_of(tool));
        }
        std::string type;
        std::string name;
        if (auto error = take_text(where, tool, "type", true, type)) return error;
        if (type != "function") {
            return wrong_field(where + ".type",
                               fmt::format("a tool of type '{:.40}' is not supported", type));
        }
        if (auto error = take_text(where, tool, "name", true, name)) return error;
        tools.push_back(chat_tool(std::move(name), tool.value("description", Json()),
                                  tool.value("parameters", Json())));
        move_member(tool, "strict", tools.back()["function"], "strict");
    }
    if (!tools.empty()) chat["tools"] = std::move(tools);
    return {};
}

Json named_function(const Json& tool) {
    return {{"type", "function"}, {"function", {{"name", tool.value("name", Json())}}}};
}

MaybeError take_response_choice(Json& body, Json& chat) {
    const Json* choice = member(body, "tool_choice");
    if (choice == nullptr) return {};
    if (choice->is_string()) {
        chat["tool_choice"] = *choice;
        return {};
    }
    const Json type = choice->is_object() ? choice->value("type", Json()) : Json();
    if (type == "function") {
        chat["tool_choice"] = named_function(*choice);
        return {};
    }
    const Json tools = type == "allowed_tools" ? choice->value("tools", Json()) : Json();
    if (!tools.is_array()) {
        return wrong_field("tool_choice",
                           "expected auto, none, required, a function or allowed_tools");
    }
    Json allowed = {{"mode", choice->value("mode", Json("auto"))}, {"tools", Json::array()}};
    for (const Json& tool : tools) {
        if (!tool.is_object()) return wrong_field("tool_choice.tools", "expected objects");
        allowed["tools"].push_back(named_function(tool));
    }
    chat["tool_choice"] = {{"type", "allowed_tools"}};
    chat["tool_choice"]["allowed_tools"] = std::move(allowed);
    return {};
}

MaybeError take_text_format(Json& body, Json& chat) {
    Json* text = member(body, "text");
    if (text == nullptr) return {};
    if (!text->is_object()) return wrong_field("text", "expected an object, got " + kind_of(*text));
    const Json* format = member(*text, "format");
    if (format == nullptr) return {};
    if (!format->is_object()) {
        return wrong_field("text.format", "expected an object, got " + kind_of(*format));
    }
    if (format->value("type", Json()) != "json_schema") {
        chat["response_format"] = *format;
        return {};
    }
    Json schema = *format;
    schema.erase("type");
    chat["response_format"] = {{"type", "json_schema"}};
    chat["response_format"]["json_schema"] = std::move(schema);
    return {};
}

MaybeError take_reasoning(Json& body, Json& chat) {
    Json* reasoning = member(body, "reasoning");
    if (reasoning == nullptr) return {};
    if (!reasoning->is_object()) {
        return wrong_field("reasoning", "expected an object, got " + kind_of(*reasoning));
    }
    const Json* effort = member(*reasoning, "effort");
    if (effort == nullptr) return {};
    set_thinking(chat, *effort != "none");
    chat["reasoning_effort"] = *effort;
    return {};
}

MaybeError refuse_what_is_not_there(Json& body) {
    for (const char* name : {"conversation", "prompt"}) {
        if (member(body, name) != nullptr) return wrong_field(name, "is not supported");
    }
    FieldReader fields(body);
    bool background = false;
    std::int32_t logprobs = 0;
    bool store = true;  // what is kept, and where, is decided when the response is
    fields.boolean(field::kBackground, background);
    fields.boolean(field::kStore, store);
    fields.integer(field::kResponsesTopLogprobs, logprobs, 0);
    if (background) fields.fail(field::kBackground, "is not supported");
    return fields.error();
}

void append_setting(std::string& out, std::string_view name, const Json& value) {
    if (!out.empty()) out += ',';
    out += Json(name).dump() + ':' + value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string settings_of(const Json& body) {
    std::string out;
    append_setting(out, "background", false);
    const std::array<std::pair<const char*, Json>, 13> settings = {
        {{"instructions", nullptr},
         {"max_output_tokens", nullptr},
         {"metadata", Json::object()},
         {"parallel_tool_calls", true},
         {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
         {"temperature", 1.0},
         {"text", {{"format", {{"type", "text"}}}}},
         {"tool_choice", "auto"},
         {"tools", Json::array()},
         {"top_logprobs", 0},
         {"top_p", 1.0},
         {"truncation", "disabled"},
         {"user", nullptr}}};
    for (const auto& [name, usual] : settings) {
        const auto found = body.find(name);
        const bool given = found != body.end() && !found->is_null();
        append_setting(out, name, given ? *found : usual);
    }
    return out;
}

}  // namespace

MaybeError read_responses_body(Json& body, ResponsesAsk& ask) {
    ask.chat = Json::object();
    if (auto error = refuse_what_is_not_there(body)) return error;
    ask.settings = settings_of(body);
    for (const std::string_view name : kResponsesSame) move_member(body, name, ask.chat, name);
    move_member(body, "max_output_tokens", ask.chat, "max_tokens");
    if (auto error = take_input(body, ask.chat)) return error;
    if (auto error = take_response_tools(body, ask.chat)) return error;
    if (auto error = take_response_choice(body, ask.chat)) return error;
    if (auto error = take_text_format(body, ask.chat)) return error;
    return take_reasoning(body, ask.chat);
}

ApiError in_responses_words(ApiError error) {
    return renamed(std::move(error), kResponsesNames);
}

}  // namespace helix::api
