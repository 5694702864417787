#include "lab/experiments/live_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace helix::lab {
namespace {

constexpr double kLongShare = 0.95;
constexpr double kBlockTokens = 16;  // tokens

double blocks_of(double tokens) {
    return std::ceil(tokens / kBlockTokens);
}

}  // namespace

LiveWatch::LiveWatch(const LiveCase& wanted, double start_s, double blocks)
    : wanted_(wanted),
      start_{base::from_seconds(start_s).ns},
      window_begin_(start_ + base::from_seconds(wanted.warmup_s)),
      window_end_(window_begin_ + base::from_seconds(wanted.duration_s)),
      blocks_(blocks),
      pages_(wanted.cluster->cluster.nodes.size(), 0),
      rented_(wanted.cluster->cluster.nodes.size(), 0),
      next_sample_(start_) {
    std::vector<std::int32_t> prompts;
    for (const sim::Arrival& arrival : wanted.arrivals) {
        prompts.push_back(arrival.length.prompt_tokens);
    }
    if (prompts.empty()) return;
    std::sort(prompts.begin(), prompts.end());
    long_prompt_ =
        prompts[static_cast<std::size_t>(kLongShare * static_cast<double>(prompts.size() - 1))];
}

bool LiveWatch::is_long(std::uint64_t request) const {
    return wanted_.arrivals[request].length.prompt_tokens >= long_prompt_;
}

template <typename Add>
void LiveWatch::add(std::uint64_t request, const Add& add_to) {
    const bool high = wanted_.arrivals[request].priority > 0;
    add_to(seen_.all);
    add_to(seen_.by_priority[high ? 1 : 0]);
    if (is_long(request)) add_to(seen_.longest);
}

bool LiveWatch::request_created(std::uint64_t request, base::TimePoint at, std::int32_t,
                                std::int32_t) {
    sample(at);
    requests_.resize(std::max<std::size_t>(requests_.size(), request + 1));
    Request& state = requests_[request];
    state.created = state.last_token = at;
    state.counts = window_begin_ <= at && at < window_end_;
    if (state.counts) ++seen_.requests;
    waiting_.insert(request);
    return false;
}

void LiveWatch::request_admitted(std::uint64_t request, base::TimePoint at,
                                 std::span<const sim::PipelineStage>) {
    sample(at);
    waiting_.erase(request);
}

void LiveWatch::request_preempted(std::uint64_t request, base::TimePoint) {
    Request& state = requests_[request];
    if (!state.counts) return;
    ++seen_.preempted;
    seen_.lost_tokens += wanted_.arrivals[request].length.prompt_tokens + state.tokens;
    state.preempted = true;
}

void LiveWatch::token(std::uint64_t request, base::TimePoint at) {
    Request& state = requests_[request];
    const double gap_s = (at - state.last_token).seconds();
    const bool first = state.tokens++ == 0;
    if (state.counts) {
        if (std::exchange(state.preempted, false)) seen_.lost_s += gap_s;
        add(request, [&](LiveLatencies& l) { (first ? l.ttft : l.tpot).add(gap_s); });
    }
    if (!first) state.longest_gap_s = std::max(state.longest_gap_s, gap_s);
    state.last_token = at;
}

void LiveWatch::request_finished(std::uint64_t request, base::TimePoint at) {
    sample(at);
    const Request& state = requests_[request];
    if (!state.counts) return;
    ++seen_.unfinished;  // counted back in finish()
    add(request, [&](LiveLatencies& l) {
        l.stall.add(state.longest_gap_s);
        l.total.add((at - state.created).seconds());
    });
}

void LiveWatch::request_rejected(std::uint64_t request, base::TimePoint) {
    waiting_.erase(request);
}

void LiveWatch::kv_used(std::int32_t node, base::TimePoint at, double used) {
    sample(at);
    pages_[static_cast<std::size_t>(node)] = used;
}

void LiveWatch::node_rented(std::int32_t node, base::TimePoint at, bool rented) {
    sample(at);
    rented_[static_cast<std::size_t>(node)] = rented ? 1 : 0;
    if (!rented) pages_[static_cast<std::size_t>(node)] = 0;
}

// What was true until then.
void LiveWatch::sample(base::TimePoint until) {
    while (next_sample_ <= until && next_sample_ < window_end_) {
        LiveSample sample;
        sample.at_s = (next_sample_ - start_).seconds();
        const double layers = wanted_.cluster->model.n_layers;
        double free = 0;
        double total = 0;
        for (std::size_t n = 0; n < pages_.size(); ++n) {
            if (rented_[n] == 0) continue;
            const double here = std::max(0.0, blocks_ - pages_[n] / layers) * kBlockTokens;
            free += here;
            total += blocks_ * kBlockTokens;
            sample.freest = std::max(sample.freest, here);
            ++sample.rented;
        }
        sample.free = total > 0 ? free / total : 0;
        sample.waiting = static_cast<std::int32_t>(waiting_.size());
        if (!waiting_.empty()) {
            const sim::Arrival& head = wanted_.arrivals[*waiting_.begin()];
            sample.head = blocks_of(head.length.prompt_tokens) * kBlockTokens;
        }
        seen_.samples.push_back(sample);
        next_sample_ = next_sample_ + base::from_seconds(1);
    }
}

void LiveWatch::finish(LiveResult& result) {
    sample(window_end_);
    seen_.unfinished = seen_.requests - seen_.unfinished;
    result = std::move(seen_);
}

}  // namespace helix::lab
