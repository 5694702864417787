#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/detokenizer.h"
#include "text/output/answer_parser.h"
#include "text/output/output_part.h"
#include "text/stop_matcher.h"

namespace helix::text {

// The text of one answer, as it grows token by token. The parts that push() and finish() return,
// joined, are whole UTF-8 characters and never hold a stop string or anything after it. Without a
// parser all of them are content.
class TextOutput {
  public:
    TextOutput(std::unique_ptr<IncrementalDetokenizer> detokenizer,
               std::shared_ptr<const StopStrings> stops,
               std::unique_ptr<AnswerParser> parser = nullptr)
        : detokenizer_(std::move(detokenizer)),
          matcher_(std::move(stops)),
          parser_(std::move(parser)) {}

    // What may be shown once token is known: often nothing, for half a character or perhaps the
    // beginning of a stop string. Stop strings count only with may_stop.
    std::vector<OutputPart> push(Token token, bool may_stop);
    // What was held back; the answer ends here. cut: because of its length, so that a call which
    // has begun stays one.
    std::vector<OutputPart> finish(bool cut);
    // Whether a stop string was found; push() has returned all that came before it.
    bool stopped() const { return matcher_.matched().has_value(); }
    // Whether what comes next is part of a thought.
    bool in_thought() const { return parser_ != nullptr && parser_->in_thought(); }
    // That stop string; "" while there is none.
    std::string stop_string() const { return matcher_.matched().value_or(std::string()); }

  private:
    std::vector<OutputPart> parts_of(std::string text);

    std::unique_ptr<IncrementalDetokenizer> detokenizer_;
    StopMatcher matcher_;
    std::unique_ptr<AnswerParser> parser_;  // null = all is content
    bool ended_ = false;                    // the parser knows that a stop string was found
};

}  // namespace helix::text
