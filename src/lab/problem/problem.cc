#include "lab/problem/problem.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "model/model_config.h"
#include "model/weight_source.h"
#include "plan/problem/typical_throughput.h"
#include "spec/cluster_file.h"
#include "spec/measured_node.h"
#include "spec/model_shape.h"
#include "spec/roofline_cost.h"

namespace helix::lab {
namespace {

base::Result<Problem> from_tables(const ProblemSource& a, Problem problem) {
    if (a.kv_type) {
        return base::invalid(
            fmt::format("KV in {}: not with --profiles, whose tables were measured with KV of one "
                        "type, which they do not say",
                        spec::to_string(*a.kv_type)));
    }
    TRY(problem.tables, spec::ProfileTables::read(a.profiles, a.model));
    const auto known = problem.tables->check(problem.cluster);
    if (!known.ok()) return base::invalid(a.cluster + ": " + known.error().message);
    problem.model = problem.tables->model();
    plan::MachineCounts mix = plan::machine_counts(problem.cluster);
    if (!a.machine_mix.empty()) {
        TRY(mix, plan::read_machine_mix(a.profiles, a.machine_mix));
    }
    TRY(const spec::TypeThroughput throughput, plan::typical_throughput(*problem.tables, mix));
    TRY(problem.capacities,
        plan::capacity_from_tables(problem.cluster, *problem.tables, throughput));
    return problem;
}

bool ends_with(const std::string& text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// A GGUF file, a folder of safetensors, a config.json, or a name.
base::Result<spec::ModelSpec> find_model(const ProblemSource& a) {
    const spec::KvType kv = a.kv_type.value_or(spec::KvType::f16);
    std::error_code error;
    if (ends_with(a.model, ".gguf") || std::filesystem::is_directory(a.model, error)) {
        TRY(const auto weights, model::open_weights(a.model));
        TRY(spec::ModelSpec model, model::read_model_spec(weights->file()));
        TRY(const model::ModelConfig config, model::read_model_config(weights->file()));
        model.kv_bytes_per_token_layer =
            spec::kv_bytes_per_token_layer(config.page_kv_heads(), config.page_head_dim(), kv);
        return model;
    }
    TRY(const spec::WeightFormat format, spec::parse_weight_format(a.weights));
    TRY(const spec::ModelShape shape, ends_with(a.model, ".json")
                                          ? spec::read_model_config_file(a.model)
                                          : spec::find_model_shape(a.model));
    return spec::model_spec(shape, format, kv);
}

}  // namespace

base::Result<Problem> load_problem(const ProblemSource& a) {
    TRY(spec::ClusterSpec cluster, spec::read_cluster_file(a.cluster));
    return make_problem(a, std::move(cluster));
}

base::Result<Problem> make_problem(const ProblemSource& a, spec::ClusterSpec cluster) {
    Problem problem;
    problem.cluster = std::move(cluster);
    if (!a.profiles.empty()) return from_tables(a, std::move(problem));
    if (!a.machine_mix.empty()) {
        return base::invalid("--machine-mix: only with --profiles, whose tables it chooses from");
    }
    TRY(problem.model, find_model(a));
    problem.kv_type = a.kv_type;
    TRY(auto costs, spec::RooflineCost::make(problem.cluster, problem.model));
    problem.own_costs = std::make_unique<spec::RooflineCost>(std::move(costs));
    problem.capacities = plan::capacity_from_costs(
        problem.cluster, problem.model, *problem.own_costs, plan::Workload{}, plan::MemoryRule{});
    return problem;
}

base::Result<Problem> make_problem(const spec::ModelSpec& model, spec::ClusterSpec cluster) {
    Problem problem;
    problem.cluster = std::move(cluster);
    problem.model = model;
    if (spec::check_measured(problem.cluster).ok()) {
        problem.own_costs = std::make_unique<spec::MeasuredNode>();
    } else {
        TRY(auto costs, spec::RooflineCost::make(problem.cluster, model));
        problem.own_costs = std::make_unique<spec::RooflineCost>(std::move(costs));
    }
    problem.capacities = plan::capacity_from_costs(
        problem.cluster, problem.model, *problem.own_costs, plan::Workload{}, plan::MemoryRule{});
    return problem;
}

base::Result<spec::PlacementFile> read_layout(const std::string& path, const Problem& problem) {
    TRY(spec::PlacementFile file, spec::read_placement_file(path));
    if (file.n_layers != problem.model.n_layers) {
        return base::invalid(fmt::format("{}: is for {} layers, but {} has {}", path, file.n_layers,
                                         problem.model.name, problem.model.n_layers));
    }
    const std::size_t n = problem.cluster.nodes.size();
    if (file.placement.layers.size() > n) {
        return base::invalid(fmt::format("{}: names node {}, but the cluster has nodes 0 to {}",
                                         path, file.placement.layers.size() - 1, n - 1));
    }
    spec::resize_placement(file.placement, n);
    TRY_VOID(check_kv_type(path, file, problem));
    return file;
}

base::Status check_kv_type(const std::string& path, const spec::PlacementFile& file,
                           const Problem& problem) {
    const spec::KvType type = problem.kv_type.value_or(spec::KvType::f16);
    if (!file.kv_type || *file.kv_type == type) return base::Ok{};
    return base::invalid(fmt::format("{}: is planned for KV in {}, not in {}", path,
                                     spec::to_string(*file.kv_type), spec::to_string(type)));
}

}  // namespace helix::lab
