#include "text/output/output_part.h"

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

}  // namespace helix::text
