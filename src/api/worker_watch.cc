#include "api/worker_watch.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/nodes.h"

namespace helix::api {
namespace {

bool is_leaving(std::string_view state) {
    return state == "removing" || state == "removed";
}

bool is_emptying(std::string_view state) {
    return state == "draining" || state == "removing";
}

bool is_empty(std::string_view state) {
    return state == "drained" || state == "removed";
}

}  // namespace

nlohmann::json event_json(const ClusterEvent& event) {
    if (event.what == "placement") return {{"epoch", event.epoch}};
    return {{"worker", event.worker.value}, {"name", event.name}};
}

std::vector<ClusterEvent> WorkerWatch::see(const core::ClusterView& view) {
    std::vector<ClusterEvent> events;
    std::map<core::WorkerId, Known> now;
    for (const core::WorkerView& worker : view.workers) {
        now[worker.worker] = {worker.node.name, node_state(worker), worker.incarnation};
    }
    const auto say = [&events](const char* what, core::WorkerId id, const Known& worker) {
        events.push_back({what, id, worker.name, 0});
    };
    for (const auto& [id, worker] : workers_) {
        const auto here = now.find(id);
        if (here != now.end() && here->second.incarnation == worker.incarnation) continue;
        say(is_leaving(worker.state) ? "removed" : "lost", id, worker);
    }
    for (const auto& [id, worker] : now) {
        const auto before = workers_.find(id);
        const bool joined =
            before == workers_.end() || before->second.incarnation != worker.incarnation;
        if (joined) say("joined", id, worker);
        const std::string was = joined ? "idle" : before->second.state;
        if (was == worker.state) continue;
        const bool empties = is_emptying(worker.state);
        const bool emptied = is_empty(worker.state);
        const bool was_closed = is_emptying(was) || was == "drained";
        if (empties) say("draining", id, worker);
        if (emptied) say("drained", id, worker);
        if (was_closed && !empties && !emptied) say("undrained", id, worker);
    }
    workers_ = std::move(now);
    if (view.epoch != epoch_) events.push_back({"placement", {}, "", view.epoch});
    epoch_ = view.epoch;
    return events;
}

}  // namespace helix::api
