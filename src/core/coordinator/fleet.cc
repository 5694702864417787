#include "core/coordinator/fleet.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/kv/admission.h"

namespace helix::core {

bool Fleet::is_newest(WorkerId id, std::uint64_t incarnation) {
    std::uint64_t& newest = incarnations_[id];
    const bool old = incarnation <= newest;  // such a hello comes late
    if (old && !base::planted(base::PlantedBug::old_incarnation_joins)) return false;
    newest = incarnation;
    return true;
}

void Fleet::add(WorkerState worker) {
    const WorkerId id = worker.joined.worker;
    const auto [it, is_new] = workers_.emplace(id, std::move(worker));
    CHECK(is_new);
    index_.insert(id.value, it);
    ++touched_;
    find_roles();
}

void Fleet::remove(WorkerId id) {
    const auto it = workers_.find(id);
    if (it != workers_.end()) {
        index_.erase(id.value);
        workers_.erase(it);
    }
    ++version_;
    find_roles();
}

void Fleet::assign(WorkerId id, LayerRange layers) {
    WorkerState& worker = at(id);
    worker.ready = false;
    worker.layers = layers;
    if (layers != worker.kept_layers) worker.kept_layers = {};
    worker.slowness.learn_anew();
    ++version_;
}

void Fleet::loaded(WorkerId id, const LayersReady& message) {
    WorkerState& worker = at(id);
    if (worker.kv.requests() == 0) {
        worker.kv.reset(message.total_pages);
        worker.swap_total = message.swap_pages;
    }
    worker.ready = true;
    worker.said = message;
    worker.kv_format = message.kv_format;
    worker.kv_page_bytes = message.kv_page_bytes;
    worker.kv_bytes_per_s = message.kv_bytes_per_s;
    ++version_;
}

void Fleet::could_not_load(WorkerId id) {
    WorkerState& worker = at(id);
    worker.failed = true;
    worker.ready = false;
    worker.layers = {};
    ++version_;
}

void Fleet::set_draining(WorkerId id, bool draining) {
    at(id).draining = draining;
    ++version_;
}

void Fleet::close_drained(bool closed, std::optional<RequestId> waits_for) {
    if (closed != drained_closed_) ++version_;
    drained_closed_ = closed;
    drain_waits_for_ = waits_for;
}

bool Fleet::has_role(WorkerId id, spec::NodeRole role) const {
    const auto it = find(id);
    return it != workers_.end() && it->second.joined.node.role == role;
}

std::int64_t Fleet::most_pages(WorkerId id) const {
    const std::int64_t total = at(id).kv.total();
    return total - kv_watermark(total);
}

WorkerLoad Fleet::load_of(WorkerId id) const {
    const WorkerState& state = at(id);
    return {static_cast<std::int64_t>(state.kv.requests()), static_cast<double>(state.kv.used()),
            state.kv.total(), &state.last_report};
}

bool Fleet::takes_moves(TimePoint now, WorkerId id) const {
    const auto it = find(id);
    return it != workers_.end() && it->second.takes_again.may_try(now);
}

void Fleet::forget_failed_moves() {
    ++touched_;
    for (auto& [id, worker] : workers_) {
        worker.moves_failed = 0;
        worker.takes_again.clear();
    }
}

std::string Fleet::check() const {
    for (const auto& [id, worker] : workers_) {
        std::int64_t sum = 0;
        for (const auto& [request, pages] : worker.kv.charges()) sum += pages;
        if (sum != worker.kv.charged()) return "KV charges do not add up";
    }
    return "";
}

void Fleet::find_roles() {
    any_roles_ = std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
        return worker.second.joined.node.role != spec::NodeRole::both;
    });
}

}  // namespace helix::core
