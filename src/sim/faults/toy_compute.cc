#include "sim/faults/toy_compute.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace helix::sim {
namespace {

constexpr double kSlowestLoad = 4;  // times; a slow machine reads its weights a little slower
constexpr double kImportSeconds = 0.0005;

}  // namespace

void ToyCompute::start(const SimMachine& machine) {
    states_.insert_or_assign(machine.id,
                             State{ToyEngine(config_.block_size, config_.vocab, config_.window)});
}

void ToyCompute::stop(const SimMachine& machine) {
    states_.erase(machine.id);
}

Compute::Loading ToyCompute::load(const SimMachine& machine, const core::LoadLayers& action) {
    const std::int64_t pages = action.layers.empty() ? 0 : machine.kv_pages;
    const std::int64_t swap_pages = action.layers.empty() ? 0 : config_.swap_pages;
    state_of(machine).engine.load(action.layers, pages, swap_pages);
    const std::string format =
        "toy " + std::to_string(static_cast<std::int32_t>(machine.id.value) % config_.kv_formats);
    return {{action.epoch, pages, swap_pages, format, config_.kv_page_bytes,
             config_.migration_bytes_per_s},
            config_.load_s * std::min(machine.slow, kSlowestLoad)};
}

Compute::Run ToyCompute::run(const SimMachine& machine, const core::BatchPlan& plan) {
    State& state = state_of(machine);
    ToyEngine::Outcome outcome = state.engine.run(plan, state.buffers);
    state.buffers[plan.id] = std::move(outcome.output);
    const core::Duration took =
        base::from_seconds(batch_seconds(plan, machine.node, cost_) * machine.slow);
    return {{plan.id,
             std::move(outcome.tokens),
             took,
             {},
             std::move(outcome.scored),
             std::move(outcome.pooled)},
            {}};
}

std::uint64_t ToyCompute::keep(const SimMachine& machine, Rows content) {
    const std::uint64_t buffer = ++last_buffer_[machine.id];
    state_of(machine).buffers[buffer] = std::move(content);
    return buffer;
}

bool ToyCompute::release(const SimMachine& machine, std::uint64_t buffer) {
    return state_of(machine).buffers.erase(buffer) == 1;
}

void ToyCompute::append(const SimMachine& machine, const core::PayloadRef& payload, Rows& to) {
    const Rows& source = state_of(machine).buffers.at(payload.buffer);
    const auto first = source.begin() + payload.first_row;
    to.insert(to.end(), first, first + payload.rows);
}

Rows ToyCompute::read(const SimMachine& machine, std::span<const core::PageId> pages) {
    return state_of(machine).engine.read_pages(pages);
}

// At the configured rate, or, where a request waits for it, at that of the link, beside the rows.
double ToyCompute::export_s(const SimMachine& /*machine*/, const SimMachine& /*to*/,
                            const core::ExportKv& action) const {
    return static_cast<double>(action.pages.size()) * config_.kv_page_bytes /
           (action.held ? config_.link_bytes_per_s : config_.migration_bytes_per_s);
}

std::optional<Rows> ToyCompute::select(const SimMachine& machine, const core::ImportKv& action) {
    const auto size = static_cast<std::size_t>(config_.block_size);
    const Rows& frame = state_of(machine).buffers.at(action.buffer);
    if (frame.size() != action.frame_pages * size) return std::nullopt;
    Rows content;
    for (const std::uint32_t which : action.content) {
        const auto first = frame.begin() + static_cast<std::ptrdiff_t>(which * size);
        content.insert(content.end(), first, first + config_.block_size);
    }
    return content;
}

std::optional<double> ToyCompute::import_s() const {
    return kImportSeconds;
}

void ToyCompute::write(const SimMachine& machine, std::span<const core::PageId> pages,
                       const Rows& content) {
    state_of(machine).engine.write_pages(pages, content);
}

}  // namespace helix::sim
