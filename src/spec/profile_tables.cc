#include "spec/profile_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "spec/csv_table.h"
#include "spec/json_place.h"
#include "spec/model_shape.h"
#include "spec/text_file.h"

namespace helix::spec {
namespace {

base::Result<TimeCurve> read_curve(const std::string& path) {
    TRY(const CsvTable table, CsvTable::read(path, {"batch_tokens", "one_layer_time_ms"}));
    std::vector<double> x;
    std::vector<double> y;
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        TRY(const double tokens, table.number(row, 0));
        TRY(const double ms, table.number(row, 1));
        if (!x.empty() && tokens <= x.back()) {
            return table.complaint(
                row, fmt::format("batch_tokens must rise, but {} follows {}", tokens, x.back()));
        }
        x.push_back(tokens);
        y.push_back(ms * 1e-3);  // converted as in the published simulator, to the last bit
    }
    if (x.size() < 2) return base::invalid(path + ": expected at least two measured points");
    return TimeCurve(std::move(x), std::move(y));
}

base::Result<ModelSpec> read_model(const std::string& path, const std::string& name) {
    TRY(const std::string text, read_text_file(path));
    TRY(const nlohmann::json document, parse_json(text, path));
    const JsonPlace root(document, path);
    TRY(const JsonPlace model, root.member(name.c_str()));
    const auto count = [&](const char* key, std::int64_t below) -> base::Result<std::int64_t> {
        TRY(const JsonPlace place, model.member(key));
        TRY(const std::int64_t value, place.integer());
        if (value <= 0 || value >= below) return place.error("a whole number above 0");
        return value;
    };
    ModelSpec spec;
    spec.name = name;
    TRY(const std::int64_t n_layers, count("num_layers", 100'000));
    spec.n_layers = static_cast<std::int32_t>(n_layers);
    TRY(spec.layer_bytes, count("layer_param_bytes", std::int64_t{1} << 50));
    TRY(spec.token_bytes, count("token_bytes", 1'000'000));
    TRY(spec.activation_bytes_per_token,
        count("activation_bytes_per_token", std::int64_t{1} << 40));
    if (const auto shape = find_model_shape(name); shape.ok()) {
        const ModelSpec known = model_spec(*shape, WeightFormat::f16);
        spec.kv_bytes_per_token_layer = known.kv_bytes_per_token_layer;
        if (known.n_layers == spec.n_layers) spec.window = known.window;
        spec.flops_per_token_layer = known.flops_per_token_layer;
        spec.context_length = known.context_length;
    }
    return spec;
}

// For each type its held[] and the most layers that it may hold.
using Limits =
    std::map<std::string, std::pair<std::int32_t, std::vector<ProfileTables::HeldLayers>>>;

base::Result<Limits> read_limits(const std::string& path) {
    TRY(const CsvTable table,
        CsvTable::read(path, {"machine_type", "num_layers", "max_num_layers_of_type",
                              "kv_tokens_per_layer", "prompt_max_tokens", "decode_max_tokens"}));
    Limits limits;
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        TRY(const double layers, table.number(row, 1));
        TRY(const double most, table.number(row, 2));
        ProfileTables::HeldLayers held;
        TRY(held.kv_tokens_per_layer, table.number(row, 3));
        TRY(held.prompt_max_tokens, table.number(row, 4));
        TRY(held.decode_max_tokens, table.number(row, 5));
        auto& [max_layers, by_layers] = limits[table.text(row, 0)];
        if (by_layers.empty()) by_layers.emplace_back();
        if (layers != static_cast<double>(by_layers.size())) {
            return table.complaint(row, fmt::format("{}: expected the row for {} layers, found {}",
                                                    table.text(row, 0), by_layers.size(), layers));
        }
        if (most < 1 || most > 1e5) {
            return table.complaint(
                row, fmt::format("max_num_layers_of_type: expected 1 to 100000, found {}", most));
        }
        max_layers = static_cast<std::int32_t>(most);
        by_layers.push_back(held);
    }
    for (auto& [type, limit] : limits) {
        const auto rows = static_cast<std::size_t>(limit.first) + 1;
        if (limit.second.size() < rows) {
            return base::invalid(fmt::format("{}: {}: may hold {} layers, but the rows end at {}",
                                             path, type, limit.first, limit.second.size() - 1));
        }
        limit.second.resize(rows);
    }
    return limits;
}

}  // namespace

TimeCurve::TimeCurve(std::vector<double> x, std::vector<double> y)
    : x_(std::move(x)), y_(std::move(y)) {
    CHECK(x_.size() >= 2 && x_.size() == y_.size());
}

double TimeCurve::at(double x) const {
    const auto after = std::upper_bound(x_.begin() + 1, x_.end() - 1, x);
    const auto k = static_cast<std::size_t>(after - x_.begin());
    const double slope = (y_[k] - y_[k - 1]) / (x_[k] - x_[k - 1]);
    return std::max(0.0, y_[k - 1] + slope * (x - x_[k - 1]));
}

base::Result<ProfileTables> ProfileTables::read(const std::string& directory,
                                                const std::string& model) {
    ProfileTables tables;
    TRY(tables.model_, read_model(directory + "/models.json", model));
    TRY(const Limits limits, read_limits(fmt::format("{}/{}_limits.csv", directory, model)));
    for (const auto& [type, limit] : limits) {
        const std::string stem = fmt::format("{}/{}_{}_", directory, model, type);
        TRY(TimeCurve prompt_s, read_curve(stem + "prompt_time.csv"));
        TRY(TimeCurve decode_s, read_curve(stem + "decode_time.csv"));
        tables.machines_.emplace(
            type, Machine{std::move(prompt_s), std::move(decode_s), limit.first, limit.second});
    }
    return tables;
}

base::Status ProfileTables::check(const ClusterSpec& cluster) const {
    for (const NodeSpec& node : cluster.nodes) {
        if (machines_.contains(node.type)) continue;
        std::string known;
        for (const auto& [type, machine] : machines_) known += (known.empty() ? "" : ", ") + type;
        return base::invalid(
            fmt::format("node {}: there are no measured tables for type \"{}\" with {}; known: {}",
                        node.name, node.type, model_.name, known));
    }
    return base::Ok{};
}

std::int64_t ProfileTables::Machine::kv_token_layers(std::int32_t layers) const {
    CHECK(layers > 0 && max_layers > 0);
    const auto known = [&](std::int32_t j) {
        return std::llround(held[static_cast<std::size_t>(j)].kv_tokens_per_layer) * j;
    };
    if (layers <= max_layers) return known(layers);
    const std::int64_t last = known(max_layers);
    const std::int64_t lost = max_layers > 1 ? known(max_layers - 1) - last : 0;
    return std::max<std::int64_t>(last - lost * (layers - max_layers),
                                  kLeastKvBeyondTables * layers);
}

double ProfileTables::layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                              std::int32_t prefill_tokens) const {
    const auto found = machines_.find(node.type);
    CHECK(found != machines_.end());
    double seconds = 0;
    if (decode_seqs > 0) seconds += found->second.decode_s.at(decode_seqs);
    if (prefill_tokens > 0) seconds += found->second.prompt_s.at(prefill_tokens);
    return seconds;
}

base::Result<TypeThroughput> read_node_throughput(const std::string& directory,
                                                  const std::string& model,
                                                  const std::string& mix) {
    const std::string path = fmt::format("{}/{}_node_throughput.csv", directory, model);
    TRY(const CsvTable table,
        CsvTable::read(path, {"machine_mix", "machine_type", "num_layers", "T_j_tokens_per_s"}));
    TypeThroughput throughput;
    std::set<std::string> mixes;
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        mixes.insert(table.text(row, 0));
        if (table.text(row, 0) != mix) continue;
        TRY(const double layers, table.number(row, 2));
        TRY(const double tokens_per_s, table.number(row, 3));
        std::vector<double>& by_layers = throughput[table.text(row, 1)];
        if (by_layers.empty()) by_layers.push_back(0);
        if (layers != static_cast<double>(by_layers.size())) {
            return table.complaint(
                row, fmt::format("{} {}: expected the row for {} layers, found {}", mix,
                                 table.text(row, 1), by_layers.size(), layers));
        }
        by_layers.push_back(tokens_per_s);
    }
    if (throughput.empty()) {
        return base::Error{base::Errc::not_found,
                           fmt::format("{}: has no machine mix \"{}\"; known: {}", path, mix,
                                       fmt::join(mixes, ", "))};
    }
    return throughput;
}

}  // namespace helix::spec
