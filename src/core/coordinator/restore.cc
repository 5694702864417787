#include "core/coordinator/restore.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace helix::core {

using base::Status;

Status check_remembered(const RememberedPlacement& placement, std::int32_t n_layers) {
    std::set<std::string> names;
    std::vector<bool> held(static_cast<std::size_t>(n_layers));
    for (const RememberedPlacement::Holder& holder : placement.holders) {
        if (holder.worker.empty()) return base::invalid("a holder of layers has no name");
        if (!names.insert(holder.worker).second) {
            return base::invalid("worker " + holder.worker + " is named twice");
        }
        if (holder.layers.begin < 0 || holder.layers.end > n_layers ||
            holder.layers.begin > holder.layers.end) {
            return base::invalid("worker " + holder.worker + " has layers " +
                                 std::to_string(holder.layers.begin) + " to " +
                                 std::to_string(holder.layers.end) + " of a model of " +
                                 std::to_string(n_layers));
        }
        for (std::int32_t layer = holder.layers.begin; layer < holder.layers.end; ++layer) {
            held[static_cast<std::size_t>(layer)] = true;
        }
    }
    const auto missing = std::find(held.begin(), held.end(), false);
    if (missing != held.end()) {
        return base::invalid("nobody holds layer " + std::to_string(missing - held.begin()));
    }
    for (const RememberedPlacement::Flow& flow : placement.flows) {
        for (const std::string& name : {flow.from, flow.to}) {
            if (name.empty() || names.contains(name)) continue;
            return base::invalid("a flow of worker " + name + ", which holds nothing");
        }
        if (flow.from == flow.to || !(flow.tokens_per_s > 0)) {
            return base::invalid("no flow from \"" + flow.from + "\" to \"" + flow.to + "\"");
        }
    }
    return base::Ok{};
}

namespace {

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

// What a machine has free is a little different each time. Whether the layers fit is seen when they
// are loaded.
bool has_lost_memory(std::int64_t bytes, const RememberedPlacement::Holder& holder) {
    constexpr double kEnough = 0.9;
    return static_cast<double>(bytes) < kEnough * static_cast<double>(holder.memory_bytes);
}

}  // namespace

void Restore::learn(const Holding& holding) {
    if (restore_over_ || placements_.pending() || holding.epoch <= learnt_epoch_) return;
    if (!holding.placement || !check_remembered(*holding.placement, config_.n_layers).ok()) return;
    learnt_epoch_ = holding.epoch;
    remembered_ = *holding.placement;
}

RememberedPlacement remember(const PendingPlacement& placement, const Fleet& fleet) {
    RememberedPlacement remembered;
    const auto name_of = [&](std::int32_t node) -> std::string {
        if (node == spec::kCoordinator) return "";
        return fleet.name(placement.workers[static_cast<std::size_t>(node)]);
    };
    for (std::size_t i = 0; i < placement.workers.size(); ++i) {
        const spec::NodeSpec& node = fleet.at(placement.workers[i]).joined.node;
        remembered.holders.push_back({node.name, placement.placement.layers[i], node.memory_bytes});
    }
    for (const spec::LinkFlow& flow : placement.flows) {
        if (flow.tokens_per_s <= 0) continue;
        remembered.flows.push_back({name_of(flow.from), name_of(flow.to), flow.tokens_per_s});
    }
    return remembered;
}

LayerRange Restore::held_before(const WorkerState& worker) const {
    if (!remembered_) return {};
    for (const RememberedPlacement::Holder& holder : remembered_->holders) {
        if (holder.worker != worker.joined.node.name) continue;
        const bool given_others = worker.assigned_epoch != 0 && worker.layers != holder.layers;
        return given_others ? LayerRange{} : holder.layers;
    }
    return {};
}

bool Restore::is_placed(WorkerId id) const {
    if (placements_.in_router(id)) return true;
    return placements_.epoch() == 0 && !held_before(fleet_.at(id)).empty();
}

Restore::Progress Restore::advance(TimePoint now) {
    if (!remembered_ || restore_over_) return {};
    std::map<std::string, const WorkerState*> here;
    for (const auto& [id, worker] : fleet_) here[worker.joined.node.name] = &worker;
    std::vector<std::string> missing;
    std::string why_not;
    for (const RememberedPlacement::Holder& holder : remembered_->holders) {
        if (holder.layers.empty()) continue;
        const auto found = here.find(holder.worker);
        if (found == here.end()) {
            missing.push_back(holder.worker);
        } else if (found->second->failed) {
            why_not = "worker " + holder.worker + " could not load its layers";
        } else if (has_lost_memory(found->second->joined.node.memory_bytes, holder)) {
            why_not = "worker " + holder.worker + " has less memory than it had";
        }
    }
    if (why_not.empty() && missing.empty()) {
        return {.awaits = true, .restored = true, .improvable = restore()};
    }
    if (why_not.empty() && !restore_until_) {
        restore_until_ = now + config_.rejoin_wait;
        out_.push(Report{"the placement from before the restart needs " + listed(missing) +
                             ", too: waiting for up to " +
                             std::to_string(config_.rejoin_wait.ns / 1'000'000) + " ms",
                         false});
    }
    if (why_not.empty() && now < *restore_until_) return {.awaits = true};
    restore_over_ = true;
    if (why_not.empty()) why_not = "still without " + listed(missing);
    out_.push(
        Report{"the placement from before the restart is not used as it was: " + why_not, true});
    return {};
}

void Restore::remember_in_force() {
    RememberedPlacement next = remember(*placements_.pending(), fleet_);
    in_force_ = std::move(next);
    restore_over_ = true;
    if (!remembered_) return;
    std::erase_if(remembered_->holders, [&](const RememberedPlacement::Holder& before) {
        return std::any_of(in_force_->holders.begin(), in_force_->holders.end(),
                           [&](const auto& holder) { return holder.worker == before.worker; });
    });
}

bool Restore::restore() {
    PendingPlacement next;
    std::map<std::string, std::int32_t> index = {{"", spec::kCoordinator}};
    // There are new workers, or somebody is to leave.
    bool improvable = false;
    for (const auto& [id, worker] : fleet_) {
        if (worker.failed || (worker.draining && held_before(worker).empty())) continue;
        const std::string& name = worker.joined.node.name;
        index[name] = static_cast<std::int32_t>(next.workers.size());
        next.workers.push_back(id);
        next.placement.layers.push_back(held_before(worker));
        next.changed.insert(id);
        improvable = improvable || worker.draining ||
                     std::none_of(remembered_->holders.begin(), remembered_->holders.end(),
                                  [&](const auto& h) { return h.worker == name; });
    }
    for (const RememberedPlacement::Flow& flow : remembered_->flows) {
        const auto from = index.find(flow.from);
        const auto to = index.find(flow.to);
        if (from == index.end() || to == index.end()) continue;  // it held nothing, and is not here
        next.flows.push_back({from->second, to->second, flow.tokens_per_s});
    }
    out_.push(Report{"the placement from before the restart is taken up again", false,
                     ReportCause::placement_taken_up_again});
    placements_.set_pending(std::move(next));
    return improvable;
}

}  // namespace helix::core
