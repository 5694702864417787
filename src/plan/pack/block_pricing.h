#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack/block_shape.h"
#include "plan/problem/node_types.h"

namespace helix::plan {

struct BlockPrices {
    std::vector<double> type;  // >= 0, of one node
    double depth = 0;          // >= 0, of each stage of the longest path
};

// Cheap blocks of one target flow at given prices, by dynamic programming over (length, flow): the
// cheapest that is a row, or side by side, of two cheaper ones. Flow is kept exactly but only one
// block for each of `steps` intervals of flow, so what is found is sound and mostly, but not
// provably, cheapest; the more so where there are few nodes of a type, or with a depth price.
class BlockPricer {
  public:
    // Blocks of up to `longest` layers, of types of one group; `types` must outlive this.
    BlockPricer(const std::vector<NodeType>& types, std::int32_t group, double target,
                std::int32_t longest, std::int32_t steps);

    // One block of at least the target flow for each length that has any.
    std::vector<Block> price(const BlockPrices& prices);

  private:
    enum class Kind : std::uint8_t { none, node, row, side };
    struct Ref {
        std::int32_t length = 0;
        std::int32_t step = 0;
    };
    struct State {
        double price = 0;  // of nodes and depth
        double nodes = 0;  // of nodes alone
        double flow = 0;
        std::int32_t depth = 0;
        Kind kind = Kind::none;
        bool scarce = false;  // it takes most of the few nodes of some type
        std::int32_t type = 0;
        Ref first;
        Ref second;
    };

    State& state(Ref ref);
    std::int32_t step_of(double flow) const;
    std::size_t index(Ref ref) const;
    // Keeps the candidate if it is cheaper than what is known and there are nodes enough for it.
    void offer(std::int32_t length, const State& candidate);
    bool enough_nodes(Ref first, Ref second);  // for both; leaves their sum in sum_
    void add_nodes(std::int32_t length, const BlockPrices& prices);
    void add_rows(std::int32_t length, const BlockPrices& prices);
    void join_row(std::int32_t length, Ref first, Ref second, double depth_price);
    bool scarce(Ref ref);
    void add_sides(std::int32_t length, const BlockPrices& prices);
    void find_cheapest_from(std::int32_t length);
    void collect(Ref ref, std::int32_t begin, std::vector<Block::Part>& parts);

    const std::vector<NodeType>& types_;
    std::int32_t group_;
    double target_;
    std::int32_t longest_;
    std::int32_t steps_;
    std::vector<State> states_;          // [length][step]
    std::vector<std::uint16_t> counts_;  // [length][step][type]: nodes of each state
    std::vector<std::uint16_t> sum_;     // [type]: of the last pair counted
    // [length][step]: the step of the cheapest state with at least this flow; -1 without any.
    std::vector<std::int32_t> cheapest_from_;
};

}  // namespace helix::plan
