#include "api/request_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/protocol/describe.h"

namespace helix::api {
namespace {

using nlohmann::json;

json or_null(double value) {
    return value < 0 ? json() : json(value);
}

json layers_json(core::LayerRange layers) {
    return json::array({layers.begin, layers.end});
}

json record_json(const RequestRecord& record) {
    json pipeline = json::array();
    for (const core::Stage& stage : record.pipeline) {
        pipeline.push_back({{"worker", stage.worker.value}, {"layers", layers_json(stage.layers)}});
    }
    return {{"id", record.id},
            {"choice", record.choice},
            {"endpoint", record.endpoint},
            {"stream", record.stream},
            {"created", record.created},
            {"state", record.state},
            {"reason", record.reason.empty() ? json() : json(record.reason)},
            {"prompt_tokens", record.prompt_tokens},
            {"cached_tokens", record.cached_tokens},
            {"completion_tokens", record.completion_tokens},
            {"queue_s", or_null(record.queue_s)},
            {"ttft_s", or_null(record.ttft_s)},
            {"tokens_per_s", or_null(record.tokens_per_s)},
            {"pipeline", std::move(pipeline)}};
}

// Workers of one machine share a host, which is shown as the id of the first of them: the machine's
// own id is not told.
std::uint32_t host_of(const core::ClusterView& view, const core::WorkerView& worker) {
    for (const core::WorkerView& other : view.workers) {
        if (!worker.node.host.empty() && other.node.host == worker.node.host) {
            return other.worker.value;
        }
    }
    return worker.worker.value;
}

// Workers that share what computes, in the same way.
std::uint32_t processors_of(const core::ClusterView& view, const core::WorkerView& worker) {
    for (const core::WorkerView& other : view.workers) {
        if (spec::share_processors(worker.node, other.node)) return other.worker.value;
    }
    return worker.worker.value;
}

json worker_json(const core::ClusterView& view, const core::WorkerView& worker) {
    return {{"id", worker.worker.value},
            {"host", host_of(view, worker)},
            {"processors", processors_of(view, worker)},
            {"name", worker.node.name},
            {"type", worker.node.type},
            {"region", worker.node.region},
            {"role", spec::to_string(worker.node.role)},
            {"incarnation", worker.incarnation},
            {"memory_bytes", worker.node.memory_bytes},
            {"layers", layers_json(worker.layers)},
            {"ready", worker.ready},
            {"kv_pages", worker.total_pages},
            {"kv_pages_used", worker.used_pages},
            {"kv_pages_estimated", worker.estimated_pages},
            {"requests", worker.running},
            {"batches", worker.batches},
            {"rows", worker.rows},
            {"busy_s", static_cast<double>(worker.busy_ns) * 1e-9}};
}

// Counts of one reason, or of all.
template <typename CountOf>
json outcomes_json(const CountOf& count) {
    using Phase = core::MigrationPhase;
    json given_up;
    for (const Phase phase : {Phase::reserving, Phase::copying, Phase::last_round})
        given_up[std::string(core::name_of(phase))] = count(phase);
    return {{"committed", count(Phase::committed)}, {"given_up", std::move(given_up)}};
}

json migrations_json(const core::ClusterView& view) {
    json out = outcomes_json([&](core::MigrationPhase phase) { return view.migrations.of(phase); });
    out["under_way"] = view.migrating;
    for (std::size_t r = 0; r < core::kMigrationReasons; ++r) {
        const auto reason = static_cast<core::MigrationReason>(r);
        out["by_reason"][std::string(core::name_of(reason))] = outcomes_json(
            [&](core::MigrationPhase phase) { return view.migrations.of(reason, phase); });
    }
    return out;
}

}  // namespace

std::shared_ptr<RequestRecord> RequestLog::add() {
    records_.push_front(std::make_shared<RequestRecord>());
    if (records_.size() > capacity_) records_.pop_back();
    return capacity_ > 0 ? records_.front() : std::make_shared<RequestRecord>();
}

nlohmann::json RequestLog::to_json() const {
    json out = json::array();
    for (const auto& record : records_) out.push_back(record_json(*record));
    return out;
}

std::vector<ServiceRequest> RequestLog::find(std::string_view id) const {
    std::vector<ServiceRequest> found;
    for (const auto& record : records_) {
        if (record->id != id) continue;
        if (std::find(found.begin(), found.end(), record->request) == found.end()) {
            found.push_back(record->request);
        }
    }
    return found;
}

nlohmann::json cluster_json(const core::ClusterView& view, const RequestLog& log) {
    json workers = json::array();
    for (const core::WorkerView& worker : view.workers)
        workers.push_back(worker_json(view, worker));
    json flows = json::array();
    for (const spec::LinkFlow& flow : view.flows) {
        flows.push_back(
            {{"from", flow.from}, {"to", flow.to}, {"tokens_per_s", flow.tokens_per_s}});
    }
    json links_down = json::array();
    for (const auto& [one, other] : view.links_down) {
        links_down.push_back({one.value, other.value});
    }
    return {{"serving", view.serving},
            {"links_down", links_down},
            {"epoch", view.epoch},
            {"waiting", view.waiting},
            {"running", view.running},
            {"swapped", view.swapped},
            {"finished", view.finished},
            {"failed", view.failed},
            {"rejected", view.rejected},
            {"preemptions", view.preemptions},
            {"roles_kept", view.roles_kept ? json(*view.roles_kept) : json()},
            {"failovers", view.failovers},
            {"migrations", migrations_json(view)},
            {"workers", workers},
            {"flows", flows},
            {"requests", log.to_json()}};
}

}  // namespace helix::api
