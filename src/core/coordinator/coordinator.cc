#include "core/coordinator/coordinator.h"

#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {

Coordinator::Coordinator(const CoordinatorConfig& config) : impl_(std::make_unique<Impl>(config)) {
    CHECK(config.n_layers > 0 && config.context_length > 0 && config.block_size > 0);
    CHECK(config.kv_high_water > 0 && config.kv_high_water <= 1);
    CHECK(config.prefix_cache_blocks >= 0);
    CHECK(config.speculation.ngram_tokens >= 0 && config.speculation.draft_tokens >= 0);
    CHECK(config.speculation.guess_rows >= 0);
    CHECK(!config.remembered || check_remembered(*config.remembered, config.n_layers).ok());
}
Coordinator::~Coordinator() = default;
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&&) noexcept = default;

void Coordinator::step(TimePoint now, const CoordinatorEvent& event,
                       std::vector<CoordinatorAction>& actions) {
    impl_->step_at = now;
    impl_->preempted_in_step = impl_->swapped_in_in_step = false;
    std::visit([&](const auto& e) { impl_->on(now, e, actions); }, event);
    impl_->advance_pending(now, actions);
    impl_->hand_over(now, actions);
    impl_->dispatch(now, actions);
    impl_->flush_outbox(actions);
}

std::uint64_t Coordinator::epoch() const {
    return impl_->epoch_in_force;
}

const RememberedPlacement* Coordinator::placement_in_force() const {
    return impl_->in_force ? &*impl_->in_force : nullptr;
}

std::vector<RememberedDrain> Coordinator::drains() const {
    std::map<std::string, bool> all;
    for (const auto& [name, drain] : impl_->drains_to_come) all[name] = drain.remove;
    for (const auto& [id, worker] : impl_->workers) {
        if (worker.draining) all[worker.joined.node.name] = worker.remove;
    }
    std::vector<RememberedDrain> drains;
    for (const auto& [name, remove] : all) drains.push_back({name, remove});
    return drains;
}

ClusterView Coordinator::view() const {
    const Impl& state = *impl_;
    ClusterView view;
    for (const auto& [id, worker] : state.workers) {
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
        w.drain_waits = state.drain_waits(worker);
        view.workers.push_back(std::move(w));
    }
    view.flows = state.flows;
    view.epoch = state.epoch_in_force;
    view.serving = state.epoch_in_force != 0 && state.capacity_tokens() > 0;
    view.waiting = static_cast<std::int64_t>(state.waiting.size());
    view.swapped = static_cast<std::int64_t>(state.swapped.size());
    view.running = static_cast<std::int64_t>(state.requests.size()) - view.waiting - view.swapped;
    view.preemptions = state.preemptions;
    view.failovers = state.failovers;
    view.links_down = state.link_health.all_down();
    for (const auto& [name, drain] : state.drains_to_come) {
        view.drained_away.push_back({name, drain.remove});
    }
    view.roles_kept = state.roles_said;
    view.migrating = static_cast<std::int64_t>(state.migrating.size());
    view.migrations = state.migrations;
    view.finished = state.finished;
    view.failed = state.failed;
    view.rejected = state.rejected;
    view.prefix_queried_tokens = state.prefix_queried_tokens;
    view.prefix_hit_tokens = state.prefix_hit_tokens;
    view.drafts = state.drafts;
    view.draft_tokens = state.draft_tokens;
    view.accepted_draft_tokens = state.accepted_draft_tokens;
    return view;
}

}  // namespace helix::core
