#include "api/protocols/ollama_request.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <string>
#include <utility>

#include "api/field_reader.h"
#include "api/protocols/chat_body.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

// Options, and what OpenAI's form calls them.
constexpr std::array<RenamedField, 10> kOllamaOptions = {
    {{"max_tokens", "options.num_predict"},
     {"temperature", "options.temperature"},
     {"top_k", "options.top_k"},
     {"top_p", "options.top_p"},
     {"min_p", "options.min_p"},
     {"seed", "options.seed"},
     {"stop", "options.stop"},
     {"repetition_penalty", "options.repeat_penalty"},
     {"presence_penalty", "options.presence_penalty"},
     {"frequency_penalty", "options.frequency_penalty"}}};
constexpr std::array<RenamedField, 2> kOllamaFields = {
    {{"response_format", "format"}, {"reasoning_effort", "think"}}};

MaybeError take_options(Json& body, Json& made) {
    Json* options = member(body, "options");
    if (options == nullptr) return {};
    if (!options->is_object()) {
        return wrong_field("options", "expected an object, got " + kind_of(*options));
    }
    for (const RenamedField& option : kOllamaOptions) {
        move_member(*options, option.own.substr(option.own.find('.') + 1), made, option.chat);
    }
    // -1 is no limit, -2 fills the context, which is the same.
    Json* most = member(made, "max_tokens");
    if (most != nullptr && *most == -2) *most = -1;
    return {};
}

MaybeError take_format(Json& body, Json& made) {
    Json* format = member(body, "format");
    if (format == nullptr || is_empty_text(*format)) return {};
    if (*format == "json") {
        made["response_format"] = {{"type", "json_object"}};
    } else if (format->is_object()) {
        set_schema(made, std::move(*format));
    } else {
        return wrong_field("format", "expected \"json\" or a JSON schema");
    }
    return {};
}

MaybeError take_think(Json& body, Json& made) {
    Json* think = member(body, "think");
    if (think == nullptr || is_empty_text(*think)) return {};
    if (think->is_boolean()) {
        set_thinking(made, think->get<bool>());
        return {};
    }
    if (!think->is_string()) {
        return wrong_field("think", "expected true, false or a level, got " + kind_of(*think));
    }
    set_thinking(made, true);
    made["reasoning_effort"] = std::move(*think);
    return {};
}

// What both endpoints have. made is empty before.
MaybeError take_common(Json& body, Json& made) {
    made = Json::object();
    move_member(body, "model", made, "model");
    made["stream"] = true;
    move_member(body, "stream", made, "stream");
    made["max_tokens"] = -1;
    if (auto error = take_options(body, made)) return error;
    if (auto error = take_format(body, made)) return error;
    return take_think(body, made);
}

MaybeError refuse_images(const std::string& field, Json& object) {
    const Json* images = member(object, "images");
    if (images == nullptr || images->empty()) return {};
    return wrong_field(field, "this model takes text only");
}

// Calls of tools have no ids in this protocol, or need none; a result belongs to the oldest call
// that has none yet.
class CallIds {
  public:
    std::string next() {
        open_.push_back(fmt::format("call_{}", made_++));
        return open_.back();
    }
    std::string answered() {
        if (open_.empty()) return {};
        std::string id = std::move(open_.front());
        open_.pop_front();
        return id;
    }

  private:
    std::deque<std::string> open_;
    int made_ = 0;
};

class OllamaMessages {
  public:
    MaybeError add(const std::string& where, Json& message) {
        if (!message.is_object()) {
            return wrong_field(where, "expected an object, got " + kind_of(message));
        }
        const std::string dot = where + ".";
        std::string role;
        std::string content;
        std::string thinking;
        if (auto error = take_text(where, message, "role", false, role)) return error;
        if (auto error = take_text(where, message, "content", false, content)) return error;
        if (auto error = take_text(where, message, "thinking", false, thinking)) return error;
        if (auto error = refuse_images(dot + "images", message)) return error;
        if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
            return wrong_field(
                dot + "role",
                fmt::format("expected system, user, assistant or tool, got '{:.40}'", role));
        }
        Json made = chat_message(role, std::move(content));
        if (!thinking.empty()) made["reasoning_content"] = std::move(thinking);
        if (auto error = add_calls(dot + "tool_calls", message, made)) return error;
        if (role == "tool") {
            made["tool_call_id"] = ids_.answered();
            move_member(message, "tool_call_id", made, "tool_call_id");
            move_member(message, "tool_name", made, "name");
        }
        messages_.push_back(std::move(made));
        return {};
    }
    Json take() { return std::move(messages_); }

  private:
    MaybeError add_calls(const std::string& where, Json& message, Json& made) {
        Json* calls = member(message, "tool_calls");
        if (calls == nullptr || calls->empty()) return {};
        if (!calls->is_array()) {
            return wrong_field(where, "expected an array, got " + kind_of(*calls));
        }
        Json all = Json::array();
        for (std::size_t i = 0; i < calls->size(); ++i) {
            const std::string at = fmt::format("{}[{}].function", where, i);
            Json& call = (*calls)[i];
            Json* function = call.is_object() ? member(call, "function") : nullptr;
            if (function == nullptr || !function->is_object()) {
                return wrong_field(at, "expected an object");
            }
            std::string name;
            std::string id;
            if (auto error = take_text(at, *function, "name", false, name)) return error;
            if (auto error = take_text(fmt::format("{}[{}]", where, i), call, "id", false, id)) {
                return error;
            }
            const Json* arguments = member(*function, "arguments");
            if (arguments == nullptr || !arguments->is_object()) {
                return wrong_field(at + ".arguments", "expected an object");
            }
            const std::string own = ids_.next();
            all.push_back(chat_tool_call(id.empty() ? own : id, name, arguments->dump()));
        }
        made["tool_calls"] = std::move(all);
        return {};
    }

    Json messages_ = Json::array();
    CallIds ids_;
};

}  // namespace

MaybeError openai_body_of_ollama_chat(Json& body, Json& made, OllamaAsk& ask) {
    if (auto error = take_common(body, made)) return error;
    ask = OllamaAsk::nothing;
    Json* given = member(body, "messages");
    if (given == nullptr || (given->is_array() && given->empty())) return {};
    if (!given->is_array()) {
        return wrong_field("messages", "expected an array, got " + kind_of(*given));
    }
    ask = OllamaAsk::chat;
    OllamaMessages messages;
    for (std::size_t i = 0; i < given->size(); ++i) {
        if (auto error = messages.add(fmt::format("messages[{}]", i), (*given)[i])) return error;
    }
    made["messages"] = messages.take();
    move_member(body, "tools", made, "tools");
    return {};
}

MaybeError openai_body_of_generate(Json& body, Json& made, OllamaAsk& ask) {
    if (auto error = take_common(body, made)) return error;
    if (auto error = refuse_images("images", body)) return error;
    // What would change the answer and is not there is refused.
    for (const char* name : {"suffix", "template", "context"}) {
        const Json* value = member(body, name);
        if (value != nullptr && !value->empty() && !is_empty_text(*value)) {
            return wrong_field(name, "is not supported");
        }
    }
    std::string prompt;
    std::string system;
    bool raw = false;
    if (auto error = take_text("", body, "prompt", false, prompt)) return error;
    if (auto error = take_text("", body, "system", false, system)) return error;
    FieldReader fields(body);
    fields.boolean(field::kRaw, raw);
    if (fields.failed()) return fields.error();
    if (prompt.empty()) {
        ask = OllamaAsk::nothing;
    } else if (raw) {
        ask = OllamaAsk::plain;
        made["prompt"] = std::move(prompt);
    } else {
        ask = OllamaAsk::chat;
        Json messages = Json::array();
        if (!system.empty()) messages.push_back(chat_message("system", std::move(system)));
        messages.push_back(chat_message("user", std::move(prompt)));
        made["messages"] = std::move(messages);
    }
    return {};
}

ApiError in_ollama_words(ApiError error) {
    return renamed(renamed(std::move(error), kOllamaOptions), kOllamaFields);
}

}  // namespace helix::api
