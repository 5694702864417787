#include "sim/faults/probes.h"

namespace helix::sim {
namespace {

constexpr std::array<const char*, kProbes> kNames{
    "preempted",
    "preempted while cut",
    "finished after preemption",
    "stuck then finished",
    "stuck message lost",
    "tokens lost",
    "tokens duplicated",
    "token of ended request ignored",
    "token of older attempt ignored",
    "duplicate token ignored",
    "assignment lost",
    "assignment duplicated",
    "assignment resent",
    "ready lost",
    "ready duplicated",
    "rows lost",
    "rows duplicated",
    "free lost",
    "free duplicated",
    "report lost",
    "fork lost",
    "fork duplicated",
    "swap lost",
    "swap duplicated",
    "KV lost",
    "KV duplicated",
    "migrated",
    "migrated while cut",
    "migration given up",
    "handed over",
    "group handed over",
    "hand-over given up",
    "handed over after a recompute",
    "roles not kept",
    "source lost while reserving",
    "source lost while copying",
    "source lost in the last round",
    "destination lost while reserving",
    "destination lost while copying",
    "destination lost in the last round",
    "worker of both pipelines lost while reserving",
    "worker of both pipelines lost while copying",
    "worker of both pipelines lost in the last round",
    "given up while reserving",
    "given up while copying",
    "given up in the last round",
    "given up: refused by a worker",
    "given up: no answer",
    "given up: held too long",
    "given up: worker lost",
    "given up: link broke",
    "given up: pages needed",
    "given up: destination drained",
    "given up: a choice ended",
    "given up: preempted",
    "given up: left its pipeline",
    "move refused",
    "migrated on a shared worker",
    "group migrated",
    "beams migrated",
    "migrated five times",
    "KV came after its commit",
    "KV came of a move that was given up",
    "parcel orphaned",
    "KV lost after its commit",
    "drained",
    "drain refused",
    "drain called off",
    "removed",
    "swapped out",
    "swapped in",
    "choice finished",
    "stray freed",
    "old incarnation refused",
    "old hello ignored",
    "hello refused while old one counts",
    "restart noticed by hello",
    "lost by silence",
    "lost while alive",
    "lost while paused",
    "lost while loading",
    "rejoined after false loss",
    "rows for a newer incarnation",
    "resumed with a full inbox",
    "held back then delivered",
    "link came back",
    "link told down",
    "placement replaced while serving",
    "cancelled while waiting",
    "cancelled while running",
    "failed over",
    "error stalled",
    "error unserved",
    "rejected queue full",
    "rejected too long",
    "rejected never fits",
    "rejected unavailable",
    "ended by stop token",
    "coordinator killed while it served",
    "coordinator killed while a request moved",
    "coordinator killed while a worker loaded",
    "coordinator killed while a worker was drained",
    "drained as before the coordinator's restart",
    "drained as before it was lost",
    "coordinator killed while the network was cut",
    "a worker missed the coordinator",
    "the coordinator was back before a worker missed it",
    "rows of an older coordinator came",
    "a request found no coordinator",
    "a placement was taken up again",
    "a liar was cut off",
    "a worker died of a request",
    "a request ended that workers died of",
    "a request went on where it ran under another coordinator",
};
static_assert(kNames.back() != nullptr, "each probe has a name");

}  // namespace

void Probes::add(const Probes& other) {
    for (std::size_t i = 0; i < kProbes; ++i) counts_[i] += other.counts_[i];
}

std::vector<std::string> Probes::unreached() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kProbes; ++i) {
        if (counts_[i] == 0) names.emplace_back(kNames[i]);
    }
    return names;
}

const char* name_of(Probe probe) {
    return kNames.at(static_cast<std::size_t>(probe));
}

}  // namespace helix::sim
