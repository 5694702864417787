#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace helix::text {

// Stop strings, made ready for any number of texts. Immutable, for any thread. Takes some 20 bytes
// for each byte of the strings.
class StopStrings {
  public:
    // Empty strings are ignored.
    explicit StopStrings(std::vector<std::string> stops);

    bool empty() const { return stops_.empty(); }

  private:
    friend class StopMatcher;
    static constexpr std::uint32_t kNone = 0xFFFFFFFF;

    // How far one of the strings has come: a node of the tree of all beginnings. 0 is the root.
    struct Node {
        std::uint32_t first_child = kNone;
        std::uint32_t sibling = kNone;  // by first_child of the node above
        std::uint32_t shorter = 0;      // the longest beginning that this one ends with
        std::uint32_t depth = 0;        // bytes
        std::uint32_t stop = kNone;     // the longest string that ends here
        char byte = 0;                  // the beginning's last byte
    };

    std::uint32_t child(std::uint32_t node, char byte) const;
    std::uint32_t step(std::uint32_t node, char byte) const;
    void insert(std::uint32_t stop);
    void link();

    std::vector<std::string> stops_;
    std::vector<Node> nodes_;
};

// Watches streamed text for stop strings. What it lets out never holds a part of the stop string
// that ends the text; the result does not depend on how the text is cut. The stop string that is
// complete first wins, and of those that end together the longest. Each byte is looked at once,
// however long the strings are.
class StopMatcher {
  public:
    explicit StopMatcher(std::shared_ptr<const StopStrings> stops) : stops_(std::move(stops)) {}
    explicit StopMatcher(std::vector<std::string> stops)
        : StopMatcher(std::make_shared<const StopStrings>(std::move(stops))) {}

    // The text that may be shown now; after a match nothing any more.
    std::string feed(std::string_view text);
    // What was held back, at the end of a text without a match.
    std::string flush();

    // The stop string that was found, which is not part of the text.
    const std::optional<std::string>& matched() const { return matched_; }

  private:
    std::shared_ptr<const StopStrings> stops_;
    std::uint32_t at_ = 0;   // the node of what is held back
    std::string held_;       // the end of the text, as far as a stop string may have begun in it
    std::size_t shown_ = 0;  // bytes of held_ that are shown already and not cut off yet
    std::optional<std::string> matched_;
};

}  // namespace helix::text
