#include "sim/throughput/costed_compute.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace helix::sim {
namespace {

constexpr const char* kKvFormat = "modelled";  // of all pages alike

void add_tokens(const core::BatchChunk& chunk, std::vector<core::ProducedToken>& tokens) {
    const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
    core::SequenceKey key = chunk.key;
    for (std::int32_t row = rows - 1 - chunk.drafts; row < rows; ++row) {
        for (std::int32_t draw = 0; draw < chunk.draws; ++draw) {
            if (chunk.draws > 1) key.member = static_cast<std::uint32_t>(draw);
            tokens.push_back({key, chunk.first_position + row + 1, kAnyToken, 0, {}});
        }
        if (row + 1 < rows && chunk.tokens[static_cast<std::size_t>(row) + 1] != kAnyToken) return;
    }
}

}  // namespace

CostedCompute::CostedCompute(Config config)
    : config_(std::move(config)), wakes_(config_.overheads.wake_seed) {}

double CostedCompute::page_bytes() const {
    return static_cast<double>(config_.model.kv_bytes_per_token_layer) * config_.block_size;
}

Compute::Loading CostedCompute::load(const SimMachine& machine, const core::LoadLayers& action) {
    if (layers_.size() <= machine.id.value) layers_.resize(machine.id.value + 1);
    layers_[machine.id.value] = action.layers;
    few_.resize(layers_.size());
    few_[machine.id.value].fill(-1);
    Loading loading{{action.epoch, machine.kv_pages, 0, kKvFormat}, {}};
    const double seconds = config_.load_s[static_cast<std::size_t>(machine.vertex)];
    if (seconds > 0) loading.seconds = seconds;
    return loading;
}

Compute::Run CostedCompute::run(const SimMachine& machine, const core::BatchPlan& plan) {
    Run run;
    run.finished.id = plan.id;
    run.finished.took = base::from_seconds(batch_s(machine, plan));
    for (const core::BatchChunk& chunk : plan.chunks) {
        if (chunk.pooling != spec::Pooling::none) {
            run.finished.pooled.push_back({{}, {1.0F}});  // as made up as the tokens
        } else if (chunk.sample) {
            add_tokens(chunk, run.finished.tokens);
        }
        std::int32_t position = chunk.first_position;
        for (const core::Token token : chunk.scored)
            run.finished.scored.push_back({chunk.key, ++position, token, 0, {}});
    }
    const double wake_s = config_.overheads.wake_s;
    if (wake_s > 0) run.unseen = base::from_seconds(wake_s * -std::log1p(-wakes_.uniform()));
    return run;
}

// Models look the machine's type up by its name, and most batches of a large cluster are small.
double CostedCompute::layer_s(const SimMachine& machine, std::int32_t decodes,
                              std::int32_t prefills) {
    const bool few = prefills == 0 && decodes < static_cast<std::int32_t>(kFew);
    if (!few) return config_.costs->layer_s(machine.node, decodes, prefills);
    double& known = few_[machine.id.value][static_cast<std::size_t>(decodes)];
    if (known < 0) known = config_.costs->layer_s(machine.node, decodes, prefills);
    return known;
}

double CostedCompute::batch_s(const SimMachine& machine, const core::BatchPlan& plan) {
    const spec::LayerRange layers = layers_[machine.id.value];
    const auto n_layers = static_cast<std::size_t>(layers.size());
    decodes_.assign(n_layers + 1, 0);
    prefills_.assign(n_layers + 1, 0);
    double rows_total = 0;
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 + chunk.drafts && chunk.first_position > 0;
        std::vector<std::int32_t>& count = decode ? decodes_ : prefills_;
        count[static_cast<std::size_t>(chunk.layers.begin - layers.begin)] += rows;
        count[static_cast<std::size_t>(chunk.layers.end - layers.begin)] -= rows;
        rows_total += rows;
    }
    const auto pages_moved = plan.swap_out.size() + plan.swap_in.size() + plan.copies.size();
    double seconds = (rows_total * static_cast<double>(config_.model.activation_bytes_per_token) +
                      static_cast<double>(pages_moved) * page_bytes()) /
                     config_.overheads.copy_bytes_per_s;
    double layer_s = 0;
    std::int32_t decodes = 0;
    std::int32_t prefills = 0;
    for (std::size_t l = 0; l < n_layers; ++l) {
        if (l == 0 || decodes_[l] != 0 || prefills_[l] != 0) {
            decodes += decodes_[l];
            prefills += prefills_[l];
            layer_s = 0;
            if (decodes + prefills > 0) {
                layer_s = this->layer_s(machine, decodes, prefills);
            }
            if (decodes == 1 && config_.overheads.lone_decode_doubles) {
                layer_s += this->layer_s(machine, 1, 0);
            }
        }
        seconds += layer_s;
    }
    return seconds * machine.slow;
}

std::uint64_t CostedCompute::keep(const SimMachine& /*machine*/, Rows /*content*/) {
    return next_buffer_++;
}

double CostedCompute::link_bytes_per_s(std::int32_t from, std::int32_t to) const {
    const std::size_t n = config_.cluster->nodes.size();
    const auto at = [n](std::int32_t a, std::int32_t b) {
        return static_cast<std::size_t>(a) * n + static_cast<std::size_t>(b);
    };
    if (links_.empty()) {
        links_.resize(n * n);
        for (const spec::LinkSpec& link : config_.cluster->links) {
            if (link.from < 0 || link.to < 0 || link.bandwidth_bytes_per_s <= 0) continue;
            double& known = links_[at(link.from, link.to)];
            if (known == 0 || link.bandwidth_bytes_per_s < known) {
                known = link.bandwidth_bytes_per_s;
            }
        }
    }
    return links_[at(from, to)];
}

// Half of the link is for KV that moves, beside the rows; its message then takes the other half's
// way.
double CostedCompute::export_s(const SimMachine& machine, const SimMachine& to,
                               const core::ExportKv& action) const {
    double bytes_per_s = config_.migration_bytes_per_s;
    const double link = link_bytes_per_s(machine.vertex, to.vertex);
    if (link > 0) bytes_per_s = std::min(bytes_per_s, link / 2);
    return static_cast<double>(action.pages.size()) * page_bytes() / bytes_per_s;
}

}  // namespace helix::sim
