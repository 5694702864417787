#include "plan/pack/block_pricing.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

// Of types with more nodes a block is taken to leave some for others: they are not counted, which
// saves most of the time, and blocks that need more than there are are left out at the end.
constexpr std::int32_t kFew = 3;
constexpr double kNeverReached = std::numeric_limits<double>::infinity();

using base::at;

}  // namespace

BlockPricer::BlockPricer(const std::vector<NodeType>& types, std::int32_t group, double target,
                         std::int32_t longest, std::int32_t steps)
    : types_(types), group_(group), target_(target), longest_(longest), steps_(steps) {
    CHECK(target > 0 && longest > 0 && steps > 1);
    states_.resize(at(longest + 1) * at(steps + 1));
    cheapest_from_.resize(states_.size());
    counts_.resize(states_.size() * types.size());
    sum_.resize(types.size());
}

std::size_t BlockPricer::index(Ref ref) const {
    return at(ref.length) * at(steps_ + 1) + at(ref.step);
}

BlockPricer::State& BlockPricer::state(Ref ref) {
    return states_[index(ref)];
}

std::int32_t BlockPricer::step_of(double flow) const {
    // Flows that should sum to the target exactly may fall short by rounding.
    if (flow >= target_ * (1 - 1e-12)) return steps_;
    return static_cast<std::int32_t>(flow / target_ * steps_);
}

bool BlockPricer::enough_nodes(Ref first, Ref second) {
    const std::uint16_t* a = &counts_[index(first) * types_.size()];
    const std::uint16_t* b = &counts_[index(second) * types_.size()];
    for (std::size_t t = 0; t < types_.size(); ++t) {
        const std::int32_t sum = a[t] + b[t];
        if (sum > types_[t].count() && types_[t].count() <= kFew) return false;
        sum_[t] = static_cast<std::uint16_t>(sum);
    }
    return true;
}

void BlockPricer::offer(std::int32_t length, const State& candidate) {
    Ref ref{length, step_of(candidate.flow)};
    const auto better = [&](const State& known) {
        return candidate.price < known.price ||
               (candidate.price == known.price && candidate.flow > known.flow);
    };
    if (!better(state(ref))) {
        // Where few nodes are alike another choice is worth keeping, if there is room below.
        if (!state(ref).scarce || ref.step == steps_ || --ref.step < 1) return;
        if (state(ref).kind != Kind::none) return;
    }
    if (candidate.kind == Kind::node) {
        std::fill(sum_.begin(), sum_.end(), std::uint16_t{0});
        sum_[at(candidate.type)] = 1;
    } else if (!enough_nodes(candidate.first, candidate.second)) {
        return;
    }
    State& known = state(ref);
    known = candidate;
    known.scarce = false;
    for (std::size_t t = 0; t < types_.size(); ++t) {
        if (types_[t].count() <= kFew && 2 * sum_[t] > types_[t].count()) known.scarce = true;
    }
    std::copy(sum_.begin(), sum_.end(),
              counts_.begin() + static_cast<std::ptrdiff_t>(index(ref) * types_.size()));
}

void BlockPricer::add_nodes(std::int32_t length, const BlockPrices& prices) {
    for (std::size_t t = 0; t < types_.size(); ++t) {
        if (types_[t].group != group_ || types_[t].most() < length) continue;
        offer(length, {.price = prices.type[t] + prices.depth,
                       .nodes = prices.type[t],
                       .flow = types_[t].throughput(length),
                       .depth = 1,
                       .kind = Kind::node,
                       .scarce = false,
                       .type = static_cast<std::int32_t>(t),
                       .first = {},
                       .second = {}});
    }
}

void BlockPricer::add_rows(std::int32_t length, const BlockPrices& prices) {
    for (std::int32_t left = 1; 2 * left <= length; ++left) {
        const std::int32_t right = length - left;
        Ref last_first{-1, -1};
        Ref last_second{-1, -1};
        for (std::int32_t step = 1; step <= steps_; ++step) {
            const Ref first{left, cheapest_from_[index({left, step})]};
            const Ref second{right, cheapest_from_[index({right, step})]};
            if (first.step < 0 || second.step < 0) break;
            if (first.step != last_first.step || second.step != last_second.step) {
                join_row(length, first, second, prices.depth);
                last_first = first;
                last_second = second;
            }
            // Both may want the same few nodes: then what has just this flow comes in.
            if (step != first.step && scarce(first) && state({left, step}).kind != Kind::none)
                join_row(length, {left, step}, second, prices.depth);
            if (step != second.step && scarce(second) && state({right, step}).kind != Kind::none)
                join_row(length, first, {right, step}, prices.depth);
        }
    }
}

void BlockPricer::join_row(std::int32_t length, Ref first, Ref second, double depth_price) {
    const State& a = state(first);
    const State& b = state(second);
    const std::int32_t depth = a.depth + b.depth;
    offer(length, {.price = a.nodes + b.nodes + depth_price * depth,
                   .nodes = a.nodes + b.nodes,
                   .flow = std::min(a.flow, b.flow),
                   .depth = depth,
                   .kind = Kind::row,
                   .scarce = false,
                   .type = 0,
                   .first = first,
                   .second = second});
}

bool BlockPricer::scarce(Ref ref) {
    return state(ref).scarce;
}

// In order of flow: what a state is made of has less flow and is final.
void BlockPricer::add_sides(std::int32_t length, const BlockPrices& prices) {
    const auto join = [&](std::int32_t low, std::int32_t high) {
        const State& a = state({length, low});
        const State& b = state({length, high});
        const std::int32_t depth = std::max(a.depth, b.depth);
        const double nodes = a.nodes + b.nodes;
        const double price = nodes + prices.depth * depth;
        if (price >= state({length, std::min(low + high + 1, steps_)}).price &&
            price >= state({length, std::min(low + high, steps_)}).price) {
            return;
        }
        offer(length, {.price = price,
                       .nodes = nodes,
                       .flow = a.flow + b.flow,
                       .depth = depth,
                       .kind = Kind::side,
                       .scarce = false,
                       .type = 0,
                       .first = {length, low},
                       .second = {length, high}});
    };
    // Steps below the current one that hold a state worth joining: none that there are nodes
    // enough for has more flow for no more. Step 0 adds next to nothing (and nothing may be made of
    // itself).
    std::vector<std::int32_t> filled;
    std::vector<double> beyond(at(steps_ + 2), kNeverReached);  // cheapest price from this step on
    for (std::int32_t step = steps_; step >= 0; --step) {
        beyond[at(step)] = beyond[at(step + 1)];
        if (state({length, step}).kind != Kind::none && !scarce({length, step}))
            beyond[at(step)] = std::min(beyond[at(step)], state({length, step}).price);
    }
    const auto useful = [&](std::int32_t step) {
        return state({length, step}).kind != Kind::none &&
               state({length, step}).price < beyond[at(step + 1)];
    };
    for (std::int32_t step = 1; step < steps_; ++step) {
        // Pairs that sum to this step, or one more after rounding down.
        for (const std::int32_t low : filled) {
            if (2 * low > step) break;
            if (useful(step - low)) join(low, step - low);
        }
        if (useful(step)) filled.push_back(step);
    }
    // Pairs that reach the target: the cheapest that suffices beside each.
    for (const std::int32_t low : filled) {
        std::int32_t best = -1;
        for (auto high =
                 std::lower_bound(filled.begin(), filled.end(), std::max(low, steps_ - 1 - low));
             high != filled.end(); ++high) {
            if (best >= 0 && state({length, *high}).price >= state({length, best}).price) continue;
            if (state({length, low}).flow + state({length, *high}).flow >= target_ * (1 - 1e-12) &&
                enough_nodes({length, low}, {length, *high})) {
                best = *high;
            }
        }
        if (best >= 0) join(low, best);
    }
}

void BlockPricer::find_cheapest_from(std::int32_t length) {
    std::int32_t best = -1;
    for (std::int32_t step = steps_; step >= 0; --step) {
        const State& here = state({length, step});
        if (here.kind != Kind::none && (best < 0 || here.price < state({length, best}).price))
            best = step;
        cheapest_from_[index({length, step})] = best;
    }
}

void BlockPricer::collect(Ref ref, std::int32_t begin, std::vector<Block::Part>& parts) {
    const State& here = state(ref);
    CHECK(here.kind != Kind::none);
    if (here.kind == Kind::node) {
        parts.push_back({begin, ref.length, here.type});
        return;
    }
    collect(here.first, begin, parts);
    collect(here.second, here.kind == Kind::row ? begin + here.first.length : begin, parts);
}

std::vector<Block> BlockPricer::price(const BlockPrices& prices) {
    CHECK(prices.type.size() == types_.size());
    for (State& state : states_) {
        state.price = kNeverReached;
        state.kind = Kind::none;
    }
    std::vector<Block> blocks;
    for (std::int32_t length = 1; length <= longest_; ++length) {
        add_nodes(length, prices);
        add_rows(length, prices);
        add_sides(length, prices);
        find_cheapest_from(length);
        const State& full = state({length, steps_});
        if (full.kind == Kind::none) continue;
        Block block{.length = length,
                    .depth = full.depth,
                    .group = group_,
                    .flow = full.flow,
                    .parts = {},
                    .count = std::vector<std::int32_t>(types_.size(), 0)};
        collect({length, steps_}, 0, block.parts);
        sort_parts(block);
        for (const Block::Part& part : block.parts) ++block.count[at(part.type)];
        bool enough = true;
        for (std::size_t t = 0; t < types_.size(); ++t)
            enough = enough && block.count[t] <= types_[t].count();
        if (enough) blocks.push_back(std::move(block));
    }
    return blocks;
}

}  // namespace helix::plan
