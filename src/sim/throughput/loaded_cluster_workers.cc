// What the workers ask for, and how long it takes.

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/throughput/loaded_cluster.h"

namespace helix::sim {

void LoadedCluster::perform(std::uint32_t w, core::WorkerAction& action) {
    if (const auto* batch = std::get_if<core::RunBatch>(&action)) {
        start_batch(w, batch->plan);
    } else if (auto* peer = std::get_if<core::SendToPeer>(&action)) {
        send_to_peer(w, *peer);
    } else if (auto* out = std::get_if<core::SendToCoordinator>(&action)) {
        send_to_coordinator(w, *out);
    } else if (const auto* load = std::get_if<core::LoadLayers>(&action)) {
        load_layers(w, load->epoch);
    } else if (auto* kv_out = std::get_if<core::ExportKv>(&action)) {
        start_export(w, std::move(*kv_out));
    } else if (const auto* kv_in = std::get_if<core::ImportKv>(&action)) {
        step_worker(w, core::KvImported{kv_in->transfer});
    } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
        at(wake->at, Event::Kind::worker_wakes, w);
    }  // ConnectPeers, ReleaseBuffer: there is nothing to connect or to hold
}

double loading_s(const HelixSetup& setup, std::size_t node) {
    if (node >= setup.disk_bytes_per_s.size() || setup.disk_bytes_per_s[node] <= 0) return 0;
    const spec::LayerRange layers = setup.placement.layers[node];
    double bytes = static_cast<double>(setup.model.layer_bytes) * layers.size();
    if (layers.empty()) return 0;
    if (layers.begin == 0) bytes += static_cast<double>(setup.model.embedding_bytes);
    if (layers.end == setup.model.n_layers) bytes += static_cast<double>(setup.model.head_bytes);
    return bytes / setup.disk_bytes_per_s[node];
}

void LoadedCluster::load_layers(std::uint32_t w, std::uint64_t epoch) {
    Machine& machine = machines_[w];
    machine.loading = epoch;
    const double seconds = loading_s(setup_, static_cast<std::size_t>(machine.node));
    machine.loaded_at = now_ + base::from_seconds(seconds);
    if (seconds > 0) return at(machine.loaded_at, Event::Kind::loaded, w);
    step_worker(w, core::LayersLoaded{epoch, machine.pages, 0, kKvFormat});
}

void LoadedCluster::send_to_peer(std::uint32_t w, core::SendToPeer& action) {
    Machine& to = machines_[action.peer.value];
    const std::uint64_t buffer = to.next_buffer++;
    std::uint32_t rows = 0;
    for (core::StageInput& input : action.inputs.inputs) {
        input.payload.buffer = buffer;
        input.payload.first_row = rows;
        rows += input.payload.rows;
    }
    const double bytes = kHeaderBytes * static_cast<double>(1 + action.inputs.inputs.size()) +
                         rows * static_cast<double>(setup_.model.activation_bytes_per_token +
                                                    setup_.model.token_bytes);
    post(Event::Kind::to_worker, {action.peer.value,
                                  core::WorkerMessage{std::move(action.inputs)},
                                  machines_[w].node,
                                  to.node,
                                  bytes,
                                  {},
                                  {}});
}

void LoadedCluster::send_to_coordinator(std::uint32_t w, core::SendToCoordinator& action) {
    Machine& machine = machines_[w];
    double bytes = kHeaderBytes;
    if (const auto* tokens = std::get_if<core::TokensProduced>(&action.message)) {
        bytes += static_cast<double>(tokens->tokens.size()) *
                 (kHeaderBytes + static_cast<double>(setup_.model.token_bytes));
    } else if (const auto* said = std::get_if<core::WorkerReport>(&action.message)) {
        if (said->total_pages > 0) {
            if (setup_.observer != nullptr) {
                setup_.observer->kv_used(machine.node, now_, static_cast<double>(said->used_pages));
            }
            machine.kv_peak = std::max(machine.kv_peak, static_cast<double>(said->used_pages) /
                                                            static_cast<double>(said->total_pages));
        }
    }
    post(Event::Kind::to_coordinator,
         {w, std::move(action.message), machine.node, spec::kCoordinator, bytes, {}, {}});
}

// Half of the link is for KV that moves, beside the rows; its message then takes the other half's
// way.
void LoadedCluster::start_export(std::uint32_t w, core::ExportKv action) {
    Machine& machine = machines_[w];
    const std::int32_t to = machines_[action.to.value].node;
    double bytes_per_s = setup_.migration_bytes_per_s;
    for (const spec::LinkSpec& link : setup_.cluster->links) {
        if (link.from == machine.node && link.to == to && link.bandwidth_bytes_per_s > 0) {
            bytes_per_s = std::min(bytes_per_s, link.bandwidth_bytes_per_s / 2);
        }
    }
    const double bytes = static_cast<double>(action.pages.size()) *
                         static_cast<double>(setup_.model.kv_bytes_per_token_layer) *
                         setup_.worker.block_size;
    const TimePoint end = now_ + base::from_seconds(bytes / bytes_per_s);
    machine.exporting.emplace(end, std::move(action));
    at(end, Event::Kind::kv_exported, w);
}

void LoadedCluster::end_export(std::uint32_t w) {
    auto& exporting = machines_[w].exporting;
    core::ExportKv done = std::move(exporting.begin()->second);
    exporting.erase(exporting.begin());
    Machine& to = machines_[done.to.value];
    done.message.payload.buffer = to.next_buffer++;
    post(Event::Kind::to_worker, {done.to.value,
                                  core::WorkerMessage{std::move(done.message)},
                                  machines_[w].node,
                                  to.node,
                                  kHeaderBytes,
                                  {},
                                  {}});
    step_worker(w, core::KvExported{done.transfer});
}

namespace {

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

void LoadedCluster::start_batch(std::uint32_t w, const core::BatchPlan& plan) {
    Machine& machine = machines_[w];
    const double seconds = batch_s(machine, plan);
    machine.running = {};
    machine.running.id = plan.id;
    machine.running.took = base::from_seconds(seconds);
    for (const core::BatchChunk& chunk : plan.chunks) {
        if (chunk.sample) add_tokens(chunk, machine.running.tokens);
        std::int32_t position = chunk.first_position;
        for (const core::Token token : chunk.scored)
            machine.running.scored.push_back({chunk.key, ++position, token, 0, {}});
    }
    const TimePoint end = now_ + machine.running.took;
    const TimePoint from = std::max(now_, window_begin_);
    const TimePoint until = std::min(end, window_end_);
    if (until > from) machine.busy_s += (until - from).seconds();
    at(end + wake(), Event::Kind::batch_done, w);
    if (setup_.observer != nullptr) note_batch(machine, plan, end);
}

base::Duration LoadedCluster::wake() {
    if (setup_.overheads.wake_s <= 0) return {};
    return base::from_seconds(setup_.overheads.wake_s * -std::log1p(-wakes_.uniform()));
}

double LoadedCluster::batch_s(Machine& machine, const core::BatchPlan& plan) const {
    const auto n_layers = static_cast<std::size_t>(machine.layers.size());
    machine.decodes.assign(n_layers + 1, 0);
    machine.prefills.assign(n_layers + 1, 0);
    double rows_total = 0;
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 + chunk.drafts && chunk.first_position > 0;
        std::vector<std::int32_t>& count = decode ? machine.decodes : machine.prefills;
        count[static_cast<std::size_t>(chunk.layers.begin - machine.layers.begin)] += rows;
        count[static_cast<std::size_t>(chunk.layers.end - machine.layers.begin)] -= rows;
        rows_total += rows;
    }
    const spec::NodeSpec& node = setup_.cluster->nodes[static_cast<std::size_t>(machine.node)];
    const auto pages_moved = plan.swap_out.size() + plan.swap_in.size() + plan.copies.size();
    const double page_bytes =
        static_cast<double>(setup_.model.kv_bytes_per_token_layer) * setup_.worker.block_size;
    double seconds = (rows_total * static_cast<double>(setup_.model.activation_bytes_per_token) +
                      static_cast<double>(pages_moved) * page_bytes) /
                     setup_.overheads.copy_bytes_per_s;
    double layer_s = 0;
    std::int32_t decodes = 0;
    std::int32_t prefills = 0;
    for (std::size_t l = 0; l < n_layers; ++l) {
        if (l == 0 || machine.decodes[l] != 0 || machine.prefills[l] != 0) {
            decodes += machine.decodes[l];
            prefills += machine.prefills[l];
            layer_s = decodes + prefills > 0 ? setup_.costs->layer_s(node, decodes, prefills) : 0;
            if (decodes == 1 && setup_.overheads.lone_decode_doubles) {
                layer_s += setup_.costs->layer_s(node, 1, 0);
            }
        }
        seconds += layer_s;
    }
    return seconds;
}

}  // namespace helix::sim
