#include "text/stop_matcher.h"

#include <utility>

namespace helix::text {

// The tree with links from each beginning to the longest shorter one it ends with, as Aho and
// Corasick have it.
StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
    std::size_t bytes = 1;
    for (const std::string& stop : stops_) bytes += stop.size();
    nodes_.reserve(bytes);
    nodes_.emplace_back();
    for (std::size_t i = 0; i < stops_.size(); ++i) insert(static_cast<std::uint32_t>(i));
    link();
}

std::uint32_t StopStrings::child(std::uint32_t node, char byte) const {
    std::uint32_t at = nodes_[node].first_child;
    while (at != kNone && nodes_[at].byte != byte) at = nodes_[at].sibling;
    return at;
}

void StopStrings::insert(std::uint32_t stop) {
    std::uint32_t at = 0;
    for (const char byte : stops_[stop]) {
        std::uint32_t next = child(at, byte);
        if (next == kNone) {
            next = static_cast<std::uint32_t>(nodes_.size());
            Node& made = nodes_.emplace_back();
            made.sibling = nodes_[at].first_child;
            made.depth = nodes_[at].depth + 1;
            made.byte = byte;
            nodes_[at].first_child = next;
        }
        at = next;
    }
    nodes_[at].stop = stop;
}

// Links nodes in order of depth, so that what a link leads to is linked before.
void StopStrings::link() {
    std::vector<std::uint32_t> order{0};
    order.reserve(nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::uint32_t node = order[i];
        for (std::uint32_t at = nodes_[node].first_child; at != kNone; at = nodes_[at].sibling) {
            order.push_back(at);
            nodes_[at].shorter = node == 0 ? 0 : step(nodes_[node].shorter, nodes_[at].byte);
            if (nodes_[at].stop == kNone) nodes_[at].stop = nodes_[nodes_[at].shorter].stop;
        }
    }
}

// Each move to a shorter beginning takes back one byte that came before, so that over a whole text
// there are at most two moves a byte.
std::uint32_t StopStrings::step(std::uint32_t node, char byte) const {
    for (;;) {
        const std::uint32_t next = child(node, byte);
        if (next != kNone) return next;
        if (node == 0) return 0;
        node = nodes_[node].shorter;
    }
}

std::string StopMatcher::feed(std::string_view text) {
    if (matched_) return {};
    if (stops_->empty()) return std::string(text);
    for (std::size_t i = 0; i < text.size(); ++i) {
        at_ = stops_->step(at_, text[i]);
        const std::uint32_t stop = stops_->nodes_[at_].stop;
        if (stop == StopStrings::kNone) continue;
        matched_ = stops_->stops_[stop];
        held_ += text.substr(0, i + 1);
        std::string out = held_.substr(shown_, held_.size() - matched_->size() - shown_);
        held_.clear();
        return out;
    }
    held_ += text;
    const std::size_t shown = held_.size() - stops_->nodes_[at_].depth;
    std::string out = held_.substr(shown_, shown - shown_);
    shown_ = shown;
    if (shown_ * 2 >= held_.size()) {  // otherwise what stays would be moved again and again
        held_.erase(0, shown_);
        shown_ = 0;
    }
    return out;
}

std::string StopMatcher::flush() {
    if (matched_) return {};
    std::string out = held_.substr(shown_);
    held_.clear();
    shown_ = 0;
    at_ = 0;
    return out;
}

}  // namespace helix::text
