#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/detokenizer.h"
#include "text/output/output_part.h"
#include "text/stop_matcher.h"

namespace helix::text {

// The text of one answer, as it grows token by token. The parts that push() and finish() return,
// joined, are whole UTF-8 characters and never hold a stop string or anything after it. All of them
// are content today.
class TextOutput {
  public:
    TextOutput(std::unique_ptr<IncrementalDetokenizer> detokenizer,
               std::shared_ptr<const StopStrings> stops)
        : detokenizer_(std::move(detokenizer)), matcher_(std::move(stops)) {}

    // What may be shown once token is known: often nothing, for half a character or perhaps the
    // beginning of a stop string. Stop strings count only with may_stop.
    std::vector<OutputPart> push(Token token, bool may_stop);
    // What was held back; the answer ends here.
    std::vector<OutputPart> finish();
    // Whether a stop string was found; push() has returned all that came before it.
    bool stopped() const { return matcher_.matched().has_value(); }
    // That stop string; "" while there is none.
    std::string stop_string() const { return matcher_.matched().value_or(std::string()); }

  private:
    std::unique_ptr<IncrementalDetokenizer> detokenizer_;
    StopMatcher matcher_;
};

}  // namespace helix::text
