#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/experiments/experiments.h"
#include "spec/catalogue.h"
#include "spec/model_shape.h"

// What the paper shows of models and of requests before it evaluates: how many machines of one type
// a model needs (Table 1), and how long prompts and answers are (figure 5).

namespace helix::lab {
namespace {

constexpr const char* kModels[] = {"llama1-30b",    "llama2-70b", "mixtral-8x22b",
                                   "llama3.1-405b", "glm-4.6",    "qwen3-235b-a22b"};
constexpr const char* kTypes[] = {"T4", "L4", "V100", "A100-40", "A100-80", "H100", "H200"};

// The fewest machines that hold the model in this share of their memory. Only whole layers are
// placed; embedding and head are on the first and the last machine. 0: one layer is too much.
std::int64_t machines_needed(const spec::ModelSpec& model, std::int64_t memory_bytes,
                             double share) {
    const double room =
        static_cast<double>(memory_bytes) * share - static_cast<double>(model.common_bytes);
    const auto layer = static_cast<double>(model.layer_bytes);
    const auto layers_in = [&](double bytes) {
        return static_cast<std::int64_t>(std::floor(std::max(bytes, 0.0) / layer));
    };
    const auto ends = static_cast<double>(model.embedding_bytes + model.head_bytes);
    if (layers_in(room - ends) >= model.n_layers) return 1;
    if (layers_in(room) < 1) return 0;
    const std::int64_t first = layers_in(room - static_cast<double>(model.embedding_bytes));
    const std::int64_t last = layers_in(room - static_cast<double>(model.head_bytes));
    const std::int64_t between = std::max<std::int64_t>(model.n_layers - first - last, 0);
    return 2 + (between + layers_in(room) - 1) / layers_in(room);
}

base::Status write_machines(ExperimentSession& /*session*/, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "Machines of one type that hold a model's 16-bit weights in half of their memory";
    table.head = {"model", "layers", "weights"};
    for (const char* type : kTypes) table.head.emplace_back(type);
    for (const char* name : kModels) {
        TRY(const spec::ModelSpec model, spec::find_model(name, spec::WeightFormat::f16));
        const auto bytes = static_cast<double>(spec::stored_bytes(model, {0, model.n_layers}));
        std::vector<std::string> row = {name, std::to_string(model.n_layers),
                                        fmt::format("{:.0f} GB", bytes / 1e9)};
        for (const char* type : kTypes) {
            TRY(const spec::MachineType machine, spec::find_machine_type(type));
            const std::int64_t n = machines_needed(model, machine.memory_bytes, 0.5);
            row.push_back(n > 0 ? std::to_string(n) : "-");
        }
        table.rows.push_back(std::move(row));
    }
    page.table(std::move(table));
    page.text(
        "The other half is for KV memory and for what is computed on the way. Whole layers only; "
        "the first machine also holds the embedding, the last one the head. \"-\": half of the "
        "memory holds no layer.");
    return base::Ok{};
}

double share_at_most(const std::vector<double>& sorted, double limit) {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), limit);
    return static_cast<double>(end - sorted.begin()) / static_cast<double>(sorted.size());
}

struct Lengths {
    const char* what;
    std::vector<double> sorted;

    double at(double share) const {
        const auto i = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
        return sorted[i];
    }
    double mean() const {
        double sum = 0;
        for (const double length : sorted) sum += length;
        return sum / static_cast<double>(sorted.size());
    }
};

base::Status write_lengths(ExperimentSession& session, ExperimentPage& page) {
    const std::vector<sim::RequestLength>& rows = session.data().lengths().rows();
    Lengths all[2] = {{"prompt", {}}, {"answer", {}}};
    for (const sim::RequestLength& row : rows) {
        all[0].sorted.push_back(row.prompt_tokens);
        all[1].sorted.push_back(row.output_tokens);
    }
    ExperimentTable table;
    table.title = fmt::format("Tokens of {} requests", rows.size());
    table.head = {"", "mean", "shortest", "p25", "p50", "p75", "p95", "longest"};
    view::ShareChart chart;
    chart.title = "Lengths of requests";
    chart.unit = "tokens";
    for (Lengths& lengths : all) {
        std::sort(lengths.sorted.begin(), lengths.sorted.end());
        std::vector<std::string> row = {lengths.what, cell(lengths.mean(), 1)};
        for (const double share : {0.0, 0.25, 0.5, 0.75, 0.95, 1.0}) {
            row.push_back(cell(lengths.at(share), 0));
        }
        table.rows.push_back(std::move(row));
        view::ShareChart::Series series{lengths.what, {}};
        const double longest = lengths.sorted.back();
        constexpr int kPoints = 128;
        for (int i = 0; i <= kPoints; ++i) {
            const double limit = longest * i / kPoints;
            series.points.emplace_back(limit, share_at_most(lengths.sorted, limit));
        }
        chart.series.push_back(std::move(series));
    }
    page.table(std::move(table));
    page.shares("lengths", chart);
    return base::Ok{};
}

base::Status nothing_to_run(ExperimentSession& /*session*/, int /*round*/) {
    return base::Ok{};
}

}  // namespace

Experiment machines_experiment() {
    return {"machines", "Machines that a model needs", nothing_to_run, write_machines};
}

Experiment lengths_experiment() {
    return {"lengths", "How long requests are", nothing_to_run, write_lengths};
}

}  // namespace helix::lab
