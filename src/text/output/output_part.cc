#include "text/output/output_part.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/overloaded.h"

namespace helix::text {
namespace {

using base::Overloaded;

// Joins next to last, of the same kind; false if it begins something of its own.
bool join(ContentText& last, ContentText& next) {
    last.text += next.text;
    return true;
}
bool join(ReasoningText& last, ReasoningText& next) {
    last.text += next.text;
    return true;
}
bool join(ToolCallDelta& last, ToolCallDelta& next) {
    if (last.index != next.index) return false;
    last.id += next.id;
    last.name += next.name;
    last.arguments += next.arguments;
    last.complete = last.complete || next.complete;
    return true;
}

}  // namespace

std::size_t text_bytes(const OutputPart& part) {
    return std::visit(
        Overloaded{[](const ContentText& content) { return content.text.size(); },
                   [](const ReasoningText& reasoning) { return reasoning.text.size(); },
                   [](const ToolCallDelta& call) {
                       return call.id.size() + call.name.size() + call.arguments.size();
                   }},
        part);
}

void append_part(std::vector<OutputPart>& parts, OutputPart part) {
    const bool joined = !parts.empty() && std::visit(
                                              [&](auto& next) {
                                                  using Kind = std::decay_t<decltype(next)>;
                                                  auto* last = std::get_if<Kind>(&parts.back());
                                                  return last != nullptr && join(*last, next);
                                              },
                                              part);
    if (!joined) parts.push_back(std::move(part));
}

void drop_broken_calls(std::vector<OutputPart>& parts) {
    std::vector<std::int32_t> complete;
    for (const OutputPart& part : parts) {
        const auto* call = std::get_if<ToolCallDelta>(&part);
        if (call != nullptr && call->complete) complete.push_back(call->index);
    }
    const auto place_of = [&](const ToolCallDelta& call) {
        return std::find(complete.begin(), complete.end(), call.index) - complete.begin();
    };
    const auto count = static_cast<std::ptrdiff_t>(complete.size());
    std::erase_if(parts, [&](const OutputPart& part) {
        const auto* call = std::get_if<ToolCallDelta>(&part);
        return call != nullptr && place_of(*call) == count;
    });
    for (OutputPart& part : parts) {
        auto* call = std::get_if<ToolCallDelta>(&part);
        if (call != nullptr) call->index = static_cast<std::int32_t>(place_of(*call));
    }
}

}  // namespace helix::text
