#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "plan/mip/program.h"
#include "plan/pack/block_pricing.h"
#include "plan/problem/executor.h"
#include "plan/problem/node_types.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

// Block packing: for a target flow choose blocks, each able to carry it alone, whose lengths sum to
// L and whose nodes are there. Blocks come from column generation, the choice from an integer
// program with a row for each type of node, so it is the number of types that matters, not of
// nodes. Links are not looked at: where they bind, block_links.h puts the blocks in an order that
// they allow.

namespace helix::plan {

struct BlockOptions {
    std::optional<std::int32_t> max_depth;  // most stages of any path
    double relative_tolerance = 1e-5;       // of the best target
    std::uint64_t seed = 1;                 // of the prices that are tried besides the LP's
    std::function<bool()> stop = {};        // asked often; true: the best so far
    // Only with types of several groups: link[a][b] = tokens/s to count on for a link from a node
    // of group a to one of group b. Blocks then stay inside their groups (block_cross.h).
    std::vector<std::vector<double>> link = {};
};

// A block of the plan, in layers.
struct PlacedBlock {
    struct Part {
        std::int32_t node = 0;
        spec::LayerRange layers;
    };
    spec::LayerRange layers;
    std::vector<Part> parts;
};

struct BlockPlan {
    spec::Placement placement;
    double flow = 0;                  // the maximum flow of the placement where no link binds
    std::int32_t depth = 0;           // stages of its longest path
    std::vector<PlacedBlock> blocks;  // in layer order
};

// Packs blocks of one problem; the blocks found for one target serve the next. The same calls give
// the same plans.
class BlockPacker {
  public:
    // `types` as node_types() gives them; they may be a part of a cluster's. Groups: see
    // BlockOptions::link.
    BlockPacker(std::vector<NodeType> types, std::int32_t n_nodes, std::int32_t n_layers);

    // The largest number of layers that blocks of this flow could cover if they could be cut into
    // fractions: below L no packing exists (but for what the pricing may miss).
    double fractional_layers(double target, const BlockOptions& options);
    // A placement of at least the target flow, without partial inference; nothing if none is found.
    std::optional<BlockPlan> pack(double target, const BlockOptions& options);
    // The largest target that packs, up to `upper` (a bound): bisection.
    std::optional<BlockPlan> best(double upper, const BlockOptions& options);

  private:
    struct Column {
        Block block;
        bool fits_first = false;  // may hold layer 0
        bool fits_last = false;   // may hold layer L - 1
    };
    struct Master;  // the LP of one target

    bool add(Block block);
    bool usable(const Column& column, double target) const;
    void generate(double target, const BlockOptions& options);
    void vary_prices(double target, const BlockOptions& options);
    double reduced_length(const Block& block) const;
    void add_side_by_side(double target);
    void add_end_blocks(double target, const BlockPrices& prices);
    std::int32_t n_groups() const;
    std::vector<BlockPricer> pricers_of(const std::vector<NodeType>& types, double target) const;
    mip::Program program(double target, bool exactly, std::vector<std::int32_t>& meaning) const;
    std::vector<std::int32_t> choose(double target, const BlockOptions& options,
                                     bool exactly) const;
    std::vector<std::int32_t> order_for_ends(const std::vector<std::int32_t>& chosen) const;
    std::optional<BlockPlan> place(const std::vector<std::int32_t>& chosen, double target) const;
    std::int32_t steps(double target) const;

    std::vector<NodeType> types_;
    // The types cut to what fits at the first layer, the last, and both; empty if all fits there.
    std::vector<std::vector<NodeType>> end_types_;
    std::int32_t n_nodes_;
    std::int32_t n_layers_;
    std::int32_t longest_;
    std::vector<Column> columns_;
    std::map<std::vector<std::int32_t>, std::int32_t> known_;  // by parts
    BlockPrices prices_;                                       // of the last generate()
    double fractional_ = 0;                                    // its layers
    std::int32_t depth_limit_ = 0;
};

// A placement of at least `target` tokens/s, or nothing where none is found.
std::optional<BlockPlan> pack_blocks(const Problem& problem, double target,
                                     const BlockOptions& options);
// The block plan of most flow; nothing where the model does not fit (or `stop` came first).
std::optional<BlockPlan> best_blocks(const Problem& problem, const BlockOptions& options);
// The flow(depth) curve: the best plan for each depth limit from the least that works to `deepest`,
// only those with more flow than the one before. Above eight stages none is looked for between the
// depth of the best plan within `deepest` and that limit. Several depths are packed side by side by
// the executor, which asks options.stop from all its threads; the result does not depend on it
// unless stop interferes. Those that are packed by then are spread over all depths (spread_order).
std::vector<BlockPlan> blocks_by_depth(const Problem& problem, std::int32_t deepest,
                                       const BlockOptions& options, const Executor& executor = {});

// The numbers from begin up to end, without it, each once: the last one first, then what lies in
// the middle between those before, so that any beginning of the order is spread over all.
std::vector<std::int32_t> spread_order(std::int32_t begin, std::int32_t end);

}  // namespace helix::plan
