#include "text/output/text_output.h"

#include <utility>

namespace helix::text {

std::vector<OutputPart> TextOutput::parts_of(std::string text) {
    std::vector<OutputPart> parts;
    if (parser_ != nullptr) {
        parser_->push(text, parts);
    } else if (!text.empty()) {
        parts.emplace_back(ContentText{std::move(text)});
    }
    return parts;
}

std::vector<OutputPart> TextOutput::push(Token token, bool may_stop) {
    const std::string text = detokenizer_->push(token);
    // Before stop strings count, the matcher holds nothing back.
    auto parts = parts_of(may_stop ? matcher_.feed(text) : matcher_.flush() + text);
    if (stopped() && parser_ != nullptr && !std::exchange(ended_, true)) {
        parser_->finish(false, parts);
    }
    return parts;
}

std::vector<OutputPart> TextOutput::finish(bool cut) {
    std::string text = matcher_.feed(detokenizer_->flush());
    text += matcher_.flush();
    auto parts = parts_of(std::move(text));
    if (parser_ != nullptr) parser_->finish(cut, parts);
    return parts;
}

}  // namespace helix::text
