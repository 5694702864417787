#include "text/tool_calls/marker_search.h"

namespace helix::text {

std::vector<std::string_view> joined_markers(std::vector<std::string_view> first,
                                             const std::vector<std::string_view>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

bool MarkerSearch::may_become_one() const {
    for (const std::string_view marker : markers_) {
        if (marker.starts_with(held_)) return true;
    }
    return false;
}

std::optional<std::size_t> MarkerSearch::push(char byte, std::string& text) {
    held_ += byte;
    while (!held_.empty() && !may_become_one()) {
        text += held_.front();
        held_.erase(0, 1);
    }
    for (std::size_t i = 0; i < markers_.size(); ++i) {
        if (held_ != markers_[i]) continue;
        held_.clear();
        return i;
    }
    return {};
}

}  // namespace helix::text
