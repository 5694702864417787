#include "sim/faults/faulty_carrier.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace helix::sim {
namespace {

constexpr double kHeaderBytes = 64;
constexpr double kKvHeaderBytes = 256;
constexpr double kSecondCopySeconds = 0.02;  // after the first of a message that comes twice

}  // namespace

FaultyCarrier::FaultyCarrier(const Config& config, VirtualClock& clock, Probes& probes)
    : config_(config),
      clock_(clock),
      probes_(probes),
      network_(config.seed, config.latency_s, config.bytes_per_s) {}

FaultyCarrier::Kind FaultyCarrier::kind_of(const SimMessage& message) {
    const auto to_worker = base::Overloaded{
        [](const core::AssignLayers&) { return Kind::assign; },
        [](const core::StageInputs&) { return Kind::rows; },
        [](const core::FreeSequences&) { return Kind::free; },
        [](const core::ForkSequences&) { return Kind::fork; },
        [](const core::SwapSequences&) { return Kind::swap; },
        [](const base::OneOf<core::ReserveKv, core::SendKv, core::KvBlocks> auto&) {
            return Kind::kv;
        },
    };
    const auto to_coordinator = base::Overloaded{
        [](const core::TokensProduced&) { return Kind::tokens; },
        [](const core::SequenceStuck&) { return Kind::stuck; },
        [](const base::OneOf<core::WorkerReport, core::StageTimes> auto&) { return Kind::report; },
        [](const base::OneOf<core::KvReserved, core::KvArrived, core::KvRefused> auto&) {
            return Kind::kv;
        },
        [](const base::OneOf<core::LayersReady, core::LayersFailed, core::PeerLost> auto&) {
            return Kind::ready;
        },
    };
    return std::visit(
        base::Overloaded{
            [&](const core::WorkerMessage& one) { return std::visit(to_worker, one); },
            [&](const core::CoordinatorMessage& one) { return std::visit(to_coordinator, one); },
        },
        message.content);
}

// Only rows that travel between workers are large. KV was paced by its sender: what then goes over
// the link is small.
double FaultyCarrier::bytes_of(const SimMessage& message) const {
    const auto* between = std::get_if<core::WorkerMessage>(&message.content);
    if (between == nullptr || message.from == spec::kCoordinator) return kHeaderBytes;
    const auto* inputs = std::get_if<core::StageInputs>(between);
    if (inputs == nullptr) return kKvHeaderBytes;
    return static_cast<double>(message.payload.size()) * config_.activation_bytes +
           kHeaderBytes * static_cast<double>(inputs->inputs.size());
}

void FaultyCarrier::send(const SimMessage& message, Kind kind) {
    send(message.from, message.to, bytes_of(message), kind,
         [this, message] { receive_(SimMessage(message)); });
}

void FaultyCarrier::send(std::int32_t from, std::int32_t to, double bytes, Kind kind,
                         std::function<void()> deliver) {
    if (postman_) {
        static constexpr const char* kWords[] = {"assignment", "rows",   "free", "tokens", "ready",
                                                 "stuck",      "report", "fork", "swap",   "KV"};
        const Fate fate = postman_({++letters_, from, to, kWords[static_cast<std::size_t>(kind)]});
        if (fate.lost) return;
        if (fate.late_s > 0) return clock_.after(config_.latency_s + fate.late_s, deliver);
        if (fate.twice) clock_.after(config_.latency_s + kSecondCopySeconds, deliver);
    }
    const std::int64_t lost = network_.lost();
    std::vector<FaultNetwork::Arrival> arrivals =
        network_.send(clock_.now(), from, to, bytes, std::move(deliver));
    struct Names {
        Probe lost;
        Probe twice;
    };
    static constexpr Names kNames[] = {
        {Probe::assignment_lost, Probe::assignment_duplicated},
        {Probe::rows_lost, Probe::rows_duplicated},
        {Probe::free_lost, Probe::free_duplicated},
        {Probe::tokens_lost, Probe::tokens_duplicated},
        {Probe::ready_lost, Probe::ready_duplicated},
        {Probe::stuck_message_lost, Probe::count_},
        {Probe::report_lost, Probe::count_},
        {Probe::fork_lost, Probe::fork_duplicated},
        {Probe::swap_lost, Probe::swap_duplicated},
        {Probe::kv_lost, Probe::kv_duplicated},
    };
    const Names& names = kNames[static_cast<std::size_t>(kind)];
    if (network_.lost() > lost) probes_.hit(names.lost);
    if (arrivals.size() == 2 && names.twice != Probe::count_) probes_.hit(names.twice);
    release(std::move(arrivals));
}

void FaultyCarrier::mend(std::int32_t from, std::int32_t to) {
    std::vector<FaultNetwork::Arrival> arrivals = network_.mend(clock_.now(), from, to);
    if (!arrivals.empty()) probes_.hit(Probe::held_back_then_delivered);
    release(std::move(arrivals));
}

void FaultyCarrier::release(std::vector<FaultNetwork::Arrival> arrivals) {
    for (FaultNetwork::Arrival& arrival : arrivals) {
        clock_.at(arrival.when, std::move(arrival.deliver));
    }
}

}  // namespace helix::sim
