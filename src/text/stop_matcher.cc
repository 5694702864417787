#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace helix::text {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::feed(std::string_view text) {
    if (matched_) return {};
    pending_ += text;
    std::size_t begin = 0;
    std::size_t end = std::string::npos;
    for (const std::string& stop : stops_) {
        const std::size_t at = pending_.find(stop);
        if (at == std::string::npos) continue;
        if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
            begin = at;
            end = at + stop.size();
            matched_ = stop;
        }
    }
    const std::size_t shown = matched_ ? begin : pending_.size() - held_back();
    std::string out = pending_.substr(0, shown);
    pending_.erase(0, shown);
    return out;
}

std::size_t StopMatcher::held_back() const {
    std::size_t longest = 0;
    const std::string_view text = pending_;
    for (const std::string& stop : stops_) {
        for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
            if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
        }
    }
    return longest;
}

std::string StopMatcher::flush() {
    return matched_ ? std::string() : std::exchange(pending_, {});
}

}  // namespace helix::text
