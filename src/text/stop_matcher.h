#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace helix::text {

// Watches streamed text for stop strings. What it lets out never holds a part of the stop string
// that ends the text; the result does not depend on how the text is cut. The stop string that is
// complete first wins, among those that end together the longest.
class StopMatcher {
  public:
    // Empty strings are ignored.
    explicit StopMatcher(std::vector<std::string> stops);

    // The text that may be shown now. After a match: nothing, ever.
    std::string feed(std::string_view text);
    // At the end of the text without a match: what was held back.
    std::string flush();

    // The stop string that was found, which is not part of the text.
    const std::optional<std::string>& matched() const { return matched_; }

  private:
    std::size_t held_back() const;

    std::vector<std::string> stops_;
    std::string pending_;  // the end of the text, as far as a stop string may have begun in it
    std::optional<std::string> matched_;
};

}  // namespace helix::text
