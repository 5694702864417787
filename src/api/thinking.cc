#include "api/thinking.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};

void set_unless_given(Json& kwargs, const char* name, Json value) {
    if (kwargs.is_null()) kwargs = Json::object();
    if (!kwargs.contains(name)) kwargs[name] = std::move(value);
}

void check_kwargs(FieldReader& fields, const Json& kwargs) {
    if (!kwargs.is_object()) return;
    for (const char* name : {"enable_thinking", "thinking"}) {
        const auto found = kwargs.find(name);
        if (found == kwargs.end() || found->is_boolean() || found->is_null()) continue;
        return fields.fail(std::string("chat_template_kwargs.") + name,
                           "expected true or false, got " + kind_of(*found));
    }
}

}  // namespace

void read_thinking(FieldReader& fields, CompletionRequest& request) {
    check_kwargs(fields, request.kwargs);
    if (fields.find(field::kEnableThinking) != nullptr) {
        bool enabled = true;
        fields.boolean(field::kEnableThinking, enabled);
        set_unless_given(request.kwargs, "enable_thinking", enabled);
    }
    for (const BodyField* budget : {&field::kThoughtBudget, &field::kThoughtBudgetTokens}) {
        fields.integer(*budget, request.max_thought_tokens);
    }
    std::string effort;
    fields.text(field::kReasoningEffort, effort);
    if (effort.empty()) return;
    if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) {
        return fields.fail(field::kReasoningEffort,
                           "expected none, minimal, low, medium, high, xhigh or max, got '" +
                               effort.substr(0, 40) + "'");
    }
    if (effort != "none") return set_unless_given(request.kwargs, "reasoning_effort", effort);
    // Templates know it by either name.
    set_unless_given(request.kwargs, "enable_thinking", false);
    set_unless_given(request.kwargs, "thinking", false);
}

}  // namespace helix::api
