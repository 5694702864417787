#include "core/coordinator/stage_sender.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace helix::core {
namespace {

std::uint64_t link_id(std::int32_t from, std::int32_t to) {
    return std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(to);
}

}  // namespace

void StageSender::going(RequestState& state, std::int64_t rows) {
    state.rows_going = rows;
    placements_.router()->on_sent(state.path, rows);
    count(state, rows);
}

void StageSender::count(const RequestState& state, std::int64_t rows) {
    std::int32_t from = spec::kCoordinator;
    for (const Stage& stage : state.pipeline) {
        const auto to = static_cast<std::int32_t>(stage.worker.value);
        count(from, to, rows);
        from = to;
    }
    count(from, spec::kCoordinator, rows);
}

void StageSender::count(std::int32_t from, std::int32_t to, std::int64_t rows) {
    const std::uint64_t id = link_id(from, to);
    const std::size_t* at = link_at_.find(id);
    if (at != nullptr) {
        links_[*at].rows += rows;
        return;
    }
    link_at_.insert(id, links_.size());
    links_.push_back({{from, to}, rows});
}

std::map<StageSender::LinkEnds, std::int64_t> StageSender::link_rows() const {
    std::map<LinkEnds, std::int64_t> rows;
    for (const LinkCount& link : links_) rows.emplace(link.ends, link.rows);
    return rows;
}

void StageSender::forget(WorkerId worker) {
    const auto id = static_cast<std::int32_t>(worker.value);
    std::erase_if(links_, [id](const LinkCount& link) {
        return link.ends.first == id || link.ends.second == id;
    });
    link_at_ = {};
    for (std::size_t i = 0; i < links_.size(); ++i) {
        link_at_.insert(link_id(links_[i].ends.first, links_[i].ends.second), i);
    }
}

void StageSender::to_stages(const RequestState& state, const WorkerMessage& message) const {
    for (const Stage& stage : state.pipeline) {
        if (fleet_.at(stage.worker).gone) continue;
        out_.to_worker(stage.worker, message);
    }
}

std::vector<SequenceKey> StageSender::keys_at_workers(const RequestState& state) {
    if (!state.group || !state.group->forked) return {key_of(state, 0)};
    std::vector<SequenceKey> keys;
    for (const GroupMember& member : state.group->members) {
        keys.push_back(key_of(state, member.number));
    }
    // What a migration brought waits under the name of member 0.
    if (state.moved && state.group->find(0) == nullptr) keys.push_back(key_of(state, 0));
    return keys;
}

spec::SamplingParams StageSender::sampling_of(const RequestState& state) {
    spec::SamplingParams sampling = state.request.sampling;
    if (state.request.beam) {
        sampling.n_logprobs = std::max(sampling.n_logprobs, 2 * state.request.beam->width);
    }
    return sampling;
}

void StageSender::member_going(TimePoint now, RequestState& state, GroupMember& member,
                               std::int64_t rows) {
    member.rows_going = rows;
    member.sent_at = now;
    state.rows_going += rows;
    placements_.router()->on_sent(state.path, rows);
    count(state, rows);
}

StageInput& StageSender::send_member(TimePoint now, RequestState& state, GroupMember& member) {
    const std::int32_t prompt = prompt_tokens(state);
    const auto all = prompt + static_cast<std::int32_t>(member.output.size());
    CHECK(member.sent >= prompt && member.sent < all);
    StageInput input;
    input.key = key_of(state, member.number);
    input.first_position = member.sent;
    input.tokens.assign(member.output.begin() + (member.sent - prompt), member.output.end());
    input.sample = true;
    input.parent = std::exchange(member.parent, -1);
    member_going(now, state, member, all - member.sent);
    member.sent = all;
    return out_.add_rows(state.pipeline.front().worker, std::move(input));
}

}  // namespace helix::core
