#include "core/coordinator/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace helix::core {

Beams::Beams(const BeamSearch& rules, BeamLimits limits)
    : rules_(rules), limits_(std::move(limits)) {
    CHECK(rules_.width >= 1);
    CHECK(limits_.prompt_tokens >= 1);
}

double Beams::score(double sum, std::int32_t output_tokens) const {
    return sum / std::pow(limits_.prompt_tokens + output_tokens, rules_.length_penalty);
}

std::vector<Token> Beams::tokens(std::size_t beam) const {
    std::vector<Token> tokens(static_cast<std::size_t>(length_));
    std::int32_t node = running_[beam].node;
    for (auto it = tokens.rbegin(); it != tokens.rend(); ++it) {
        *it = nodes_[static_cast<std::size_t>(node)].step.token;
        node = nodes_[static_cast<std::size_t>(node)].parent;
    }
    return tokens;
}

std::vector<Beams::Candidate> Beams::candidates(
    std::span<const std::vector<spec::TokenLogprob>> likely) const {
    std::vector<Candidate> all;
    const auto& stops = limits_.stop_tokens;
    for (std::size_t parent = 0; parent < running_.size(); ++parent) {
        for (const spec::TokenLogprob& next : likely[parent]) {
            if (!std::isfinite(next.logprob)) continue;  // it can never be drawn
            const bool stops_here =
                length_ + 1 > limits_.min_output &&
                std::find(stops.begin(), stops.end(), next.token) != stops.end();
            all.push_back({parent, next.token, next.logprob,
                           running_[parent].logprob + static_cast<double>(next.logprob),
                           stops_here});
        }
    }
    std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
        if (a.sum != b.sum) return a.sum > b.sum;
        return std::pair(a.parent, a.token) < std::pair(b.parent, b.token);
    });
    all.resize(std::min(all.size(), 2 * static_cast<std::size_t>(rules_.width)));
    return all;
}

std::int32_t Beams::add_node(const Candidate& candidate,
                             const std::vector<spec::TokenLogprob>& top) {
    Node node;
    node.parent = running_[candidate.parent].node;
    node.step = {candidate.token, candidate.logprob, {}};
    if (limits_.n_top > 0) {
        const auto kept = std::min(top.size(), static_cast<std::size_t>(limits_.n_top));
        node.step.top.assign(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    nodes_.push_back(std::move(node));
    return static_cast<std::int32_t>(nodes_.size()) - 1;
}

void Beams::keep_finished(std::vector<Ended> ended) {
    finished_.insert(finished_.end(), ended.begin(), ended.end());
    std::stable_sort(finished_.begin(), finished_.end(),
                     [](const Ended& a, const Ended& b) { return a.score > b.score; });
    const auto width = static_cast<std::size_t>(rules_.width);
    if (finished_.size() > width) finished_.resize(width);
}

bool Beams::enough(double best_running_sum) const {
    if (static_cast<std::int32_t>(finished_.size()) < rules_.width) return false;
    if (rules_.early_stopping == EarlyStopping::yes) return true;
    // A longer beam can only be the better one where the penalty is above 0.
    const bool grows = rules_.early_stopping == EarlyStopping::never && rules_.length_penalty > 0;
    const double attainable = score(best_running_sum, grows ? limits_.max_output : length_);
    return finished_.back().score >= attainable;
}

std::vector<std::size_t> Beams::advance(std::span<const std::vector<spec::TokenLogprob>> likely) {
    CHECK(!over());
    CHECK(likely.size() == running_.size());
    const std::vector<Candidate> all = candidates(likely);
    const bool last = length_ + 1 >= limits_.max_output;
    std::vector<Ended> ended;
    std::vector<Beam> running;
    std::vector<std::size_t> parents;
    for (const Candidate& candidate : all) {
        const bool ends = candidate.stops || last;
        if (!ends && static_cast<std::int32_t>(running.size()) == rules_.width) continue;
        const std::int32_t node = add_node(candidate, likely[candidate.parent]);
        if (ends) {
            ended.push_back({node, score(candidate.sum, candidate.stops ? length_ : length_ + 1),
                             candidate.stops ? FinishReason::stop : FinishReason::length});
        } else {
            running.push_back({node, candidate.sum});
            parents.push_back(candidate.parent);
        }
    }
    keep_finished(std::move(ended));
    running_ = std::move(running);
    ++length_;
    if (!running_.empty() && enough(running_.front().logprob)) {
        running_.clear();
        parents.clear();
    }
    return parents;
}

std::vector<Beams::Finished> Beams::best(std::size_t n) const {
    std::vector<Finished> found;
    for (std::size_t i = 0; i < std::min(n, finished_.size()); ++i) {
        Finished& one = found.emplace_back();
        one.score = finished_[i].score;
        one.reason = finished_[i].reason;
        for (std::int32_t node = finished_[i].node; node >= 0;
             node = nodes_[static_cast<std::size_t>(node)].parent) {
            one.steps.push_back(nodes_[static_cast<std::size_t>(node)].step);
        }
        std::reverse(one.steps.begin(), one.steps.end());
    }
    return found;
}

}  // namespace helix::core
