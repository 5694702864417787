#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/protocol/types.h"
#include "spec/cluster_spec.h"

namespace helix::core {

// Decides who gives a worker a tensor of the served model: the coordinator, or another worker that
// has it. The aim is that the coordinator sends each tensor once, however many workers hold the
// same layers: a worker that asks for what is on its way to another one waits for that, and then
// has it from there. Ties go to the lower worker id, so equal histories give equal answers.
//
// Links are compared as they were measured. A worker neither waits for one that the coordinator
// reaches much more slowly, nor is sent to one that reaches it much more slowly than the
// coordinator does. For what comes over a link that is not measured yet nobody waits but for a
// moment.
class TensorHolders {
  public:
    enum class Source : std::uint8_t { coordinator, peer, wait };
    struct Answer {
        Source source = Source::coordinator;
        WorkerId peer;  // of Source::peer
        bool operator==(const Answer&) const = default;
    };
    // The answer to a worker that waited.
    struct Told {
        WorkerId worker;
        std::int32_t tensor = 0;
        Answer answer;
        bool operator==(const Told&) const = default;
    };

    // What was measured of links; node indices are worker ids or spec::kCoordinator.
    void on_links(std::span<const spec::LinkSpec> links);
    // The worker has these tensors now, in addition to what it said before. shared: others may ask
    // it for them, and for all that it will get.
    void on_ready(WorkerId worker, std::span<const std::int32_t> tensors, bool shared);
    void on_lost(WorkerId worker);

    // A worker begins to ask for a tensor; what it asked for before is over. failed: the worker
    // that it was sent to did not give it. It is then not sent there again, and the coordinator
    // serves.
    Answer ask(TimePoint now, WorkerId worker, std::int32_t tensor,
               std::optional<WorkerId> failed = {});
    // The worker asks for more of a tensor. Nothing: it has not begun to.
    std::optional<Source> ask_more(TimePoint now, WorkerId worker, std::int32_t tensor);
    // Answers those who need not wait any longer. To be called after each of the calls above, and
    // from time to time.
    std::vector<Told> settle(TimePoint now);

    // Transfers that one worker is asked for at a time.
    static constexpr std::size_t kMostTransfers = 2;
    // A worker that gets a tensor from the coordinator, and has asked for no more of it for as
    // long, is not waited for; nor is one that was sent elsewhere as long ago.
    static constexpr Duration kStuckAfter = base::from_ms(15'000);
    // How long a worker waits for what comes over a link that is not measured yet.
    static constexpr Duration kMoment = base::from_ms(2'000);
    // A transfer between workers, of whose progress nothing is heard, counts as over after as long.
    static constexpr Duration kOverAfter = base::from_ms(60'000);
    // No link of that many bytes per second is too slow; below, one is that has less than a quarter
    // of the other.
    static constexpr double kFastEnough = 12.5e6;
    static constexpr double kMuchSlower = 4;

  private:
    struct Asking {
        std::int32_t tensor = 0;
        Answer answer;
        TimePoint began;
        TimePoint heard;
    };
    struct State {
        std::set<std::int32_t> tensors;
        bool shares = false;
        std::optional<Asking> asking;
    };

    using Link = std::pair<std::int32_t, std::int32_t>;  // from, to

    Answer choose(TimePoint now, WorkerId worker, const Asking& asking) const;
    bool may_give(WorkerId giver, WorkerId worker) const;
    bool may_wait_for(TimePoint now, WorkerId giver, WorkerId worker, const Asking& asking) const;
    bool is_about_to_have(TimePoint now, const State& state, std::int32_t tensor) const;
    std::size_t transfers_from(TimePoint now, WorkerId giver) const;
    // Nothing: one of them was not measured.
    std::optional<bool> is_much_slower(Link link, Link than) const;

    std::map<WorkerId, State> workers_;
    std::set<std::pair<WorkerId, WorkerId>> failed_;  // who asked, who did not give
    std::map<Link, double> bytes_per_s_;
};

}  // namespace helix::core
