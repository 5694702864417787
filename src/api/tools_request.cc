#include "api/tools_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownToolBytes = 100;  // of a value, in a message

std::string tool_name(const Json& tool) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || function == tool.end() || !function->is_object()) return {};
    const auto name = function->find("name");
    return name != function->end() && name->is_string() ? name->get<std::string>() : "";
}

bool check_tools(FieldReader& fields, const RequestLimits& limits, const Json& tools) {
    if (!tools.is_array()) {
        fields.fail(field::kTools, "expected an array, got " + kind_of(tools));
        return false;
    }
    if (tools.size() > limits.max_tools || tools.dump().size() > limits.max_tools_bytes) {
        fields.fail(field::kTools, fmt::format("at most {} (max_tools), of {} bytes in all "
                                               "(max_tools_bytes)",
                                               limits.max_tools, limits.max_tools_bytes));
        return false;
    }
    for (std::size_t i = 0; i < tools.size(); ++i) {
        const std::string name = tool_name(tools[i]);
        const std::string where = fmt::format("tools[{}].function.name", i);
        if (name.empty()) {
            fields.fail(where, "expected a string that is not empty");
            return false;
        }
        if (name.size() > limits.max_name_bytes) {
            fields.fail(where, limits.name_too_long());
            return false;
        }
    }
    return true;
}

// Leaves of the request's tools those that the choice names.
void keep_named(FieldReader& fields, const Json& named, CompletionRequest& request) {
    Json kept = Json::array();
    for (const Json& one : named) {
        const std::string name = tool_name(one);
        const auto known = std::ranges::find_if(
            request.tools, [&](const Json& tool) { return tool_name(tool) == name; });
        if (name.empty() || known == request.tools.end()) {
            return fields.fail(field::kToolChoice, "names no tool of the request: " +
                                                       one.dump().substr(0, kShownToolBytes));
        }
        kept.push_back(*known);
    }
    request.tools = std::move(kept);
}

// allowed_tools: {"mode": "auto" | "required", "tools": [...]}.
void take_allowed_tools(FieldReader& fields, const Json& choice, CompletionRequest& request) {
    const auto allowed = choice.find("allowed_tools");
    const auto member = [&](const char* name) -> const Json* {
        if (allowed == choice.end() || !allowed->is_object()) return nullptr;
        const auto at = allowed->find(name);
        return at == allowed->end() ? nullptr : &*at;
    };
    const Json* mode = member("mode");
    const Json* tools = member("tools");
    const bool good = mode != nullptr && (*mode == "auto" || *mode == "required") &&
                      tools != nullptr && tools->is_array() && !tools->empty();
    if (!good) {
        return fields.fail("tool_choice.allowed_tools",
                           "expected mode \"auto\" or \"required\", and tools");
    }
    request.tool_choice.demanded = *mode == "required";
    keep_named(fields, *tools, request);
}

void read_tool_choice(FieldReader& fields, const Json& choice, CompletionRequest& request) {
    if (choice == "auto") return;
    if (choice == "none") {
        request.tools = nullptr;
    } else if (choice == "required") {
        request.tool_choice.demanded = true;
    } else if (choice.is_object() && choice.value("type", Json()) == "allowed_tools") {
        take_allowed_tools(fields, choice, request);
    } else if (choice.is_object() && choice.value("type", Json()) == "function") {
        request.tool_choice = {.demanded = true, .several = false};
        keep_named(fields, Json::array({choice}), request);
    } else {
        fields.fail(field::kToolChoice,
                    "expected \"none\", \"auto\", \"required\", or an object of type function or "
                    "allowed_tools, got " +
                        choice.dump().substr(0, kShownToolBytes));
    }
}

}  // namespace

Json read_tool_list(FieldReader& fields, const RequestLimits& limits) {
    const Json* tools = fields.find(field::kTools);
    if (tools == nullptr || !check_tools(fields, limits, *tools) || tools->empty()) return nullptr;
    return *tools;
}

void read_tools(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    for (const char* old : {"functions", "function_call"}) {
        if (fields.find(old) != nullptr) fields.fail(old, "is not supported; use tools");
    }
    fields.boolean(field::kParallelToolCalls, request.tool_choice.several);
    request.tools = read_tool_list(fields, limits);
    if (fields.failed()) return;
    const Json* choice = fields.find(field::kToolChoice);
    if (choice == nullptr) return;
    if (request.tools.is_null() && *choice != "none" && *choice != "auto") {
        return fields.fail(field::kToolChoice, "there are no tools to call");
    }
    read_tool_choice(fields, *choice, request);
    if (!request.tool_choice.demanded) return;
    if (request.ignore_eos)
        fields.fail(field::kIgnoreEos, "demanded calls say where the answer ends");
    if (request.sampling.grammar.present()) {
        fields.fail(field::kToolChoice, "demanded calls leave no room for another output format");
    }
}

}  // namespace helix::api
