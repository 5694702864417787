#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/coordinator/beam_search.h"
#include "core/protocol/request.h"

namespace helix::core {

// One sequence of a group: a choice of parallel sampling or a running beam.
struct GroupMember {
    std::uint32_t number = 0;   // SequenceKey::member; of parallel sampling: the choice
    std::vector<Token> output;  // parallel sampling: what was streamed
    // In this attempt:
    std::int32_t sent = 0;        // tokens, prompt and output, whose rows were sent for it
    std::int32_t parent = -1;     // whom it was forked from, until its first rows are sent
    std::int64_t rows_going = 0;  // sent and not come back as a token
    TimePoint sent_at;
    std::vector<spec::TokenLogprob> top;  // beams: the answer to the rows sent last, if it came
};

// What the coordinator keeps of a request that takes several sequences. While it
// waits, and until its prompt has been computed, the workers have member 0 only, with the prompt;
// the others are forked from it then, and catch up on what they have put out in an earlier attempt.
struct SequenceGroup {
    std::vector<GroupMember>
        members;                 // those that have not ended, by rising number; beams: best first
    std::optional<Beams> beams;  // none: parallel sampling
    std::uint32_t next_number = 0;  // of beams, in this attempt
    bool forked = false;            // the prompt has been computed in this attempt

    explicit SequenceGroup(const Request& request);
    GroupMember* find(std::uint32_t number);
    // Sequences that it has, or may come to have, at once.
    std::int64_t sequences(const Request& request) const;
    std::size_t longest_output() const;
    // A new attempt begins: nothing has been sent but the prompt, for member 0.
    void restart(const Request& request);
};

}  // namespace helix::core
