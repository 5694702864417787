#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace helix::text {

// Those of the first list, then those of the second.
std::vector<std::string_view> joined_markers(std::vector<std::string_view> first,
                                             const std::vector<std::string_view>& second);

// Finds markers in text that comes byte by byte, and holds back only what may become one. No marker
// may hold another one but at its end; of two that end together the longer one is found.
class MarkerSearch {
  public:
    // The markers' text must outlive it.
    explicit MarkerSearch(std::vector<std::string_view> markers) : markers_(std::move(markers)) {}

    // Takes the next byte and appends to text what is part of no marker. The marker that is
    // complete with this byte, by its place in the list.
    std::optional<std::size_t> push(char byte, std::string& text);
    // What was held back; the search starts afresh.
    std::string take() { return std::exchange(held_, {}); }
    std::string_view marker(std::size_t place) const { return markers_[place]; }

  private:
    bool may_become_one() const;

    std::vector<std::string_view> markers_;
    std::string held_;
};

}  // namespace helix::text
