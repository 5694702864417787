#include "text/output/text_output.h"

#include <utility>

namespace helix::text {
namespace {

std::vector<OutputPart> content(std::string text) {
    std::vector<OutputPart> parts;
    if (!text.empty()) parts.emplace_back(ContentText{std::move(text)});
    return parts;
}

}  // namespace

std::vector<OutputPart> TextOutput::push(Token token, bool may_stop) {
    const std::string text = detokenizer_->push(token);
    // Before stop strings count, the matcher holds nothing back.
    return content(may_stop ? matcher_.feed(text) : matcher_.flush() + text);
}

std::vector<OutputPart> TextOutput::finish() {
    std::string text = matcher_.feed(detokenizer_->flush());
    text += matcher_.flush();
    return content(std::move(text));
}

}  // namespace helix::text
