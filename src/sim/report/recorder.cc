#include "sim/report/recorder.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace helix::sim {
namespace {

constexpr std::size_t kMostMarks = 200;
constexpr std::size_t kTimelineTokens = 64;

enum Row : std::size_t { kDecode, kPrompt, kRunning, kWaiting, kRows };

double seconds(base::TimePoint at) {
    return base::Duration{at.ns}.seconds();
}

}  // namespace

Recorder::Recorder(const spec::ClusterSpec& cluster, const spec::Placement& placement,
                   std::int32_t n_layers, const std::vector<double>& kv_capacity,
                   const RecorderOptions& options)
    : options_(options),
      node_busy_(TimeGrid::Fold::sum, options.buckets, options.begin),
      node_kv_(TimeGrid::Fold::highest, options.buckets, options.begin),
      load_(TimeGrid::Fold::sum, options.buckets, options.begin),
      link_busy_(TimeGrid::Fold::sum, options.link_buckets, options.begin) {
    CHECK(placement.layers.size() == cluster.nodes.size());
    CHECK(options.window_begin < options.window_end);
    seen_.n_layers = n_layers;
    seen_.begin_s = seconds(options.begin);
    seen_.window_begin_s = seconds(options.window_begin);
    seen_.window_end_s = seconds(options.window_end);
    seen_.from_admission = options.from_admission;
    seen_.ttft_limit_s = options.ttft_limit_s;
    seen_.tpot_limit_s = options.tpot_limit_s;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        NodeRecord record;
        record.name = cluster.nodes[i].name;
        record.type = cluster.nodes[i].type;
        record.region = cluster.nodes[i].region;
        record.layers = placement.layers[i];
        record.kv_capacity = i < kv_capacity.size() ? kv_capacity[i] : 0;
        seen_.nodes.push_back(std::move(record));
        node_busy_.add_row();
        node_kv_.add_row();
    }
    nodes_.resize(cluster.nodes.size());
    for (Node& node : nodes_) node.layer_steps.resize(static_cast<std::size_t>(n_layers) + 1, 0.0);
    for (const spec::LinkSpec& link : cluster.links) {
        link_capacity_[{link.from, link.to}] = link.bandwidth_bytes_per_s;
    }
    for (std::size_t row = 0; row < kRows; ++row) load_.add_row();
}

bool Recorder::in_window(base::TimePoint at) const {
    return options_.window_begin <= at && at < options_.window_end;
}

double Recorder::window_part(base::TimePoint begin, base::TimePoint end) const {
    const base::TimePoint from = std::max(begin, options_.window_begin);
    const base::TimePoint to = std::min(end, options_.window_end);
    return from < to ? (to - from).seconds() : 0;
}

void Recorder::count_requests(base::TimePoint at) {
    const double part = window_part(counted_at_, at);
    running_integral_ += part * running_steps_.value();
    waiting_integral_ += part * waiting_steps_.value();
    counted_at_ = at;
    running_steps_.set(at, static_cast<double>(n_running_), load_, kRunning);
    waiting_steps_.set(at, static_cast<double>(n_waiting_), load_, kWaiting);
}

// A reservoir: every request of the window is among the followed ones with equal chance.
bool Recorder::follow(std::uint64_t request, base::TimePoint at, std::int32_t prompt_tokens) {
    if (options_.timelines == 0 || !in_window(at)) return false;
    std::size_t place = seen_.timelines.size();
    const std::uint64_t draw = base::hash_pair(options_.seed, n_candidates_++);
    if (place < options_.timelines) {
        seen_.timelines.emplace_back();
    } else {
        const auto index =
            static_cast<std::size_t>(base::unit_double(draw) * static_cast<double>(n_candidates_));
        if (index >= options_.timelines) return false;
        place = index;
        followed_.erase(seen_.timelines[place].request);
    }
    Timeline& timeline = seen_.timelines[place];
    timeline = {};
    timeline.request = request;
    timeline.prompt_tokens = prompt_tokens;
    timeline.created_s = seconds(at);
    followed_[request] = place;
    return true;
}

Timeline* Recorder::timeline_of(std::uint64_t request) {
    const auto found = followed_.find(request);
    return found == followed_.end() ? nullptr : &seen_.timelines[found->second];
}

bool Recorder::request_created(std::uint64_t request, base::TimePoint at,
                               std::int32_t prompt_tokens, std::int32_t /*output_tokens*/) {
    Open state;
    state.created = at;
    state.counted_from = at;
    state.prompt_tokens = prompt_tokens;
    CHECK(open_.emplace(request, state).second);
    if (in_window(at)) ++seen_.created;
    ++n_waiting_;
    count_requests(at);
    return follow(request, at, prompt_tokens);
}

void Recorder::request_admitted(std::uint64_t request, base::TimePoint at,
                                std::span<const PipelineStage> /*pipeline*/) {
    Open& state = open_.at(request);
    CHECK(!state.running);
    state.running = true;
    --n_waiting_;
    ++n_running_;
    count_requests(at);
    if (state.admitted) return;
    state.admitted = true;
    if (options_.from_admission) state.counted_from = at;
    if (in_window(at)) seen_.queueing.add((at - state.created).seconds());
    if (Timeline* timeline = timeline_of(request)) timeline->admitted_s = seconds(at);
}

void Recorder::token(std::uint64_t request, base::TimePoint at) {
    Open& state = open_.at(request);
    if (state.tokens == 0) {
        state.first_token = at;
        load_.add(kPrompt, at, at, state.prompt_tokens);
        if (in_window(at)) {
            seen_.ttft.add((at - state.counted_from).seconds());
            prompt_tokens_ += state.prompt_tokens;
        }
    } else {
        load_.add(kDecode, at, at, 1);
        if (in_window(at)) {
            seen_.tpot.add((at - state.last_token).seconds());
            ++decode_tokens_;
        }
    }
    state.last_token = at;
    ++state.tokens;
    if (followed_.empty()) return;
    if (Timeline* timeline = timeline_of(request)) {
        if (timeline->first_token_s < 0) timeline->first_token_s = seconds(at);
        ++timeline->output_tokens;
        if (timeline->token_s.size() < kTimelineTokens) timeline->token_s.push_back(seconds(at));
    }
}

void Recorder::request_preempted(std::uint64_t request, base::TimePoint at) {
    Open& state = open_.at(request);
    CHECK(state.running);
    state.running = false;
    --n_running_;
    ++n_waiting_;
    count_requests(at);
    if (in_window(at)) ++seen_.preempted;
    if (Timeline* timeline = timeline_of(request)) ++timeline->preemptions;
}

void Recorder::request_finished(std::uint64_t request, base::TimePoint at) {
    const Open state = open_.at(request);
    if (in_window(at)) {
        ++seen_.finished;
        seen_.latency.add((at - state.counted_from).seconds());
        const double ttft_s = (state.first_token - state.counted_from).seconds();
        const double tpot_s = state.tokens < 2 ? 0
                                               : (state.last_token - state.first_token).seconds() /
                                                     (state.tokens - 1);
        const bool good = state.tokens > 0 &&
                          (options_.ttft_limit_s <= 0 || ttft_s <= options_.ttft_limit_s) &&
                          (options_.tpot_limit_s <= 0 || tpot_s <= options_.tpot_limit_s);
        if (good) ++seen_.good;
    }
    end(request, at, false);
}

void Recorder::request_rejected(std::uint64_t request, base::TimePoint at) {
    if (in_window(at)) ++seen_.rejected;
    end(request, at, true);
}

void Recorder::end(std::uint64_t request, base::TimePoint at, bool rejected) {
    const auto found = open_.find(request);
    CHECK(found != open_.end());
    --(found->second.running ? n_running_ : n_waiting_);
    count_requests(at);
    open_.erase(found);
    Timeline* timeline = timeline_of(request);
    if (timeline == nullptr) return;
    timeline->ended_s = seconds(at);
    timeline->rejected = rejected;
}

void Recorder::node_computed(const NodeBatch& batch) {
    const auto n = static_cast<std::size_t>(batch.node);
    CHECK(n < nodes_.size());
    node_busy_.add(n, batch.begin, batch.end, (batch.end - batch.begin).seconds());
    Node& node = nodes_[n];
    node.busy_s += window_part(batch.begin, batch.end);
    if (!in_window(batch.end)) return;
    // A pass over some of the node's layers is that share of a token of the node.
    const spec::LayerRange held = seen_.nodes[n].layers;
    const double share = held.empty() ? 0 : static_cast<double>(batch.layers.size()) / held.size();
    ++node.batches;
    if (batch.decodes > 0) ++node.decode_batches;
    node.decodes += batch.decodes * share;
    node.prompt_tokens += batch.prompt_tokens * share;
    node.decodes_in_batches += batch.decodes;
    const double tokens = batch.decodes + batch.prompt_tokens;
    node.layer_steps.at(static_cast<std::size_t>(batch.layers.begin)) += tokens;
    node.layer_steps.at(static_cast<std::size_t>(batch.layers.end)) -= tokens;
}

void Recorder::link_carried(const LinkTransfer& transfer) {
    const auto [found, is_new] = links_.try_emplace({transfer.from, transfer.to});
    Link& link = found->second;
    if (is_new) link.row = link_busy_.add_row();
    link_busy_.add(link.row, transfer.begin, transfer.end,
                   (transfer.end - transfer.begin).seconds());
    link.busy_s += window_part(transfer.begin, transfer.end);
    if (!in_window(transfer.end)) return;
    link.bytes += transfer.bytes;
    ++link.transfers;
    link.wait_s += transfer.waited.seconds();
    link.most_wait_s = std::max(link.most_wait_s, transfer.waited.seconds());
}

void Recorder::hold_kv(std::size_t n, base::TimePoint at) {
    Node& node = nodes_[n];
    if (node.kv_now > 0 && at > node.kv_since) {
        node_kv_.add(n, node.kv_since, at, node.kv_now);
        const double part = window_part(node.kv_since, at);
        node.kv_integral += part * node.kv_now;
        if (part > 0) node.kv_peak = std::max(node.kv_peak, node.kv_now);
    }
    node.kv_since = at;
}

void Recorder::kv_used(std::int32_t node, base::TimePoint at, double used) {
    const auto n = static_cast<std::size_t>(node);
    CHECK(n < nodes_.size());
    hold_kv(n, at);
    nodes_[n].kv_now = used;
}

void Recorder::add_slice(Timeline& timeline, const TimelineSlice& slice) {
    if (!timeline.slices.empty()) {
        // Layer after layer on one node is one stay.
        TimelineSlice& last = timeline.slices.back();
        if (last.node == slice.node && !slice.layers.empty() && last.tokens == slice.tokens &&
            !last.layers.empty() && last.layers.end == slice.layers.begin) {
            last.end_s = slice.end_s;
            last.layers.end = slice.layers.end;
            return;
        }
    }
    if (timeline.slices.size() >= options_.slices_per_timeline) {
        timeline.complete = false;
        return;
    }
    timeline.slices.push_back(slice);
}

void Recorder::request_computed(const RequestWork& work) {
    if (Timeline* timeline = timeline_of(work.request)) {
        add_slice(*timeline,
                  {seconds(work.begin), seconds(work.end), work.node, work.layers, work.tokens});
    }
}

void Recorder::request_moved(const RequestMove& move) {
    if (Timeline* timeline = timeline_of(move.request)) {
        add_slice(*timeline, {seconds(move.begin), seconds(move.end), move.to, {}, 0});
    }
}

void Recorder::mark(base::TimePoint at, std::string_view text) {
    if (seen_.marks.size() < kMostMarks) {
        seen_.marks.emplace_back(seconds(at), std::string(text));
    } else {
        ++seen_.marks_left_out;
    }
}

NodeRecord Recorder::node_record(std::size_t n, base::TimePoint now, double per_s) {
    NodeRecord record = seen_.nodes[n];
    const Node& node = nodes_[n];
    record.busy = node.busy_s * per_s;
    record.decode_tokens_per_s = node.decodes * per_s;
    record.prompt_tokens_per_s = node.prompt_tokens * per_s;
    record.batches = node.batches;
    if (node.decode_batches > 0) {
        record.mean_decodes = node.decodes_in_batches / static_cast<double>(node.decode_batches);
    }
    if (record.kv_capacity > 0) {
        record.kv_mean = node.kv_integral * per_s / record.kv_capacity;
        record.kv_peak = node.kv_peak / record.kv_capacity;
    }
    double tokens = 0;
    for (std::size_t l = 0; l + 1 < node.layer_steps.size(); ++l) {
        tokens += node.layer_steps[l];
        record.layer_tokens_per_s.push_back(tokens * per_s);
    }
    record.busy_over_time = node_busy_.per_second(n, now);
    const std::size_t n_buckets = node_kv_.reach(now);
    for (std::size_t b = 0; b < n_buckets; ++b) {
        const double kv = node_kv_.at(n, b);
        record.kv_over_time.push_back(record.kv_capacity > 0 ? kv / record.kv_capacity : 0);
    }
    return record;
}

std::vector<LinkRecord> Recorder::link_records(base::TimePoint now, double per_s) {
    std::vector<LinkRecord> records;
    for (const auto& [ends, link] : links_) {
        LinkRecord record;
        record.from = ends.first;
        record.to = ends.second;
        const auto capacity = link_capacity_.find(ends);
        if (capacity != link_capacity_.end()) record.bytes_per_s = capacity->second;
        record.busy = link.busy_s * per_s;
        record.carried_bytes = link.bytes;
        record.transfers = link.transfers;
        if (link.transfers > 0)
            record.mean_wait_s = link.wait_s / static_cast<double>(link.transfers);
        record.most_wait_s = link.most_wait_s;
        record.busy_over_time = link_busy_.per_second(link.row, now);
        for (const double busy : record.busy_over_time) {
            record.busiest = std::max(record.busiest, busy);
        }
        records.push_back(std::move(record));
    }
    std::stable_sort(records.begin(), records.end(),
                     [](const LinkRecord& a, const LinkRecord& b) { return a.busy > b.busy; });
    return records;
}

Recording Recorder::recording(base::TimePoint now) {
    for (const TimeGrid* grid : {&node_busy_, &node_kv_, &load_, &link_busy_}) {
        now = std::max(now, grid->furthest());
    }
    count_requests(now);
    for (std::size_t n = 0; n < nodes_.size(); ++n) hold_kv(n, now);
    Recording r = seen_;
    r.end_s = seconds(now);
    // A run may stop before its window ends: rates are over what there was.
    const double window_s = window_part(options_.window_begin, now);
    r.window_end_s = r.window_begin_s + window_s;
    const double per_s = window_s > 0 ? 1 / window_s : 0;
    r.decode_tokens_per_s = decode_tokens_ * per_s;
    r.prompt_tokens_per_s = prompt_tokens_ * per_s;
    r.goodput_per_s = static_cast<double>(r.good) * per_s;
    r.mean_running = running_integral_ * per_s;
    r.mean_waiting = waiting_integral_ * per_s;
    for (std::size_t n = 0; n < nodes_.size(); ++n) r.nodes[n] = node_record(n, now, per_s);
    r.links = link_records(now, per_s);
    r.decode_over_time = load_.per_second(kDecode, now);
    r.prompt_over_time = load_.per_second(kPrompt, now);
    r.running_over_time = load_.per_second(kRunning, now);
    r.waiting_over_time = load_.per_second(kWaiting, now);
    r.bucket_s = load_.width().seconds();
    r.link_bucket_s = link_busy_.width().seconds();
    std::sort(r.timelines.begin(), r.timelines.end(), [](const Timeline& a, const Timeline& b) {
        return std::pair(a.created_s, a.request) < std::pair(b.created_s, b.request);
    });
    return r;
}

}  // namespace helix::sim
