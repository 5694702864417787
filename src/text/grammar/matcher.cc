#include "text/grammar/matcher.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/random.h"

namespace helix::text::grammar {
namespace {

std::size_t hash_of(std::span<const Way> ways) {
    std::uint64_t hash = ways.size();
    for (const Way& way : ways) hash = base::hash_pair(hash, base::hash_pair(way.node, way.stack));
    return static_cast<std::size_t>(hash);
}

void sort_unique(std::vector<Way>& ways) {
    std::sort(ways.begin(), ways.end());
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
}

std::uint32_t saturated(std::uint64_t steps) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(steps, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const Automaton> automaton)
    : automaton_(std::move(automaton)), classes_(automaton_->class_count()) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
        class_of_[byte] = automaton_->class_of(static_cast<std::uint8_t>(byte));
    }
    callers_.resize(automaton_->rule_count());
    states_.emplace_back();
    transitions_.assign(classes_, {kDead, 0});
    transition_steps_.assign(classes_, 0);
    frames_.push_back({Automaton::kNoReturn, kBottom});
    intern_frames();
    if (add({automaton_->start(), kBottom})) close(start_);
}

void Matcher::begin_count(std::uint64_t max_steps) {
    if (++count_ == 0) {  // the number of the count has wrapped around
        for (Transition& transition : transitions_) transition.counted_in = 0;
        for (StateInfo& state : states_) {
            state.loops_counted_in = 0;
            state.stand_ins = nullptr;
        }
        count_ = 1;
    }
    steps_ = 0;
    max_steps_ = max_steps;
    trouble_ = Trouble::none;
}

bool Matcher::charge(std::uint64_t steps) {
    steps_ += steps;
    if (steps_ > max_steps_ && trouble_ == Trouble::none) trouble_ = Trouble::steps;
    return trouble_ == Trouble::none;
}

// Takes a step that is not part of this count yet.
Matcher::State Matcher::take(State state, std::uint8_t byte) {
    if (state == kDead || trouble_ != Trouble::none) return kDead;
    const std::size_t at = state * classes_ + class_of_[byte];
    if (transitions_[at].target == kUnknown) {
        Transition to;
        std::uint32_t steps = 0;
        if (!work_out(state, byte, to, steps)) return kDead;
        transitions_[at] = to;
        transition_steps_[at] = steps;
    } else if (!charge(transition_steps_[at])) {
        return kDead;
    }
    transitions_[at].counted_in = count_;
    return transitions_[at].target;
}

bool Matcher::work_out(State state, std::uint8_t byte, Transition& to, std::uint32_t& steps) {
    const std::uint64_t before = steps_;
    bool good = true;
    for (const Way& way : states_[state].ways) {
        const auto edges = automaton_->bytes(way.node);
        good = good && charge(edges.size());
        for (const Automaton::ByteEdge& edge : edges) {
            if (edge.bytes.first > byte || byte > edge.bytes.last) continue;
            good = good && add({edge.target, way.stack});
        }
        if (!good) break;
    }
    good = close(to.target) && good;
    steps = saturated(steps_ - before);
    return good;
}

bool Matcher::add(Way way) {
    if (!charge(1)) return false;
    if (!seen_.insert(way)) return true;
    if (seen_.size() > kMaxWays) {
        trouble_ = Trouble::ways;
        return false;
    }
    open_ways_.push_back(way);
    return true;
}

// The rule has ended, so its callers go on.
bool Matcher::pop(StackSet stack) {
    for (std::size_t i = 0; i < stacks_[stack].size; ++i) {
        const Way frame = frame_pool_[stacks_[stack].begin + i];
        if (frame.node == Automaton::kNoReturn) {
            accepts_ = true;
        } else if (!add(frame)) {
            return false;
        }
    }
    return true;
}

bool Matcher::add_call(const Automaton::Call& call, StackSet stack) {
    const bool back = call.return_to != Automaton::kNoReturn;
    if (!charge(1 + (back ? 0 : stacks_[stack].size))) return false;
    std::vector<Way>& waiting = callers_[call.rank];
    if (waiting.empty()) {
        called_.push_back(call.rank);
        std::push_heap(called_.begin(), called_.end(), std::greater<>());
    }
    if (back) {
        waiting.push_back({call.return_to, stack});
    } else {
        const auto others = frames(stack);
        waiting.insert(waiting.end(), others.begin(), others.end());
    }
    // The rule that is called may read nothing. Its ways are made later, when all its callers are
    // known.
    if (!call.may_be_empty) return true;
    return back ? add({call.return_to, stack}) : pop(stack);
}

bool Matcher::expand() {
    while (!open_ways_.empty()) {
        const Way at = open_ways_.back();
        open_ways_.pop_back();
        if (!automaton_->bytes(at.node).empty()) ways_.push_back(at);
        for (const NodeIndex node : automaton_->empty(at.node)) {
            if (!add({node, at.stack})) return false;
        }
        for (const Automaton::Call& call : automaton_->calls(at.node)) {
            if (!add_call(call, at.stack)) return false;
        }
        // In a rule that was called at this place this adds nothing new (see add_call).
        if (automaton_->is_end(at.node) && !pop(at.stack)) return false;
    }
    return true;
}

// Makes the state of the ways that were added. A rule that may be called at this very place calls
// only rules of higher ranks, so in the order of ranks all callers of a rule are known when its
// turn comes.
bool Matcher::close(State& made) {
    bool good = trouble_ == Trouble::none && expand();
    while (good && !called_.empty()) {
        std::pop_heap(called_.begin(), called_.end(), std::greater<>());
        const std::uint32_t rank = called_.back();
        called_.pop_back();
        frames_.swap(callers_[rank]);
        const StackSet stack = intern_frames();
        good = add({automaton_->rule_start(rank), stack}) && expand();
    }
    seen_.clear();
    std::vector<Way> ways = std::exchange(ways_, {});
    const bool accepts = std::exchange(accepts_, false);
    if (!good) {
        open_ways_.clear();
        for (const std::uint32_t rank : called_) callers_[rank].clear();
        called_.clear();
        return false;
    }
    sort_unique(ways);
    // Keeping a state costs half a step for each class.
    if (!charge(ways.size() + classes_ / 2)) return false;
    made = intern_state(std::move(ways), accepts);
    return true;
}

Matcher::State Matcher::intern_state(std::vector<Way> ways, bool accepts) {
    if (ways.empty() && !accepts) return kDead;
    const std::size_t hash = hash_of(ways);
    const auto [begin, end] = state_of_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        const StateInfo& known = states_[it->second];
        if (known.accepts == accepts && known.ways == ways) return it->second;
    }
    const auto state = static_cast<State>(states_.size());
    state_of_.emplace(hash, state);
    memory_bytes_ += sizeof(StateInfo) + 64 + ways.size() * sizeof(Way) +
                     classes_ * (sizeof(Transition) + sizeof(std::uint32_t));
    ways.shrink_to_fit();
    states_.push_back({std::move(ways), accepts});
    transitions_.resize(transitions_.size() + classes_);
    transition_steps_.resize(transition_steps_.size() + classes_);
    return state;
}

StackSet Matcher::intern_frames() {
    sort_unique(frames_);
    const std::size_t hash = hash_of(frames_);
    const auto [begin, end] = stack_of_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if (std::ranges::equal(frames(it->second), frames_)) {
            frames_.clear();
            return it->second;
        }
    }
    const auto stack = static_cast<StackSet>(stacks_.size());
    stack_of_.emplace(hash, stack);
    stacks_.push_back({frame_pool_.size(), frames_.size()});
    frame_pool_.insert(frame_pool_.end(), frames_.begin(), frames_.end());
    memory_bytes_ += sizeof(FrameRange) + 48 + frames_.size() * sizeof(Way);
    frames_.clear();
    return stack;
}

bool Matcher::stays(State state, const ByteSet& bytes) {
    // Most states go elsewhere with the first byte, which saves trying all.
    for (std::size_t byte = 0; byte < 256; ++byte) {
        if (!bytes.test(byte)) continue;
        if (next(state, static_cast<std::uint8_t>(byte)) != state) return false;
        break;
    }
    return (bytes & ~loops(state)).none();
}

const ByteSet& Matcher::loops(State state) {
    const bool known = states_[state].loops != nullptr;
    if (known && states_[state].loops_counted_in == count_) return *states_[state].loops;
    std::vector<bool> stays(classes_);
    for (std::size_t c = 0; c < classes_; ++c) {
        stays[c] = next(state, automaton_->byte_of(c)) == state;
    }
    if (!known) {
        auto set = std::make_unique<ByteSet>();
        for (std::size_t byte = 0; byte < 256; ++byte) set->set(byte, stays[class_of_[byte]]);
        states_[state].loops = std::move(set);
        memory_bytes_ += sizeof(ByteSet);
    }
    states_[state].loops_counted_in = count_;
    return *states_[state].loops;
}

std::uint64_t Matcher::stand_in_steps(State state) const {
    std::uint64_t steps = classes_ / 2;
    for (const Way& way : states_[state].ways) steps += 1 + stacks_[way.stack].size;
    return steps;
}

Matcher::State Matcher::stand_in(State state, std::size_t bytes) {
    const auto horizon =
        static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(bytes, 1) - 1));
    if (!automaton_->counts() || horizon >= kHorizons || state == kDead) return state;
    if (states_[state].stand_ins == nullptr) {
        states_[state].stand_ins = std::make_unique<std::array<StandIn, kHorizons>>();
        memory_bytes_ += kHorizons * sizeof(StandIn);
    }
    StandIn& known = (*states_[state].stand_ins)[horizon];  // on the heap: stays where it is
    if (known.to.counted_in == count_) return known.to.target;
    if (known.to.target == kUnknown) known.steps = saturated(stand_in_steps(state));
    if (!charge(known.steps)) return kDead;
    if (known.to.target == kUnknown) {
        const std::int32_t within = 1 << horizon;
        std::vector<Way> ways;
        for (const Way& way : states_[state].ways) {
            ways.push_back(
                {automaton_->stand_in(way.node, within), stack_stand_in(way.stack, horizon)});
        }
        sort_unique(ways);
        known.to.target = intern_state(std::move(ways), states_[state].accepts);
    }
    known.to.counted_in = count_;
    return known.to.target;
}

// Each set has one stand-in, which is made once. Over all calls this takes no more than making the
// sets did, so it is not counted. A set refers only to sets before it, so they are done in order.
StackSet Matcher::stack_stand_in(StackSet stack, std::size_t horizon) {
    auto& known = stack_stand_ins_[horizon];
    const std::int32_t within = 1 << horizon;
    std::vector<StackSet> open{stack};
    std::vector<StackSet> to_make;
    known.emplace(kBottom, kBottom);
    while (!open.empty()) {
        const StackSet at = open.back();
        open.pop_back();
        if (!known.emplace(at, kBottom).second) continue;
        to_make.push_back(at);
        for (const Way& frame : frames(at)) open.push_back(frame.stack);
    }
    std::sort(to_make.begin(), to_make.end());
    for (const StackSet at : to_make) {
        for (const Way& frame : frames(at)) {
            const bool bottom = frame.node == Automaton::kNoReturn;
            frames_.push_back(
                bottom ? frame
                       : Way{automaton_->stand_in(frame.node, within), known.at(frame.stack)});
        }
        known[at] = intern_frames();
        memory_bytes_ += 48;
    }
    return known.at(stack);
}

const WayOut& Matcher::way_out() {
    if (way_out_ == nullptr) {
        way_out_ = std::make_unique<WayOut>(*automaton_);
        memory_bytes_ += automaton_->size() * sizeof(std::uint32_t);
    }
    return *way_out_;
}

// Those of all sets before it are worked out with it, since a set refers to them only.
std::uint32_t Matcher::stack_bytes_to_end(StackSet stack) {
    std::vector<std::uint32_t>& known = stack_bytes_to_end_;
    while (known.size() <= stack) {
        std::uint32_t fewest = WayOut::kNone;
        for (const Way& frame : frames(static_cast<StackSet>(known.size()))) {
            fewest = std::min(fewest, frame.node == Automaton::kNoReturn ? 0 : bytes_to_end(frame));
        }
        known.push_back(fewest);
        memory_bytes_ += sizeof(std::uint32_t);
    }
    return known[stack];
}

std::uint32_t Matcher::bytes_to_end(const Way& way) {
    return add_bytes(way_out().bytes(way.node), stack_bytes_to_end(way.stack));
}

std::uint32_t Matcher::bytes_to_end(State state) {
    if (accepts(state)) return 0;
    charge(states_[state].ways.size());
    std::uint32_t fewest = WayOut::kNone;
    for (const Way& way : states_[state].ways) fewest = std::min(fewest, bytes_to_end(way));
    return fewest;
}

std::uint8_t Matcher::byte_to_end(State state) {
    const std::uint32_t fewest = bytes_to_end(state);
    std::uint8_t least = 0xFF;
    for (const Way& way : states_[state].ways) {
        if (bytes_to_end(way) != fewest) continue;
        const std::uint32_t here = way_out().bytes(way.node);
        for (const Automaton::ByteEdge& edge : automaton_->bytes(way.node)) {
            if (way_out().bytes(edge.target) + 1 == here) least = std::min(least, edge.bytes.first);
        }
    }
    return least;
}

}  // namespace helix::text::grammar
