#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/output/part_sink.h"
#include "text/tool_calls/call_parser.h"

namespace helix::text {

// How one family of models writes calls of tools.
struct ToolFormat {
    std::string_view name{};   // as --tool-parser takes it
    std::string_view about{};  // whose it is, for people
    // Texts of the form that are control tokens in some vocabularies; the parser has to see them.
    std::vector<std::string_view> markers{};
    // Markers by which a model calls without ending its thought first.
    std::vector<std::string_view> ends_thought{};
    CallIds ids = CallIds::call;
    // The form has thoughts of its own, so it is read whether there are tools or not.
    bool always = false;
    // Such a thought, from its mark to the next message of the model's, and what begins the message
    // that answers; "" = no thoughts of its own.
    std::string_view thought_open{};
    std::string_view thought_close{};
    std::string_view answer_open{};
    std::vector<std::string_view> thought_never{};  // what ends it in another way
    std::unique_ptr<CallParser> (*make)(CallContext context) = nullptr;
};

// All of them. The first is "none", which reads nothing.
std::span<const ToolFormat> tool_formats();
// Null if none has this name.
const ToolFormat* find_tool_format(std::string_view name);

// Whether a vocabulary has a token of this text.
using HasToken = std::function<bool(std::string_view text)>;

// The form that a chat template speaks of, by what only its family writes. "generic" for a template
// that knows no tools.
const ToolFormat& detect_tool_format(std::string_view chat_template, const HasToken& has_token);

}  // namespace helix::text
