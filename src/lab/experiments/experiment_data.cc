#include "lab/experiments/experiment_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sim/load/synthetic_trace.h"
#include "spec/catalogue.h"
#include "spec/cluster_file.h"
#include "spec/model_shape.h"
#include "spec/profile_writer.h"
#include "spec/roofline_cost.h"

namespace helix::lab {
namespace {

namespace fs = std::filesystem;

constexpr double kMeanContext = 879;  // as RooflineCost has it
constexpr double kUsableMemory = 0.9;
constexpr double kWeightShare = 0.5;  // layers take at most half of the memory
constexpr double kNicBytesPerS = 10e9;
constexpr std::int32_t kBlock = 16;

using Machines = std::vector<std::pair<const char*, int>>;  // type, how many

struct Wires {
    double bytes_per_s = 1e9;
    double latency_s = 1e-3;
};

// All machines of one cluster, region by region; `between` regions and to the coordinator, which is
// in none.
base::Result<spec::ClusterSpec> make_cluster(const char* name, const std::vector<Machines>& regions,
                                             Wires inside, Wires between) {
    spec::ClusterSpec cluster;
    cluster.name = name;
    cluster.coordinator_nic_in_bytes_per_s = kNicBytesPerS;
    cluster.coordinator_nic_out_bytes_per_s = kNicBytesPerS;
    for (std::size_t r = 0; r < regions.size(); ++r) {
        for (const auto& [type, count] : regions[r]) {
            TRY(const spec::MachineType machine, spec::find_machine_type(type));
            for (int i = 0; i < count; ++i) {
                spec::NodeSpec node;
                node.name = fmt::format("{}-{}-{}", type, r, i);
                node.type = type;
                node.region = fmt::format("region-{}", r);
                node.memory_bytes = machine.memory_bytes;
                node.nic_in_bytes_per_s = kNicBytesPerS;
                node.nic_out_bytes_per_s = kNicBytesPerS;
                cluster.nodes.push_back(std::move(node));
            }
        }
    }
    const auto n = static_cast<std::int32_t>(cluster.nodes.size());
    for (std::int32_t a = spec::kCoordinator; a < n; ++a) {
        for (std::int32_t b = spec::kCoordinator; b < n; ++b) {
            if (a == b) continue;
            const bool same = a != spec::kCoordinator && b != spec::kCoordinator &&
                              cluster.nodes[static_cast<std::size_t>(a)].region ==
                                  cluster.nodes[static_cast<std::size_t>(b)].region;
            const Wires& wires = same ? inside : between;
            cluster.links.push_back({a, b, wires.bytes_per_s, wires.latency_s});
        }
    }
    return cluster;
}

// The clusters of sections 6.2 to 6.4 of the paper (arXiv:2406.01566); machines and links as the
// published files have them, without the scatter of the links between regions.
base::Status write_clusters(const std::string& directory) {
    const Wires lan;
    const Wires region{1.25e9, 1e-3};
    const Wires wan{12.5e6, 50e-3};
    TRY(const spec::ClusterSpec single,
        make_cluster("single24", {{{"A100", 4}, {"L4", 8}, {"T4", 12}}}, lan, lan));
    TRY(const spec::ClusterSpec distributed,
        make_cluster("distributed24",
                     {{{"A100", 4}}, {{"L4", 2}, {"T4", 8}}, {{"L4", 6}, {"T4", 4}}}, region, wan));
    TRY(const spec::ClusterSpec mixed, make_cluster("highhet42",
                                                    {{{"A100", 4},
                                                      {"V100", 6},
                                                      {"L4", 8},
                                                      {"L4x2", 4},
                                                      {"T4", 10},
                                                      {"T4x2", 6},
                                                      {"T4x4", 4}}},
                                                    lan, lan));
    TRY(const spec::ClusterSpec ablation,
        make_cluster("ablation10", {{{"L4", 4}, {"T4", 6}}}, lan, lan));
    for (const spec::ClusterSpec* cluster : {&single, &distributed, &mixed, &ablation}) {
        TRY_VOID(spec::write_cluster_file(
            fmt::format("{}/clusters/{}.json", directory, cluster->name), *cluster));
    }
    return base::Ok{};
}

// What the catalogue says of a machine, in the form of measured tables.
base::Result<spec::MeasuredTables> datasheet_tables(const spec::ModelSpec& model,
                                                    const char* type) {
    TRY(const spec::MachineType machine, spec::find_machine_type(type));
    spec::MeasuredTables tables;
    tables.model = model;
    tables.type = type;
    tables.block_size = kBlock;
    for (std::int32_t n = 2; n <= 400; n += n < 20 ? 2 : 20) {
        tables.decode_s.emplace_back(
            n, spec::RooflineCost::layer_s(machine, model, kMeanContext, n, 0));
    }
    for (std::int32_t n = 250; n <= 8000; n += 250) {
        tables.prompt_s.emplace_back(
            n, spec::RooflineCost::layer_s(machine, model, kMeanContext, 0, n));
    }
    const auto memory = static_cast<double>(machine.memory_bytes);
    const auto layer = static_cast<double>(model.layer_bytes);
    const auto most = std::max(1, static_cast<std::int32_t>(memory * kWeightShare / layer));
    for (std::int32_t j = 1; j <= most; ++j) {
        const double room = memory * kUsableMemory - j * layer;
        const double tokens = room / (j * static_cast<double>(model.kv_bytes_per_token_layer));
        spec::MeasuredTables::Limit limit;
        limit.kv_tokens_per_layer =
            std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens) / kBlock) * kBlock;
        limit.prompt_max_requests = 1;
        limit.prompt_max_tokens = 2048;
        limit.decode_max_tokens = 380;
        limit.decode_max_context = 380'000;
        tables.limits.push_back(limit);
    }
    return tables;
}

base::Status write_profiles(const std::string& directory) {
    for (const char* name : {"llama2-70b", "llama1-30b"}) {
        TRY(const spec::ModelSpec model, spec::find_model(name, spec::WeightFormat::f16));
        for (const char* type : {"A100", "V100", "L4", "L4x2", "T4", "T4x2", "T4x4"}) {
            TRY(const spec::MeasuredTables tables, datasheet_tables(model, type));
            TRY_VOID(spec::write_profile(directory + "/profiles", tables));
        }
    }
    return base::Ok{};
}

}  // namespace

std::optional<std::string> ExperimentData::project_folder() {
    std::error_code error;
    fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (error) return std::nullopt;
    while (true) {
        const fs::path found = folder / "data" / "paper";
        if (fs::is_directory(found / "clusters", error)) return found.string();
        if (folder == folder.root_path()) return std::nullopt;
        folder = folder.parent_path();
    }
}

base::Result<ExperimentData> ExperimentData::open(const std::string& directory,
                                                  const std::string& made_up_in) {
    ExperimentData data;
    if (directory == kMadeUp) {
        data.directory_ = made_up_in;
        data.made_up_ = true;
        data.lengths_ = sim::conversation_lengths();
        std::error_code error;
        fs::create_directories(made_up_in + "/clusters", error);
        if (!error) fs::create_directories(made_up_in + "/profiles", error);
        if (error) {
            return base::Error{base::Errc::io, fmt::format("{}: {}", made_up_in, error.message())};
        }
        TRY_VOID(write_clusters(made_up_in));
        TRY_VOID(write_profiles(made_up_in));
        return data;
    }
    data.directory_ = directory;
    for (const char* part : {"/clusters", "/profiles", "/traces"}) {
        if (fs::is_directory(directory + part)) continue;
        return base::invalid(
            fmt::format("--data {}: has no folder {}; expected clusters, profiles and traces",
                        directory, part + 1));
    }
    TRY(data.lengths_, sim::LengthSource::read(directory + "/traces/azure_conv_lengths.csv",
                                               sim::LengthOrder::sampled));
    TRY(data.counts_per_3s_,
        sim::read_arrival_counts(directory + "/traces/azure_conv_arrivals_per_3s.csv"));
    return data;
}

std::string ExperimentData::cluster_file(std::string_view cluster) const {
    return fmt::format("{}/clusters/{}.json", directory_, cluster);
}

std::optional<std::string> ExperimentData::layout_file(std::string_view stem) const {
    std::string path = fmt::format("{}/layouts/{}.json", directory_, stem);
    if (!fs::exists(path)) return std::nullopt;
    return path;
}

std::optional<std::string> ExperimentData::layout_file(std::string_view cluster,
                                                       std::string_view model,
                                                       std::string_view part) const {
    if (model == "llama2-70b") {
        std::string path = fmt::format("{}/replay/{}__{}.json", directory_, cluster, part);
        if (fs::exists(path)) return path;
    }
    return layout_file(fmt::format("{}__{}__{}", cluster, model, part));
}

sim::OnlineLoad ExperimentData::online(double tokens_per_s) const {
    sim::OnlineLoad load;
    load.tokens_per_s = tokens_per_s;
    load.counts_per_3s = counts_per_3s_;
    load.process =
        counts_per_3s_.empty() ? sim::ArrivalProcess::poisson : sim::ArrivalProcess::shuffled;
    return load;
}

}  // namespace helix::lab
