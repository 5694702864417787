#include "api/nodes.h"

#include <algorithm>

#include "base/hex.h"

namespace helix::api {

using nlohmann::json;

namespace {

json node_json(const core::WorkerView& worker) {
    json layers = nullptr;  // the first and the last
    if (!worker.layers.empty()) {
        layers = json::array({worker.layers.begin, worker.layers.end - 1});
    }
    json node = {{"name", worker.node.name},           {"id", worker.worker.value},
                 {"state", node_state(worker)},        {"layers", std::move(layers)},
                 {"requests", worker.running},         {"kv_pages", worker.total_pages},
                 {"kv_pages_used", worker.used_pages}, {"memory_bytes", worker.node.memory_bytes},
                 {"slowdown", worker.slowdown},        {"role", spec::to_string(worker.node.role)}};
    if (!worker.drain_refused.empty()) node["drain_refused"] = worker.drain_refused;
    if (!worker.drain_waits.empty()) node["drain_waits"] = worker.drain_waits;
    return node;
}

}  // namespace

std::string node_state(const core::WorkerView& worker) {
    if (worker.draining && worker.drained) return worker.remove ? "removed" : "drained";
    if (worker.draining) return worker.remove ? "removing" : "draining";
    if (worker.layers.empty()) return "idle";
    return worker.ready ? "serving" : "loading";
}

json nodes_json(const core::ClusterView& view) {
    json nodes = json::array();
    for (const core::WorkerView& worker : view.workers) nodes.push_back(node_json(worker));
    json away = json::array();
    for (const core::RememberedDrain& drain : view.drained_away) {
        away.push_back({{"name", drain.worker}, {"remove", drain.remove}});
    }
    return {{"object", "list"},
            {"serving", view.serving},
            {"data", std::move(nodes)},
            {"drained_away", std::move(away)}};
}

const core::WorkerView* find_node(const core::ClusterView& view, std::string_view name) {
    const auto found =
        std::find_if(view.workers.begin(), view.workers.end(),
                     [&](const core::WorkerView& worker) { return worker.node.name == name; });
    return found == view.workers.end() ? nullptr : &*found;
}

std::optional<NodeCall> parse_node_call(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos || slash == 0 || slash + 1 == path.size()) return {};
    NodeCall call{"", std::string(path.substr(slash + 1))};
    const std::string_view name = path.substr(0, slash);
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] != '%') {
            call.name += name[i];
            continue;
        }
        if (i + 2 >= name.size()) return {};
        const int high = base::hex_digit(name[i + 1]);
        const int low = base::hex_digit(name[i + 2]);
        if (high < 0 || low < 0) return {};
        call.name += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return call;
}

bool is_drained_away(const core::ClusterView& view, std::string_view name) {
    return std::any_of(view.drained_away.begin(), view.drained_away.end(),
                       [&](const core::RememberedDrain& drain) { return drain.worker == name; });
}

std::optional<core::DrainWorker> drain_event(core::WorkerId worker, std::string_view action) {
    if (action == "drain") return core::DrainWorker{worker, false, false};
    if (action == "remove") return core::DrainWorker{worker, true, false};
    if (action == "undrain") return core::DrainWorker{worker, false, true};
    return {};
}

}  // namespace helix::api
