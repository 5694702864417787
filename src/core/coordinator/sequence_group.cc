#include "core/coordinator/sequence_group.h"

#include <algorithm>

namespace helix::core {

SequenceGroup::SequenceGroup(const Request& request) {
    if (request.beam) {
        BeamLimits limits;
        limits.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
        limits.max_output = request.max_tokens;
        limits.min_output = request.min_tokens;
        limits.stop_tokens = request.stop_tokens;
        limits.n_top = request.sampling.n_logprobs;
        beams.emplace(*request.beam, std::move(limits));
        members.resize(1);
    } else {
        members.resize(static_cast<std::size_t>(request.n));
        for (std::size_t i = 0; i < members.size(); ++i) {
            members[i].number = static_cast<std::uint32_t>(i);
        }
    }
}

GroupMember* SequenceGroup::find(std::uint32_t number) {
    const auto it = std::find_if(members.begin(), members.end(),
                                 [&](const GroupMember& m) { return m.number == number; });
    return it == members.end() ? nullptr : &*it;
}

const GroupMember* SequenceGroup::find(std::uint32_t number) const {
    const auto it = std::find_if(members.begin(), members.end(),
                                 [&](const GroupMember& m) { return m.number == number; });
    return it == members.end() ? nullptr : &*it;
}

std::int64_t SequenceGroup::sequences(const Request& request) const {
    return beams ? request.beam->width : static_cast<std::int64_t>(members.size());
}

std::size_t SequenceGroup::longest_output() const {
    if (beams) return static_cast<std::size_t>(beams->length());
    std::size_t longest = 0;
    for (const GroupMember& member : members) longest = std::max(longest, member.output.size());
    return longest;
}

void SequenceGroup::restart(const Request& request) {
    const auto prompt = static_cast<std::int32_t>(request.prompt.size());
    forked = false;
    for (std::size_t i = 0; i < members.size(); ++i) {
        GroupMember& member = members[i];
        if (beams) {
            member.number = static_cast<std::uint32_t>(i);
            member.output = beams->tokens(i);
        }
        member.sent = prompt;
        member.parent = member.number == 0 ? -1 : 0;
        member.rows_going = 0;
        member.top.clear();
    }
    next_number = static_cast<std::uint32_t>(members.size());
}

}  // namespace helix::core
