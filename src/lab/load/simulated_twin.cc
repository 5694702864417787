#include "lab/load/simulated_twin.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "sim/throughput/helix_run.h"
#include "spec/json_place.h"

namespace helix::lab {
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
    if (worker.has("processors")) {
        TRY(const std::int64_t processors, worker.child("processors").integer());
        node.device = std::to_string(processors);
    }
    TRY(node.core_share, worker.number_or("core_share", 1));
    if (node.core_share <= 0 || node.core_share > 1) {
        return worker.child("core_share").error("above 0, at most 1");
    }
    TRY(const spec::JsonPlace pages_place, worker.member("kv_pages"));
    TRY(const std::int64_t pages, pages_place.integer());
    TRY(const spec::LayerRange layers, read_layers(worker));
    cluster.nodes.push_back(std::move(node));
    cluster.kv_pages.push_back(pages);
    cluster.placement.layers.push_back(layers);
    cluster.n_layers = std::max(cluster.n_layers, layers.end);
    return base::Ok{};
}

base::Status read_workers(const spec::JsonPlace& root, ServedCluster& cluster,
                          std::map<std::int64_t, std::int32_t>& ids) {
    TRY(const spec::JsonPlace workers, root.member("workers"));
    TRY(const std::size_t n_workers, workers.array_size());
    for (std::size_t i = 0; i < n_workers; ++i) {
        TRY_VOID(read_worker(workers.element(i), cluster, ids));
    }
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

base::TimePoint at_seconds(double seconds) {
    return {base::from_seconds(seconds).ns};
}

// Writes down the simulated requests of the load, numbered in the order of arrivals after those
// before it, as if they had been measured.
class TwinObserver final : public sim::Observer {
  public:
    // start_s: of the load, in the world's time.
    TwinObserver(const std::vector<LoadRequest>& arrivals, std::size_t before, double start_s,
                 double delay_s)
        : start_(at_seconds(start_s)), delay_(base::from_seconds(delay_s)), first_(before) {
        for (const LoadRequest& asked : arrivals) {
            RequestRecord record;
            record.asked = asked;
            record.scheduled_s = record.sent_s = asked.arrival_s;
            record.prompt_tokens = asked.prompt_tokens;
            result_.requests.push_back(std::move(record));
        }
    }

    void token(std::uint64_t request, base::TimePoint at) override {
        if (request < first_) return;
        RequestRecord& record = result_.requests.at(request - first_);
        const double at_s = seconds(at);
        TokenArrival arrival;
        arrival.at_s = static_cast<float>(at_s);
        if (record.output_tokens++ == 0) {
            record.first_s = at_s;
        } else {
            arrival.gap_s = static_cast<float>(at_s - record.last_s);
        }
        record.last_s = at_s;
        result_.tokens.push_back(arrival);
    }
    void request_finished(std::uint64_t request, base::TimePoint at) override {
        if (request < first_) return;
        RequestRecord& record = result_.requests.at(request - first_);
        record.end_s = seconds(at);
        result_.seconds = std::max(result_.seconds, record.end_s);
    }
    void request_rejected(std::uint64_t request, base::TimePoint at) override {
        request_finished(request, at);
        if (request < first_) return;
        result_.requests.at(request - first_).failure =
            StreamFailure{"rejected", "by the simulated cluster"};
    }

    LoadResult take() { return std::move(result_); }

  private:
    double seconds(base::TimePoint at) const { return (at + delay_ - start_).seconds(); }

    base::TimePoint start_;
    base::Duration delay_;
    std::size_t first_;  // request of the load
    LoadResult result_;
};

// Any two machines are linked alike. What a worker's threads take of a hop is no part of the way.
spec::ClusterSpec linked_cluster(const ServedCluster& served, const TwinOptions& options) {
    spec::ClusterSpec cluster;
    cluster.nodes = served.nodes;
    const auto n = static_cast<std::int32_t>(served.nodes.size());
    const double way_s = options.link_latency_s * (1 - options.wake_share);
    for (std::int32_t from = spec::kCoordinator; from < n; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < n; ++to) {
            if (from == to) continue;
            const double latency_s = to == spec::kCoordinator ? options.link_latency_s : way_s;
            cluster.links.push_back({from, to, options.link_bytes_per_s, latency_s});
        }
    }
    return cluster;
}

void append_arrivals(const std::vector<LoadRequest>& requests, double begin_s,
                     std::vector<sim::Arrival>& arrivals) {
    for (const LoadRequest& request : requests) {
        // Lengths count the passes after the prompt's, which yields the first token.
        arrivals.push_back(
            {begin_s + request.arrival_s, {request.prompt_tokens, request.output_tokens - 1}});
    }
}

constexpr double kLongest_s = 24 * 3600;
constexpr double kRest_s = 600;  // before the load

}  // namespace

Result<ServedCluster> parse_served_cluster(const std::string& json, const std::string& url) {
    const std::string file = url + "/helix/cluster";
    TRY(const nlohmann::json document, spec::parse_json(json, file));
    const spec::JsonPlace root(document, file);
    ServedCluster cluster;
    std::map<std::int64_t, std::int32_t> ids;
    TRY_VOID(read_workers(root, cluster, ids));
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
    if (root.value().contains("requests")) {
        TRY(const spec::JsonPlace log, root.member("requests"));
        TRY(cluster.requests, log.array_size());
    }
    return cluster;
}

Result<ServedCluster> read_served_cluster(ApiClient& client) {
    TRY(const std::string body, client.get("/helix/cluster"));
    return parse_served_cluster(body, client.url());
}

Result<LoadResult> simulate_load(const ServedCluster& served, const spec::CostModel& costs,
                                 const TwinOptions& options,
                                 const std::vector<LoadRequest>& arrivals) {
    if (arrivals.empty()) return LoadResult{};
    const spec::ClusterSpec cluster = linked_cluster(served, options);
    const ScaledCost scaled(costs, options.time_scale);
    sim::HelixSetup setup;
    setup.cluster = &cluster;
    setup.costs = &scaled;
    setup.model.n_layers = served.n_layers;
    setup.model.context_length = options.context_length;
    setup.model.activation_bytes_per_token = static_cast<std::int64_t>(options.row_bytes);
    setup.placement = served.placement;
    setup.flows = served.flows;
    for (std::size_t n = 0; n < served.nodes.size(); ++n) {
        const std::int32_t layers = std::max(1, served.placement.layers[n].size());
        const std::int64_t tokens = served.kv_pages[n] / layers * options.block_size;
        setup.kv_tokens.push_back(static_cast<double>(tokens));
    }
    // Machines take the tables' time, no more.
    setup.overheads = {.lone_decode_doubles = false,
                       .copy_bytes_per_s = std::numeric_limits<double>::infinity()};
    setup.worker = core::WorkerConfig{};
    setup.worker.block_size = options.block_size;
    setup.overheads.wake_s = options.link_latency_s * options.wake_share;
    setup.overheads.wake_seed = options.seed;
    const double begin_s = options.before.empty() ? 0 : options.before.back().arrival_s + kRest_s;
    setup.online.emplace().process = sim::ArrivalProcess::listed;
    append_arrivals(options.before, 0, setup.online->listed);
    append_arrivals(arrivals, begin_s, setup.online->listed);
    std::vector<sim::RequestLength> lengths;
    for (const sim::Arrival& arrival : setup.online->listed) lengths.push_back(arrival.length);
    setup.lengths = sim::LengthSource(std::move(lengths), sim::LengthOrder::recorded);
    setup.warmup_s = 0;
    setup.duration_s = begin_s + arrivals.back().arrival_s + kLongest_s;
    setup.until_done = true;
    TwinObserver observer(arrivals, options.before.size(), sim::helix_start_s(setup) + begin_s,
                          options.answer_delay_s);
    setup.observer = &observer;
    TRY(const sim::SimReport report, sim::run_helix(setup));
    if (report.finished + report.rejected < setup.online->listed.size()) {
        return base::Error{base::Errc::unavailable,
                           "the simulated cluster did not end these requests within a day"};
    }
    return observer.take();
}

namespace {

// Of the machines alone: a token and a prompt of so many tokens.
double pipeline_s(const ServedCluster& cluster, const spec::CostModel& costs,
                  const ServedPipeline& pipeline, std::int32_t decodes, std::int32_t prompt) {
    double seconds = 0;
    for (const auto& [node, layers] : pipeline) {
        const spec::NodeSpec& machine = cluster.nodes[static_cast<std::size_t>(node)];
        seconds += layers.size() * costs.layer_s(machine, decodes, prompt);
    }
    return seconds;
}

double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

Result<ServedPipeline> read_pipeline(const spec::JsonPlace& request,
                                     const std::map<std::int64_t, std::int32_t>& ids) {
    TRY(const spec::JsonPlace stages, request.member("pipeline"));
    TRY(const std::size_t n_stages, stages.array_size());
    ServedPipeline pipeline;
    for (std::size_t s = 0; s < n_stages; ++s) {
        TRY(const std::int32_t node, read_end(stages.element(s), "worker", ids));
        TRY(const spec::LayerRange layers, read_layers(stages.element(s)));
        pipeline.emplace_back(node, layers);
    }
    return pipeline;
}

}  // namespace

Result<std::vector<ServedPipeline>> parse_last_pipelines(const std::string& json,
                                                         const std::string& url,
                                                         std::size_t requests) {
    const std::string file = url + "/helix/cluster";
    TRY(const nlohmann::json document, spec::parse_json(json, file));
    const spec::JsonPlace root(document, file);
    ServedCluster cluster;
    std::map<std::int64_t, std::int32_t> ids;
    TRY_VOID(read_workers(root, cluster, ids));
    TRY(const spec::JsonPlace log, root.member("requests"));
    TRY(const std::size_t n_logged, log.array_size());
    if (n_logged < requests) {
        return log.complaint(fmt::format("expected the last {} requests", requests));
    }
    std::vector<ServedPipeline> pipelines;
    for (std::size_t i = requests; i-- > 0;) {  // the log has the newest first
        TRY(ServedPipeline pipeline, read_pipeline(log.element(i), ids));
        pipelines.push_back(std::move(pipeline));
    }
    return pipelines;
}

Result<std::vector<ServedPipeline>> read_last_pipelines(ApiClient& client, std::size_t requests) {
    TRY(const std::string body, client.get("/helix/cluster"));
    return parse_last_pipelines(body, client.url(), requests);
}

base::Status fit_to_lone(const ServedCluster& cluster, const spec::CostModel& costs,
                         const LoadResult& lone, const std::vector<ServedPipeline>& pipelines,
                         TwinOptions& options) {
    CHECK(pipelines.size() == lone.requests.size());
    const ScaledCost scaled(costs, options.time_scale);
    const auto hops = [&](std::size_t i) { return static_cast<double>(pipelines[i].size()) + 1; };
    std::vector<double> hop_s;
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
        const RequestRecord& request = lone.requests[i];
        if (request.failure || request.output_tokens < 2) continue;
        const double token_s =
            (request.last_s - request.first_s) / static_cast<double>(request.output_tokens - 1);
        hop_s.push_back((token_s - pipeline_s(cluster, scaled, pipelines[i], 1, 0)) / hops(i));
    }
    if (hop_s.empty()) {
        return base::Error{base::Errc::unavailable,
                           "requests before the load, to find out what a hop costs, failed"};
    }
    options.link_latency_s = std::max(0.0, median(hop_s));
    std::vector<double> rest_s;
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
        const RequestRecord& request = lone.requests[i];
        if (request.failure || request.first_s < 0) continue;
        const double known_s =
            pipeline_s(cluster, scaled, pipelines[i], 0, request.asked.prompt_tokens) +
            hops(i) * options.link_latency_s;
        rest_s.push_back(request.first_s - request.sent_s - known_s);
    }
    options.answer_delay_s = std::max(0.0, median(rest_s));
    return base::Ok{};
}

}  // namespace helix::lab
