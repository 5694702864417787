// KV that moves between workers.

#include <utility>

#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kKvHeaderBytes = 256;
constexpr double kImportSeconds = 0.0005;

}  // namespace

// Takes its time at the configured rate, or, where a request waits for it, at that of the link,
// beside the rows: what then goes over the link is small.
void FaultyCluster::export_kv(Machine& machine, const core::ExportKv& action) {
    const double seconds = static_cast<double>(action.pages.size()) * config_.kv_page_bytes /
                           (action.held ? config_.link_bytes_per_s : config_.migration_bytes_per_s);
    after(seconds, [this, id = machine.id, incarnation = machine.incarnation, action,
                    content = machine.engine->read_pages(action.pages)] {
        Machine& from = *machines_.at(id);
        if (from.alive && from.incarnation == incarnation) end_export(from, action, content);
    });
}

void FaultyCluster::end_export(Machine& machine, const core::ExportKv& action,
                               const ToyRows& content) {
    if (machine.engine->read_pages(action.pages) != content) {
        check_sound("pages of KV were written while they were sent");
    }
    const std::uint64_t incarnation = machines_.at(action.to)->incarnation;
    send(vertex(machine.id), vertex(action.to), kKvHeaderBytes, Kind::kv,
         [this, to = action.to, incarnation, message = action.message, content] {
             deliver_kv(to, incarnation, message, content);
         });
    worker_event(machine.id, machine.incarnation, core::KvExported{action.transfer});
}

void FaultyCluster::deliver_kv(core::WorkerId to, std::uint64_t incarnation, core::KvBlocks message,
                               ToyRows content) {
    Machine& machine = *machines_.at(to);
    probe_kv(message);
    if (!machine.alive || !machine.welcome) return;
    if (machine.incarnation != incarnation && !config_.peers_keep_address) return;
    message.payload.buffer = machine.next_buffer++;
    machine.buffers[message.payload.buffer] = std::move(content);
    worker_event(to, machine.incarnation, core::MessageArrived{std::move(message)});
}

void FaultyCluster::import_kv(Machine& machine, const core::ImportKv& action) {
    const auto size = static_cast<std::size_t>(config_.worker.block_size);
    const ToyRows& frame = machine.buffers.at(action.buffer);
    if (frame.size() != action.frame_pages * size) {
        return check_sound("KV of another number of pages came");
    }
    ToyRows content;
    for (const std::uint32_t which : action.content) {
        const auto first = frame.begin() + static_cast<std::ptrdiff_t>(which * size);
        content.insert(content.end(), first, first + config_.worker.block_size);
    }
    after(kImportSeconds, [this, id = machine.id, incarnation = machine.incarnation, action,
                           content = std::move(content)] {
        Machine& at = *machines_.at(id);
        if (!at.alive || at.incarnation != incarnation) return;
        at.engine->write_pages(action.pages, content);
        worker_event(id, incarnation, core::KvImported{action.transfer});
    });
}

}  // namespace helix::sim
