#include "sim/report/run_detail.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace helix::sim {

RunDetailObserver::RunDetailObserver(const spec::ClusterSpec& cluster,
                                     const spec::Placement& placement,
                                     std::vector<double> kv_capacity,
                                     const RunDetailOptions& options)
    : cluster_(cluster),
      placement_(placement),
      kv_capacity_(std::move(kv_capacity)),
      options_(options),
      n_vertices_(cluster.nodes.size() + 1),
      kv_(cluster.nodes.size()),
      link_of_pair_(n_vertices_ * n_vertices_, -1) {
    CHECK(options.window_begin < options.window_end);
    kv_capacity_.resize(cluster.nodes.size());
}

base::Duration RunDetailObserver::window_part(base::TimePoint begin, base::TimePoint end) const {
    const base::TimePoint from = std::max(begin, options_.window_begin);
    const base::TimePoint to = std::min(end, options_.window_end);
    return from < to ? to - from : base::Duration{};
}

bool RunDetailObserver::request_created(std::uint64_t request, base::TimePoint at,
                                        std::int32_t prompt_tokens, std::int32_t output_tokens) {
    if (request >= requests_.size()) requests_.resize(static_cast<std::size_t>(request) + 1);
    requests_[request].created = at;
    if (in_window(at)) {
        ++created_;
        offered_tokens_ += static_cast<double>(prompt_tokens) + output_tokens;
    }
    return false;
}

void RunDetailObserver::request_admitted(std::uint64_t request, base::TimePoint at,
                                         std::span<const PipelineStage> /*pipeline*/) {
    Request& state = requests_.at(request);
    if (state.admitted.ns >= 0) return;  // it was preempted and comes again
    state.admitted = at;
    if (in_window(at)) queueing_.add((at - state.created).seconds());
}

void RunDetailObserver::token(std::uint64_t request, base::TimePoint at) {
    Request& state = requests_[request];
    if (state.tokens++ == 0) state.first_token = at;
    state.last_token = at;
}

void RunDetailObserver::request_finished(std::uint64_t request, base::TimePoint at) {
    if (!in_window(at)) return;
    const Request& state = requests_.at(request);
    ++finished_;
    latency_.add((at - state.created).seconds());
    const base::TimePoint from = options_.from_admission ? state.admitted : state.created;
    const double ttft_s = (state.first_token - from).seconds();
    const double tpot_s =
        state.tokens < 2 ? 0
                         : (state.last_token - state.first_token).seconds() / (state.tokens - 1);
    const auto keeps = [](double seconds, double limit_s) {
        return limit_s <= 0 || seconds <= limit_s;
    };
    if (keeps(ttft_s, options_.ttft_slo_s) && keeps(tpot_s, options_.tpot_slo_s)) ++good_;
}

void RunDetailObserver::request_rejected(std::uint64_t /*request*/, base::TimePoint at) {
    if (in_window(at)) ++rejected_;
}

void RunDetailObserver::link_carried(const LinkTransfer& transfer) {
    std::int32_t& slot = link_of_pair_[link_slot(transfer.from, transfer.to)];
    if (slot < 0) {
        slot = static_cast<std::int32_t>(links_.size());
        links_.emplace_back();
        link_ends_.emplace_back(transfer.from, transfer.to);
    }
    Link& link = links_[static_cast<std::size_t>(slot)];
    link.busy.ns += window_part(transfer.begin, transfer.end).ns;
    if (!in_window(transfer.end)) return;
    link.bytes += transfer.bytes;
    link.waited.ns += transfer.waited.ns;
    ++link.transfers;
}

void RunDetailObserver::hold_kv(Kv& kv, base::TimePoint at) const {
    const base::Duration part = window_part(kv.since, at);
    if (part.ns > 0) {
        kv.integral += part.seconds() * kv.now;
        kv.peak = std::max(kv.peak, kv.now);
    }
    kv.since = at;
}

void RunDetailObserver::kv_used(std::int32_t node, base::TimePoint at, double used) {
    Kv& kv = kv_[static_cast<std::size_t>(node)];
    hold_kv(kv, at);
    kv.now = used;
}

RunDetail RunDetailObserver::detail() {
    const double window_s = (options_.window_end - options_.window_begin).seconds();
    RunDetail detail;
    detail.offered_tokens_per_s = offered_tokens_ / window_s;
    detail.requests_per_s = static_cast<double>(finished_) / window_s;
    detail.created = created_;
    detail.finished = finished_;
    detail.rejected = rejected_;
    detail.queueing = queueing_.summary();
    detail.latency = latency_.summary();
    detail.ttft_slo_s = options_.ttft_slo_s;
    detail.tpot_slo_s = options_.tpot_slo_s;
    detail.goodput_per_s = static_cast<double>(good_) / window_s;
    const std::uint64_t ended = finished_ + rejected_;
    if (ended > 0) detail.good_share = static_cast<double>(good_) / static_cast<double>(ended);
    for (std::size_t n = 0; n < placement_.layers.size(); ++n) {
        if (placement_.layers[n].empty()) continue;
        hold_kv(kv_[n], options_.window_end);
        NodeUse use;
        use.node = static_cast<std::int32_t>(n);
        use.name = cluster_.nodes[n].name;
        use.type = cluster_.nodes[n].type;
        use.layers = placement_.layers[n];
        if (kv_capacity_[n] > 0) {
            use.kv_mean = kv_[n].integral / window_s / kv_capacity_[n];
            use.kv_peak = kv_[n].peak / kv_capacity_[n];
        }
        detail.nodes.push_back(std::move(use));
    }
    for (std::size_t l = 0; l < links_.size(); ++l) {
        const Link& link = links_[l];
        if (link.transfers == 0) continue;
        detail.links.push_back({spec::end_name(cluster_, link_ends_[l].first),
                                spec::end_name(cluster_, link_ends_[l].second),
                                link.busy.seconds() / window_s, link.bytes / window_s,
                                link.waited.seconds() / static_cast<double>(link.transfers)});
    }
    std::stable_sort(detail.links.begin(), detail.links.end(),
                     [](const LinkUse& a, const LinkUse& b) { return a.busy > b.busy; });
    return detail;
}

}  // namespace helix::sim
