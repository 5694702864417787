#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/coordinator/beam_search.h"
#include "core/protocol/request.h"

namespace helix::core {

// One sequence of a group, which is a choice of parallel sampling or a running beam.
struct GroupMember {
    std::uint32_t number = 0;   // SequenceKey::member, which is the choice in parallel sampling
    std::vector<Token> output;  // what was streamed in parallel sampling
    // What follows holds for this attempt. sent counts the tokens, of prompt and output, whose rows
    // were sent for this member.
    std::int32_t sent = 0;        // prompt and output together
    std::int32_t parent = -1;     // whom it was forked from, until its first rows are sent
    std::int64_t rows_going = 0;  // rows sent that have not come back as a token
    TimePoint sent_at;
    // For a beam: the answer to the rows sent last, if it came.
    std::vector<spec::TokenLogprob> top;
};

// This is what the coordinator keeps of a request that takes several sequences. While it waits, and
// until its prompt has been computed, the workers have member 0 only, with the prompt; the others
// are forked from it then, and catch up on what they have put out in an earlier attempt.
struct SequenceGroup {
    std::vector<GroupMember>
        // Those that have not ended, by rising number; beams with the best first.
        members;
    std::optional<Beams> beams;     // none: it is parallel sampling
    std::uint32_t next_number = 0;  // the number of the next beam in this attempt
    bool forked = false;            // the prompt has been computed in this attempt

    explicit SequenceGroup(const Request& request);
    GroupMember* find(std::uint32_t number);
    const GroupMember* find(std::uint32_t number) const;
    // Returns how many sequences the request has, or may come to have, at once.
    std::int64_t sequences(const Request& request) const;
    std::size_t longest_output() const;
    // A new attempt begins: nothing has been sent but the prompt, for member 0.
    void restart(const Request& request);
};

}  // namespace helix::core
