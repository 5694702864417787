#include "core/coordinator/coordinator.h"

#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_impl.h"

namespace helix::core {

Coordinator::Coordinator(const CoordinatorConfig& config) : impl_(std::make_unique<Impl>(config)) {
    CHECK(config.n_layers > 0 && config.context_length > 0 && config.block_size > 0);
    CHECK(config.policy.kv_high_water > 0 && config.policy.kv_high_water <= 1);
    CHECK(config.policy.prefill_share > 0);
    CHECK(!config.encoder || !config.prefix_cache);
    CHECK(config.prefix_cache_blocks >= 0);
    CHECK(config.speculation.ngram_tokens >= 0 && config.speculation.draft_tokens >= 0);
    CHECK(config.speculation.draft_rows >= 0);
    CHECK(!config.remembered || check_remembered(*config.remembered, config.n_layers).ok());
}
Coordinator::~Coordinator() = default;
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&&) noexcept = default;

void Coordinator::step(TimePoint now, const CoordinatorEvent& event,
                       std::vector<CoordinatorAction>& actions) {
    impl_->out.begin(now, actions);
    impl_->step(now, event);
    impl_->out.end();
}

std::uint64_t Coordinator::epoch() const {
    return impl_->placements.epoch();
}

const RememberedPlacement* Coordinator::placement_in_force() const {
    return impl_->restore.in_force();
}

std::vector<RememberedDrain> Coordinator::drains() const {
    return impl_->drains.all();
}

ClusterView Coordinator::view() const {
    const Impl& state = *impl_;
    ClusterView view;
    for (const auto& [id, worker] : state.fleet) {
        WorkerView w;
        w.worker = id;
        w.node = worker.joined.node;
        w.incarnation = worker.joined.incarnation;
        w.layers = worker.layers;
        w.ready = worker.ready;
        w.total_pages = worker.kv.total();
        w.used_pages = worker.last_report.used_pages;
        w.estimated_pages = static_cast<double>(worker.kv.charged());
        w.running = static_cast<std::int64_t>(worker.kv.requests());
        w.batches = worker.last_report.batches;
        w.rows = worker.last_report.rows;
        w.busy_ns = worker.last_report.busy_ns;
        w.slowdown = worker.slowness.factor();
        w.draining = worker.draining;
        w.remove = worker.remove;
        w.drained = worker.drained;
        w.drain_refused = worker.drain_refused;
        w.drain_waits = state.drains.drain_waits(worker);
        view.workers.push_back(std::move(w));
    }
    view.flows = state.placements.flows();
    for (const auto& [ends, rows] : state.stages.link_rows()) {
        view.link_rows.push_back({ends.first, ends.second, rows});
    }
    view.epoch = state.placements.epoch();
    if (view.epoch != 0) view.capacity_tokens = state.room.capacity();
    view.serving = view.capacity_tokens > 0;
    view.waiting = static_cast<std::int64_t>(state.queue.waiting().size());
    view.swapped = static_cast<std::int64_t>(state.swaps.all().size());
    view.running = static_cast<std::int64_t>(state.requests.size()) - view.waiting - view.swapped;
    view.preemptions = state.preempter.preemptions();
    view.failovers = state.life.failovers();
    view.links_down = state.links.all_down();
    for (const auto& [name, drain] : state.drains.to_come()) {
        view.drained_away.push_back({name, drain.remove});
    }
    view.roles_kept = state.roles.said();
    view.migrating = static_cast<std::int64_t>(state.migrations.all().size());
    view.migrations = state.migrations.counts();
    view.finished = state.life.finished();
    view.failed = state.life.failed();
    view.rejected = state.life.rejected();
    view.prefix_queried_tokens = state.prefixes.queried_tokens();
    view.prefix_hit_tokens = state.prefixes.hit_tokens();
    view.drafts = state.speculation.drafts();
    view.draft_tokens = state.speculation.draft_tokens();
    view.accepted_draft_tokens = state.speculation.accepted_draft_tokens();
    return view;
}

}  // namespace helix::core
