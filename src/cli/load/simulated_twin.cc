#include "cli/load/simulated_twin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/world.h"
#include "spec/json_place.h"

namespace helix::cli {
namespace {

using base::Result;

// Times of a model, all longer or shorter by a factor.
class ScaledCost final : public spec::CostModel {
  public:
    ScaledCost(const spec::CostModel& costs, double scale) : costs_(costs), scale_(scale) {}
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return scale_ * costs_.layer_s(node, decode_seqs, prefill_tokens);
    }

  private:
    const spec::CostModel& costs_;
    double scale_;
};

Result<spec::LayerRange> read_layers(const spec::JsonPlace& worker) {
    TRY(const spec::JsonPlace layers, worker.member("layers"));
    if (layers.value().is_null()) return spec::LayerRange{};
    TRY(const std::size_t size, layers.array_size());
    if (size != 2) return layers.error("[begin, end)");
    TRY(const std::int64_t begin, layers.element(0).integer());
    TRY(const std::int64_t end, layers.element(1).integer());
    if (begin < 0 || end < begin || end > 100'000) return layers.error("[begin, end)");
    return spec::LayerRange{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
}

// Appends the worker; ids maps what the server calls it to its index.
base::Status read_worker(const spec::JsonPlace& worker, ServedCluster& cluster,
                         std::map<std::int64_t, std::int32_t>& ids) {
    TRY(const spec::JsonPlace id_place, worker.member("id"));
    TRY(const std::int64_t id, id_place.integer());
    ids[id] = static_cast<std::int32_t>(cluster.nodes.size());
    spec::NodeSpec node;
    TRY(node.name, worker.text_or("name", ""));
    TRY(node.type, worker.text_or("type", ""));
    TRY(const spec::JsonPlace host, worker.member("host"));
    TRY(const std::int64_t host_number, host.integer());
    node.host = std::to_string(host_number);
    TRY(const spec::JsonPlace pages_place, worker.member("kv_pages"));
    TRY(const std::int64_t pages, pages_place.integer());
    TRY(const spec::LayerRange layers, read_layers(worker));
    cluster.nodes.push_back(std::move(node));
    cluster.kv_pages.push_back(pages);
    cluster.placement.layers.push_back(layers);
    cluster.n_layers = std::max(cluster.n_layers, layers.end);
    return base::Ok{};
}

Result<std::int32_t> read_end(const spec::JsonPlace& flow, const char* key,
                              const std::map<std::int64_t, std::int32_t>& ids) {
    TRY(const spec::JsonPlace place, flow.member(key));
    TRY(const std::int64_t id, place.integer());
    if (id == spec::kCoordinator) return spec::kCoordinator;
    const auto found = ids.find(id);
    if (found == ids.end()) return place.error("a worker's id, or -1");
    return found->second;
}

// Submits each request when it is due and lets time pass until all have ended.
Result<std::vector<core::RequestId>> play(sim::World& world,
                                          const std::vector<LoadRequest>& arrivals,
                                          core::TimePoint start) {
    std::vector<core::RequestId> ids;
    for (const LoadRequest& arrival : arrivals) {
        const core::TimePoint due = start + base::from_seconds(arrival.arrival_s);
        if (due > world.now()) world.run_for((due - world.now()).seconds());
        core::Request request;
        for (std::int32_t i = 0; i < arrival.prompt_tokens; ++i) request.prompt.push_back(i % 100);
        request.sampling.temperature = 0;
        request.max_tokens = arrival.output_tokens;
        request.min_tokens = arrival.output_tokens;
        ids.push_back(world.submit(std::move(request)));
    }
    constexpr double kLongest_s = 24 * 3600;
    if (world.run_until_idle(kLongest_s)) return ids;
    return base::Error{base::Errc::unavailable,
                       "the simulated cluster did not end these requests within a day"};
}

// A request of the simulation as if it had been measured; its tokens are appended.
RequestRecord to_record(const LoadRequest& asked, const sim::Outcome& outcome,
                        core::TimePoint start, std::vector<TokenArrival>& tokens) {
    RequestRecord record;
    record.asked = asked;
    record.scheduled_s = record.sent_s = asked.arrival_s;
    record.prompt_tokens = asked.prompt_tokens;
    record.output_tokens = static_cast<std::int32_t>(outcome.tokens.size());
    record.end_s = (outcome.ended_at - start).seconds();
    if (outcome.rejected) {
        record.failure = StreamFailure{"http 429", outcome.error};
    } else if (outcome.reason != core::FinishReason::length) {
        record.failure = StreamFailure{"stream error", outcome.error};
    }
    if (outcome.tokens.empty()) return record;
    record.first_s = (outcome.first_token_at - start).seconds();
    record.last_s = record.end_s;
    const double gap_s = (record.last_s - record.first_s) / std::max(record.output_tokens - 1, 1);
    tokens.push_back({static_cast<float>(record.first_s), TokenArrival::kFirst});
    for (std::int32_t i = 1; i < record.output_tokens; ++i) {
        tokens.push_back(
            {static_cast<float>(record.first_s + gap_s * i), static_cast<float>(gap_s)});
    }
    return record;
}

}  // namespace

Result<ServedCluster> parse_served_cluster(const std::string& json, const std::string& url) {
    const std::string file = url + "/helix/cluster";
    TRY(const nlohmann::json document, spec::parse_json(json, file));
    const spec::JsonPlace root(document, file);
    TRY(const spec::JsonPlace workers, root.member("workers"));
    TRY(const std::size_t n_workers, workers.array_size());
    ServedCluster cluster;
    std::map<std::int64_t, std::int32_t> ids;
    for (std::size_t i = 0; i < n_workers; ++i) {
        TRY_VOID(read_worker(workers.element(i), cluster, ids));
    }
    TRY(const spec::JsonPlace flows, root.member("flows"));
    TRY(const std::size_t n_flows, flows.array_size());
    for (std::size_t i = 0; i < n_flows; ++i) {
        spec::LinkFlow flow;
        TRY(flow.from, read_end(flows.element(i), "from", ids));
        TRY(flow.to, read_end(flows.element(i), "to", ids));
        TRY(const spec::JsonPlace rate, flows.element(i).member("tokens_per_s"));
        TRY(flow.tokens_per_s, rate.number());
        cluster.flows.push_back(flow);
    }
    if (cluster.n_layers == 0 || cluster.flows.empty()) {
        return base::Error{base::Errc::unavailable, file + ": no placement is in force yet"};
    }
    return cluster;
}

Result<ServedCluster> read_served_cluster(ApiClient& client) {
    TRY(const std::string body, client.get("/helix/cluster"));
    return parse_served_cluster(body, client.url());
}

Result<LoadResult> simulate_load(const ServedCluster& cluster, const spec::CostModel& costs,
                                 const TwinOptions& options,
                                 const std::vector<LoadRequest>& arrivals) {
    sim::WorldConfig config;
    config.coordinator.n_layers = cluster.n_layers;
    config.coordinator.context_length = options.context_length;
    config.coordinator.block_size = options.block_size;
    config.coordinator.min_workers = static_cast<std::int32_t>(cluster.nodes.size());
    config.worker.n_layers = cluster.n_layers;
    config.worker.block_size = options.block_size;
    config.link_latency_s = options.link_latency_s;
    config.link_bytes_per_s = options.link_bytes_per_s;
    config.activation_bytes = options.activation_bytes;
    config.check_invariants = false;
    const ScaledCost scaled(costs, options.time_scale);
    sim::World world(
        config,
        [&](const core::PlanCluster& question) {
            return core::Planned{question.plan, cluster.placement, cluster.flows};
        },
        scaled);
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        world.add_worker(cluster.nodes[i], cluster.kv_pages[i]);
    }
    for (int tenths = 0; tenths < 100 && !world.view().serving; ++tenths) world.run_for(0.1);
    if (!world.view().serving) {
        return base::Error{base::Errc::unavailable, "the simulated cluster does not come to serve"};
    }
    const core::TimePoint start = world.now();
    TRY(const std::vector<core::RequestId> ids, play(world, arrivals, start));
    LoadResult result;
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
        result.requests.push_back(
            to_record(arrivals[i], world.outcomes().at(ids[i]), start, result.tokens));
        result.seconds = std::max(result.seconds, result.requests.back().end_s);
    }
    std::sort(result.tokens.begin(), result.tokens.end(),
              [](const TokenArrival& a, const TokenArrival& b) { return a.at_s < b.at_s; });
    return result;
}

}  // namespace helix::cli
