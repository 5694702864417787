#include "text/grammar/matcher.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace helix::text::grammar {

std::size_t Matcher::Hash::operator()(const Way& way) const {
    return static_cast<std::size_t>(base::hash_pair(way.node, way.stack));
}

std::size_t Matcher::Hash::operator()(const std::vector<Way>& ways) const {
    std::uint64_t hash = ways.size();
    for (const Way& way : ways) hash = base::hash_pair(hash, base::hash_pair(way.node, way.stack));
    return static_cast<std::size_t>(hash);
}

Matcher::Matcher(std::shared_ptr<const Automaton> automaton)
    : automaton_(std::move(automaton)), classes_(automaton_->class_count()) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
        class_of_[byte] = automaton_->class_of(static_cast<std::uint8_t>(byte));
    }
    states_.emplace_back();
    transitions_.assign(classes_, kDead);
    open({automaton_->start(), kBottom});
    start_ = close();
}

Matcher::State Matcher::step(State state, std::uint8_t byte) {
    // By index: states_ grows only in close().
    for (const Way& way : states_[state].ways) {
        for (const Automaton::ByteEdge& edge : automaton_->bytes(way.node)) {
            if (edge.bytes.first <= byte && byte <= edge.bytes.last) open({edge.target, way.stack});
        }
    }
    const State next = close();
    transitions_[state * classes_ + class_of_[byte]] = next;
    return next;
}

void Matcher::open(Way way) {
    const auto add = [this](const Way& w) {
        if (seen_.size() >= kMaxWays) {
            overflowed_ = true;
        } else if (seen_.emplace(w, true).second) {
            open_ways_.push_back(w);
        }
    };
    add(way);
    while (!open_ways_.empty()) {
        const Way at = open_ways_.back();
        open_ways_.pop_back();
        if (!automaton_->bytes(at.node).empty()) ways_.push_back(at);
        for (const NodeIndex node : automaton_->empty(at.node)) add({node, at.stack});
        for (const Automaton::Call& call : automaton_->calls(at.node)) {
            const bool back = call.return_to != Automaton::kNoReturn;
            add({call.start, back ? push(at.stack, call.return_to) : at.stack});
        }
        if (!automaton_->is_end(at.node)) continue;
        if (at.stack == kBottom) {
            accepts_ = true;
        } else {
            const Frame frame = stacks_[at.stack];
            add({frame.node, frame.below});
        }
    }
}

// The state of the ways that were opened.
Matcher::State Matcher::close() {
    std::sort(ways_.begin(), ways_.end());
    ways_.erase(std::unique(ways_.begin(), ways_.end()), ways_.end());
    const bool accepts = std::exchange(accepts_, false);
    seen_.clear();
    std::vector<Way> ways = std::exchange(ways_, {});
    if (ways.empty() && !accepts) return kDead;
    const std::size_t hash = Hash()(ways);
    const auto [begin, end] = state_of_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        const StateInfo& known = states_[it->second];
        if (known.accepts == accepts && known.ways == ways) return it->second;
    }
    const auto state = static_cast<State>(states_.size());
    state_of_.emplace(hash, state);
    memory_bytes_ += sizeof(StateInfo) + 64 + ways.size() * sizeof(Way) + classes_ * sizeof(State);
    states_.push_back({std::move(ways), accepts});
    transitions_.resize(transitions_.size() + classes_, kUnknown);
    return state;
}

Matcher::StackIndex Matcher::push(StackIndex below, NodeIndex node) {
    const auto [it, is_new] =
        stack_of_.emplace(Way{node, below}, static_cast<StackIndex>(stacks_.size()));
    if (is_new) {
        stacks_.push_back({node, below});
        memory_bytes_ += sizeof(Frame) + 48;
    }
    return it->second;
}

const ByteSet& Matcher::loops(State state) {
    if (states_[state].loops == nullptr) {
        std::vector<bool> stays(classes_);
        for (std::size_t c = 0; c < classes_; ++c) {
            stays[c] = next(state, automaton_->byte_of(c)) == state;
        }
        auto set = std::make_unique<ByteSet>();
        for (std::size_t byte = 0; byte < 256; ++byte) set->set(byte, stays[class_of_[byte]]);
        states_[state].loops = std::move(set);
        memory_bytes_ += sizeof(ByteSet);
    }
    return *states_[state].loops;
}

Matcher::State Matcher::stand_in(State state, std::size_t bytes) {
    const auto horizon =
        static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(bytes, 1) - 1));
    if (!automaton_->counts() || horizon >= kHorizons) return state;
    if (states_[state].stand_ins == nullptr) {
        auto unknown = std::make_unique<std::array<State, kHorizons>>();
        unknown->fill(kUnknown);
        states_[state].stand_ins = std::move(unknown);
        memory_bytes_ += kHorizons * sizeof(State);
    }
    State& known = (*states_[state].stand_ins)[horizon];
    if (known != kUnknown) return known;
    const std::int32_t within = 1 << horizon;
    for (const Way& way : states_[state].ways) {
        ways_.push_back(
            {automaton_->stand_in(way.node, within), stack_stand_in(way.stack, within)});
    }
    accepts_ = states_[state].accepts;
    known = close();  // lives on the heap: stays where it is
    return known;
}

Matcher::StackIndex Matcher::stack_stand_in(StackIndex stack, std::int32_t bytes) {
    std::vector<NodeIndex> nodes;  // top first
    for (; stack != kBottom; stack = stacks_[stack].below) nodes.push_back(stacks_[stack].node);
    StackIndex out = kBottom;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        out = push(out, automaton_->stand_in(*node, bytes));
    }
    return out;
}

}  // namespace helix::text::grammar
