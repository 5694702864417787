#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"

namespace helix::core {

// Returns the tokens of the prompt.
inline std::int32_t prompt_tokens(const RequestState& state) {
    return static_cast<std::int32_t>(state.request.prompt.size());
}
inline SequenceKey key_of(const RequestState& state, std::uint32_t member) {
    return {state.request.id, state.attempt, member};
}

// StageSender sends what goes to the stages of a running request: its rows, and words to all of
// them.
class StageSender {
  public:
    StageSender(Outbox& out, const Fleet& fleet, const Placements& placements)
        : out_(out), fleet_(fleet), placements_(placements) {}

    void going(RequestState& state, std::int64_t rows);  // tells the router of rows sent
    void member_going(TimePoint now, RequestState& state, GroupMember& member, std::int64_t rows);
    void to_stages(const RequestState& state, const WorkerMessage& message) const;
    static std::vector<SequenceKey> keys_at_workers(const RequestState& state);
    // Returns how the workers are told to sample: beams are drawn from log-probabilities.
    static spec::SamplingParams sampling_of(const RequestState& state);
    StageInput& send_member(TimePoint now, RequestState& state, GroupMember& member);

    // The rows that were sent into pipelines so far, for each link that these lead over; ends are
    // worker ids. Links of workers that are not here are forgotten.
    using LinkEnds = std::pair<std::int32_t, std::int32_t>;
    std::map<LinkEnds, std::int64_t> link_rows() const;
    void forget(WorkerId worker);

  private:
    struct LinkCount {
        LinkEnds ends;
        std::int64_t rows = 0;
    };
    void count(const RequestState& state, std::int64_t rows);
    void count(std::int32_t from, std::int32_t to, std::int64_t rows);

    Outbox& out_;
    const Fleet& fleet_;
    const Placements& placements_;
    std::vector<LinkCount> links_;
    base::IdMap<std::size_t> link_at_;  // in links_, by the ends
};

}  // namespace helix::core
