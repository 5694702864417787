#include "text/template/call_history.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/random.h"

namespace helix::text {
namespace {

using nlohmann::ordered_json;

constexpr const char* kProbeMessages = R"([
    {"role": "user", "content": "question"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "abcdefghi", "type": "function",
        "function": {"name": "probe_call", "arguments": {"probe_key": "probe_value"}}}]},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "answer"}])";
constexpr const char* kProbeTools = R"([{"type": "function", "function": {
    "name": "probe_tool", "description": "a tool", "parameters": {"type": "object",
    "properties": {"probe_key": {"type": "string", "description": "a key"}},
    "required": ["probe_key"]}}}])";

enum class Probe { fails, says_nothing, shows_the_call };

Probe try_style(const ChatTemplate& chat_template, const CallStyle& style) {
    ChatRequest request;
    request.messages = ordered_json::parse(kProbeMessages);
    request.tools = tools_in_style(style, ordered_json::parse(kProbeTools));
    bring_history_into_style(style, request.messages);
    const auto rendered = chat_template.render_chat(request);
    if (!rendered.ok()) return Probe::fails;
    // An object that is printed as Python has it is no JSON.
    if (rendered->find("'probe_key'") != std::string::npos) return Probe::fails;
    const bool shown = rendered->find("probe_call") != std::string::npos;
    return shown ? Probe::shows_the_call : Probe::says_nothing;
}

std::string nine_char_id(const std::string& id) {
    const auto alphanum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (id.size() == 9 && std::all_of(id.begin(), id.end(), alphanum)) return id;
    constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
    base::Random random(base::hash128(std::as_bytes(std::span(id))).low);
    std::string out;
    for (int i = 0; i < 9; ++i) out += kLetters[random.below(kLetters.size())];
    return out;
}

void shorten_id(ordered_json& object, const char* field) {
    const auto id = object.find(field);
    if (id != object.end() && id->is_string()) *id = nine_char_id(id->get<std::string>());
}

bool has_calls(const ordered_json& message) {
    const auto calls = message.find("tool_calls");
    return calls != message.end() && calls->is_array() && !calls->empty();
}

bool lacks_content(const ordered_json& message) {
    const auto content = message.find("content");
    if (content == message.end() || content->is_null()) return true;
    return content->is_string() && content->get_ref<const std::string&>().empty();
}

void write_calls_as_text(ordered_json& message) {
    std::string text;
    if (!lacks_content(message)) text = message["content"].get<std::string>() + "\n";
    for (const ordered_json& call : message["tool_calls"]) {
        ordered_json said;
        said["name"] = call["function"]["name"];
        said["arguments"] = call["function"].value("arguments", ordered_json::object());
        text += "<tool_call>\n" + said.dump() + "\n</tool_call>\n";
    }
    text.pop_back();
    message["content"] = text;
    message.erase("tool_calls");
}

void write_result_as_text(ordered_json& message) {
    message["role"] = "user";
    message["content"] =
        "<tool_response>\n" + message["content"].get<std::string>() + "\n</tool_response>";
    message.erase("tool_call_id");
}

void bring_calls_into_style(const CallStyle& style, ordered_json& message) {
    if (style.generic) return write_calls_as_text(message);
    for (ordered_json& call : message["tool_calls"]) {
        if (style.nine_char_ids) shorten_id(call, "id");
        ordered_json& function = call["function"];
        const auto arguments = function.find("arguments");
        if (!style.text_arguments || arguments == function.end()) continue;
        if (!arguments->is_string()) *arguments = arguments->dump();
    }
    if (lacks_content(message)) message["content"] = style.empty_content ? "" : ordered_json();
}

}  // namespace

CallStyle probe_call_style(const ChatTemplate& chat_template, const ToolFormat& format) {
    CallStyle base;
    base.nine_char_ids = format.ids == CallIds::nine_alphanum;
    base.thinking = format.name == "harmony";
    CallStyle best = base;
    best.empty_content = true;
    bool any = false;
    for (unsigned bits = 0; bits < 8; ++bits) {
        CallStyle style = base;
        style.empty_content = (bits & 1U) != 0;
        style.text_arguments = (bits & 2U) != 0;
        style.bare_tools = (bits & 4U) != 0;
        const Probe probe = try_style(chat_template, style);
        if (probe == Probe::shows_the_call) return style;
        if (probe == Probe::says_nothing && !any) best = style;
        any = any || probe == Probe::says_nothing;
    }
    best.generic = format.name == "generic";
    return best;
}

void bring_history_into_style(const CallStyle& style, ordered_json& messages) {
    for (ordered_json& message : messages) {
        const auto role = message.find("role");
        if (role == message.end()) continue;
        const auto thought = message.find("reasoning_content");
        if (style.thinking && thought != message.end() && thought->is_string()) {
            // The template takes no text beside a thought and a call.
            const bool both = has_calls(message) && !lacks_content(message);
            if (!both) message["thinking"] = *thought;
            message.erase("reasoning_content");
        }
        if (*role == "tool" && style.generic && message["content"].is_string()) {
            write_result_as_text(message);
        } else if (*role == "tool" && style.nine_char_ids) {
            shorten_id(message, "tool_call_id");
        }
        if (has_calls(message)) bring_calls_into_style(style, message);
    }
}

ordered_json tools_in_style(const CallStyle& style, const ordered_json& tools) {
    if (!style.bare_tools) return tools;
    ordered_json bare = ordered_json::array();
    for (const ordered_json& tool : tools) {
        bare.push_back(tool.contains("function") ? tool["function"] : tool);
    }
    return bare;
}

void tell_of_tools(const ordered_json& tools, ordered_json& messages) {
    std::string text =
        "You may call functions to help with the request. These are there, as JSON:\n<tools>\n";
    for (const ordered_json& tool : tools) text += tool.dump() + "\n";
    text +=
        "</tools>\nTo call one, answer with nothing but a JSON object with its name and arguments "
        "between tags, one for each call:\n<tool_call>\n{\"name\": \"...\", \"arguments\": "
        "{...}}\n</tool_call>\nThe results come between <tool_response> tags. If no function is "
        "needed, answer in words.";
    if (messages.empty()) return;
    ordered_json& first = messages.front();
    if (!lacks_content(first) && first["content"].is_string()) {
        text += "\n\n" + first["content"].get<std::string>();
    }
    first["content"] = text;
}

}  // namespace helix::text
