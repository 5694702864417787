#include "plan/pack/block_pack.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "plan/bounds/bounds.h"
#include "plan/bounds/config_bound.h"
#include "plan/flow/flow_network.h"
#include "plan/mip/growing_lp.h"
#include "plan/mip/solver.h"
#include "plan/pack/block_cross.h"

namespace helix::plan {
namespace {

constexpr double kHair = 1e-12;            // for flows that are sums
constexpr double kWhole = 1e-6;            // for layers that an LP counts
constexpr std::int32_t kMostRounds = 500;  // of column generation
constexpr std::int32_t kVariations = 30;   // of the prices
constexpr std::size_t kMostSideBySide = 4;
constexpr std::int32_t kDepthLanes = 4;      // packers of a curve, side by side
constexpr std::int32_t kShallow = 8;         // stages: packed beside the deepest plan
constexpr std::int64_t kMostLooks = 20'000;  // that CBC may take at one program

using base::at;

bool uniform(const NodeType& type) {
    const std::int32_t most = type.max_layers[0][0];
    return type.max_layers[0][1] == most && type.max_layers[1][0] == most &&
           type.max_layers[1][1] == most;
}

// The types with no sizes but those that fit where layer 0 is (L - 1, both).
std::vector<NodeType> cut_to(const std::vector<NodeType>& types, bool first, bool last) {
    std::vector<NodeType> cut = types;
    for (NodeType& type : cut) {
        const std::int32_t most = std::clamp(type.max_layers[first][last], 0, type.most());
        type.tokens_per_s.resize(at(most) + 1);
    }
    return cut;
}

// May the block begin at layer 0 (end at layer L - 1)?
bool fits_end(const Block& block, const std::vector<NodeType>& types, std::int32_t n_layers,
              bool first) {
    return std::all_of(block.parts.begin(), block.parts.end(), [&](const Block::Part& part) {
        const bool begins = part.begin == 0;
        const bool ends = part.begin + part.size == block.length;
        const bool whole = block.length >= n_layers;
        const bool at_first = begins && (first || whole);
        const bool at_last = ends && (!first || whole);
        return part.size <= types[at(part.type)].max_layers[at_first][at_last];
    });
}

}  // namespace

// Rows: one for each type, then the depth.
struct BlockPacker::Master {
    Master(const std::vector<NodeType>& types, std::int32_t depth_limit)
        : depth_row(depth_limit > 0 ? static_cast<std::int32_t>(types.size()) : -1), lp([&] {
              std::vector<double> limits;
              for (const NodeType& type : types) limits.push_back(type.count());
              if (depth_limit > 0) limits.push_back(depth_limit);
              return limits;
          }()) {}

    std::vector<GrowingLp::Term> terms(const Block& block) const {
        std::vector<GrowingLp::Term> terms;
        for (std::int32_t t = 0; at(t) < block.count.size(); ++t) {
            if (block.count[at(t)] > 0) terms.push_back({t, 1.0 * block.count[at(t)]});
        }
        if (depth_row >= 0) terms.push_back({depth_row, 1.0 * block.depth});
        return terms;
    }

    std::int32_t depth_row;
    GrowingLp lp;
};

BlockPacker::BlockPacker(std::vector<NodeType> types, std::int32_t n_nodes, std::int32_t n_layers)
    : types_(std::move(types)), n_nodes_(n_nodes), n_layers_(n_layers) {
    CHECK(n_layers > 0);
    std::int32_t most = 1;
    for (const NodeType& type : types_) most = std::max(most, type.most());
    longest_ = std::min(n_layers, std::max(2 * most + 4, 24));
    if (std::all_of(types_.begin(), types_.end(), uniform)) return;
    end_types_ = {cut_to(types_, true, false), cut_to(types_, false, true),
                  cut_to(types_, true, true)};
}

bool BlockPacker::add(Block block) {
    std::vector<std::int32_t> key;
    for (const Block::Part& part : block.parts)
        key.insert(key.end(), {part.begin, part.size, part.type});
    if (!known_.insert({std::move(key), static_cast<std::int32_t>(columns_.size())}).second)
        return false;
    block.flow = std::max(block.flow, block_flow(block, types_));  // rows side by side may mix
    Column column{.block = std::move(block), .fits_first = true, .fits_last = true};
    if (!end_types_.empty()) {
        column.fits_first = fits_end(column.block, types_, n_layers_, true);
        column.fits_last = fits_end(column.block, types_, n_layers_, false);
    }
    columns_.push_back(std::move(column));
    return true;
}

bool BlockPacker::usable(const Column& column, double target) const {
    return column.block.flow >= target * (1 - kHair);
}

std::int32_t BlockPacker::n_groups() const {
    std::int32_t groups = 1;
    for (const NodeType& type : types_) groups = std::max(groups, type.group + 1);
    return groups;
}

std::vector<BlockPricer> BlockPacker::pricers_of(const std::vector<NodeType>& types,
                                                 double target) const {
    std::vector<BlockPricer> pricers;
    for (std::int32_t g = 0; g < n_groups(); ++g)
        pricers.emplace_back(types, g, target, longest_, steps(target));
    return pricers;
}

// Small nodes in a large flow need a fine division of it.
std::int32_t BlockPacker::steps(double target) const {
    double least = target;
    for (const NodeType& type : types_) {
        if (type.most() > 0) least = std::min(least, type.throughput(type.most()));
    }
    return static_cast<std::int32_t>(
        std::clamp(std::ceil(4 * target / std::max(least, target * 1e-6)), 256.0, 1024.0));
}

// Length less the price of what it takes: how many layers fewer (negative) than the best
// fractional packing any packing with this block has.
double BlockPacker::reduced_length(const Block& block) const {
    double price = prices_.depth * block.depth;
    for (std::size_t t = 0; t < types_.size(); ++t) price += prices_.type[t] * block.count[t];
    return block.length - price;
}

void BlockPacker::generate(double target, const BlockOptions& options) {
    Master master(types_, depth_limit_);
    std::vector<BlockPricer> pricers = pricers_of(types_, target);
    prices_ = {.type = std::vector<double>(types_.size(), 1.0),
               .depth = depth_limit_ > 0 ? 1.0 : 0.0};
    std::size_t in_lp = 0;
    fractional_ = 0;
    for (std::int32_t round = 0; round < kMostRounds; ++round) {
        for (; in_lp < columns_.size(); ++in_lp) {
            const Block& block = columns_[in_lp].block;
            if (usable(columns_[in_lp], target))
                master.lp.add_column(block.length, master.terms(block));
        }
        if (round > 0) {
            if (!master.lp.solve()) break;
            const std::vector<double> prices = master.lp.prices();
            prices_.type.assign(prices.begin(),
                                prices.begin() + static_cast<std::ptrdiff_t>(types_.size()));
            if (depth_limit_ > 0) prices_.depth = prices.back();
            fractional_ = master.lp.objective();
        }
        bool news = false;
        for (BlockPricer& pricer : pricers) {
            for (Block& block : pricer.price(prices_)) {
                if (round == 0 || reduced_length(block) > 1e-7) news |= add(std::move(block));
            }
        }
        if ((round > 0 && !news) || (options.stop && options.stop())) break;
    }
}

double BlockPacker::fractional_layers(double target, const BlockOptions& options) {
    CHECK(target > 0);
    depth_limit_ = options.max_depth.value_or(0);
    generate(target, options);
    return fractional_;
}

// Integer packings also want blocks that are not in the fractional one but nearly as good.
void BlockPacker::vary_prices(double target, const BlockOptions& options) {
    base::Random random(options.seed);
    std::vector<BlockPricer> pricers = pricers_of(types_, target);
    BlockPrices prices = prices_;
    for (std::int32_t k = 0; k < kVariations; ++k) {
        if (options.stop && options.stop()) return;
        for (std::size_t t = 0; t < types_.size(); ++t)
            prices.type[t] = prices_.type[t] * std::exp(0.5 * (random.uniform() - 0.5));
        prices.depth = prices_.depth * std::exp(0.8 * (random.uniform() - 0.5));
        for (BlockPricer& pricer : pricers) {
            for (Block& block : pricer.price(prices)) add(std::move(block));
        }
        add_end_blocks(target, prices);
    }
}

// Blocks whose nodes all fit at an end.
void BlockPacker::add_end_blocks(double target, const BlockPrices& prices) {
    for (const std::vector<NodeType>& types : end_types_) {
        for (BlockPricer& pricer : pricers_of(types, target)) {
            for (Block& block : pricer.price(prices)) add(std::move(block));
        }
    }
}

// A few nodes side by side over the same layers: what changes of group need.
void BlockPacker::add_side_by_side(double target) {
    Block block{.length = 0,
                .depth = 1,
                .group = 0,
                .flow = 0,
                .parts = {},
                .count = std::vector<std::int32_t>(types_.size(), 0)};
    const auto grow = [&](const auto& self, std::int32_t type) -> void {
        if (block.flow >= target * (1 - kHair)) {
            if (block.parts.size() < 2) return;
            Block found = block;
            sort_parts(found);
            add(std::move(found));
            return;
        }
        if (at(type) == types_.size() || block.parts.size() == kMostSideBySide) return;
        self(self, type + 1);
        const NodeType& node = types_[at(type)];
        if (node.group != block.group || node.most() < block.length ||
            block.count[at(type)] == node.count()) {
            return;
        }
        const double before = block.flow;
        block.parts.push_back({0, block.length, type});
        ++block.count[at(type)];
        block.flow += node.throughput(block.length);
        self(self, type);
        block.flow = before;
        --block.count[at(type)];
        block.parts.pop_back();
    };
    for (block.group = 0; block.group < n_groups(); ++block.group) {
        for (block.length = 1; block.length <= longest_; ++block.length) grow(grow, 0);
    }
}

// The columns that an integer packing of L layers may use, as its program.
mip::Program BlockPacker::program(double target, bool exactly,
                                  std::vector<std::int32_t>& meaning) const {
    mip::Program program;
    const std::size_t depth_row = types_.size();
    const std::size_t length_row = depth_row + 1;
    const std::size_t first_row = depth_row + 2;
    program.rows.resize(depth_row + 5);
    for (std::size_t t = 0; t < types_.size(); ++t) program.rows[t].upper = types_[t].count();
    if (depth_limit_ > 0) program.rows[depth_row].upper = depth_limit_;
    if (exactly) program.rows[length_row].upper = n_layers_;
    if (!end_types_.empty()) {
        program.rows[first_row].lower = 1;
        program.rows[first_row + 1].lower = 1;
        program.rows[first_row + 2].lower = 2;  // two different blocks, or one that is all
    }
    for (std::int32_t c = 0; at(c) < columns_.size(); ++c) {
        const Column& column = columns_[at(c)];
        const Block& block = column.block;
        if (!usable(column, target)) continue;
        if (fractional_ + reduced_length(block) < n_layers_ - kWhole) continue;
        const auto index = static_cast<std::int32_t>(meaning.size());
        std::int32_t most = std::numeric_limits<std::int32_t>::max();
        for (std::size_t t = 0; t < types_.size(); ++t) {
            if (block.count[t] == 0) continue;
            most = std::min(most, types_[t].count() / block.count[t]);
            program.rows[t].terms.push_back({index, 1.0 * block.count[t]});
        }
        program.rows[depth_row].terms.push_back({index, 1.0 * block.depth});
        program.rows[length_row].terms.push_back({index, 1.0 * block.length});
        if (!end_types_.empty()) {
            if (column.fits_first) program.rows[first_row].terms.push_back({index, 1});
            if (column.fits_last) program.rows[first_row + 1].terms.push_back({index, 1});
            if (column.fits_first || column.fits_last)
                program.rows[first_row + 2].terms.push_back(
                    {index, block.length >= n_layers_ ? 2.0 : 1.0});
        }
        program.columns.push_back({"", 0, 1.0 * most, 1.0 * block.length, true});
        meaning.push_back(c);
    }
    return program;
}

// Which columns, each as often as it is used, in an order that links allow. `exactly`: their
// lengths sum to L, not more.
std::vector<std::int32_t> BlockPacker::choose(double target, const BlockOptions& options,
                                              bool exactly) const {
    std::vector<std::int32_t> meaning;
    mip::Program packing = program(target, exactly, meaning);
    if (meaning.empty()) return {};
    std::vector<const Block*> blocks;
    for (const std::int32_t c : meaning) blocks.push_back(&columns_[at(c)].block);
    std::optional<Crossings> crossings;
    if (n_groups() > 1) {
        crossings.emplace(options.link, target);
        crossings->extend(packing, blocks, types_);
    }
    mip::SolveOptions solve;
    std::int64_t looks = 0;
    solve.stop = [&](double best, double bound) {
        return best >= n_layers_ - kWhole || bound < n_layers_ - kWhole || ++looks > kMostLooks ||
               (options.stop && options.stop());
    };
    const auto solver = mip::make_solver("cbc");
    CHECK(solver.ok());
    const auto solution = (*solver)->solve(packing, solve);
    if (!solution.ok() || solution->values.empty()) return {};
    if (solution->objective < n_layers_ - kWhole) return {};
    std::vector<std::int32_t> chosen;
    if (crossings) {
        chosen = crossings->order(solution->values, blocks, types_);
    } else {
        for (std::int32_t i = 0; at(i) < blocks.size(); ++i) {
            const auto times = static_cast<std::size_t>(std::llround(solution->values[at(i)]));
            chosen.insert(chosen.end(), times, i);
        }
    }
    for (std::int32_t& column : chosen) column = meaning[at(column)];
    return chosen;
}

std::optional<BlockPlan> BlockPacker::pack(double target, const BlockOptions& options) {
    if (fractional_layers(target, options) < n_layers_ - kWhole) return std::nullopt;
    if (n_groups() > 1) add_side_by_side(target);
    add_end_blocks(target, prices_);
    // Often what the LP wanted is enough.
    for (const bool varied : {false, true}) {
        if (varied) vary_prices(target, options);
        for (const bool exactly : {false, true}) {
            const auto chosen = choose(target, options, exactly);
            if (chosen.empty()) break;
            if (auto plan = place(chosen, target)) return plan;
        }
    }
    return std::nullopt;
}

std::optional<BlockPlan> BlockPacker::best(double upper, const BlockOptions& options) {
    const double tolerance = std::max(options.relative_tolerance, 1e-9);
    const auto stopped = [&] { return options.stop && options.stop(); };
    // Above the fractional limit nothing packs.
    double low = 0;
    double high = upper * (1 + tolerance);
    const double least = upper * 1e-3;
    for (double next = upper * (1 - tolerance);
         high > least && high - low > tolerance * high && !stopped(); next = (low + high) / 2) {
        (fractional_layers(next, options) >= n_layers_ - kWhole ? low : high) = next;
    }
    std::optional<BlockPlan> plan;
    const auto succeeds = [&](double target) {
        auto found = pack(target, options);
        if (found && (!plan || found->flow > plan->flow)) plan = std::move(found);
        return plan && plan->flow >= target;
    };
    // From there down in growing steps, then between the last two.
    high = low * (1 + tolerance);
    double share = tolerance;
    while (low > least && !stopped() && !succeeds(low)) {
        high = low;
        share = std::clamp(4 * share, 0.005, 0.25);
        low *= 1 - share;
    }
    while (plan && high - std::max(low, plan->flow) > tolerance * high && !stopped()) {
        const double middle = (std::max(low, plan->flow) + high) / 2;
        if (!succeeds(middle)) high = middle;
    }
    return plan;
}

// Moves a block that may hold layer 0 to the start and one that may hold the last to the end;
// empty where that cannot be.
std::vector<std::int32_t> BlockPacker::order_for_ends(
    const std::vector<std::int32_t>& chosen) const {
    std::vector<std::int32_t> order = chosen;
    if (end_types_.empty() || order.empty()) return order;
    const auto fits_first = [&](std::int32_t c) { return columns_[at(c)].fits_first; };
    const auto fits_last = [&](std::int32_t c) { return columns_[at(c)].fits_last; };
    if (n_groups() > 1 || order.size() == 1) {  // the order is given
        if (!fits_first(order.front()) || !fits_last(order.back())) order.clear();
        return order;
    }
    auto last = std::find_if(order.begin(), order.end(),
                             [&](std::int32_t c) { return !fits_first(c) && fits_last(c); });
    if (last == order.end()) last = std::find_if(order.begin(), order.end(), fits_last);
    if (last == order.end()) return {};
    std::iter_swap(last, order.end() - 1);
    const auto first = std::find_if(order.begin(), order.end() - 1, fits_first);
    if (first == order.end() - 1) return {};
    std::iter_swap(first, order.begin());
    return order;
}

// Layers too many are cut out where the target allows it.
std::optional<BlockPlan> BlockPacker::place(const std::vector<std::int32_t>& chosen,
                                            double target) const {
    const std::vector<std::int32_t> order = order_for_ends(chosen);
    std::vector<Block> blocks;
    std::int32_t length = 0;
    for (const std::int32_t c : order) {
        blocks.push_back(columns_[at(c)].block);
        length += blocks.back().length;
    }
    for (std::size_t b = 0; b < blocks.size() && length > n_layers_; ++b) {
        for (std::int32_t layer = 0; layer < blocks[b].length && length > n_layers_;) {
            Block shorter = without_layer(blocks[b], layer, types_);
            const bool enough = shorter.length > 0 ? shorter.flow >= target * (1 - kHair) : true;
            if (!enough) {
                ++layer;
                continue;
            }
            blocks[b] = std::move(shorter);
            --length;
        }
    }
    if (length != n_layers_) return std::nullopt;
    BlockPlan plan;
    plan.placement.layers.resize(at(n_nodes_));
    std::vector<std::size_t> used(types_.size(), 0);
    FlowNetwork network{.n_vertices = n_layers_ + 1, .source = 0, .sink = n_layers_, .edges = {}};
    std::int32_t begin = 0;
    for (const Block& block : blocks) {
        if (block.length == 0) continue;
        PlacedBlock placed{.layers = {begin, begin + block.length}, .parts = {}};
        for (const Block::Part& part : block.parts) {
            const NodeType& type = types_[at(part.type)];
            const std::int32_t node = type.nodes[used[at(part.type)]++];
            const spec::LayerRange layers{begin + part.begin, begin + part.begin + part.size};
            // Cutting layers out may have brought another block to an end.
            if (part.size > type.max_layers[layers.begin == 0][layers.end == n_layers_])
                return std::nullopt;
            plan.placement.layers[at(node)] = layers;
            placed.parts.push_back({node, layers});
            network.edges.push_back({layers.begin, layers.end, type.throughput(part.size)});
        }
        plan.depth += block.depth;
        begin += block.length;
        plan.blocks.push_back(std::move(placed));
    }
    plan.flow = max_flow_value(network);
    return plan;
}

std::optional<BlockPlan> pack_blocks(const Problem& problem, double target,
                                     const BlockOptions& options) {
    return BlockPacker(node_types(problem), static_cast<std::int32_t>(problem.cluster.nodes.size()),
                       problem.model.n_layers)
        .pack(target, options);
}

std::optional<BlockPlan> best_blocks(const Problem& problem, const BlockOptions& options) {
    const double upper = flow_bounds(problem).capped;
    if (upper <= 0) return std::nullopt;
    return BlockPacker(node_types(problem), static_cast<std::int32_t>(problem.cluster.nodes.size()),
                       problem.model.n_layers)
        .best(upper, options);
}

std::vector<std::int32_t> spread_order(std::int32_t begin, std::int32_t end) {
    std::vector<std::int32_t> order;
    if (begin >= end) return order;
    const std::int32_t n = end - begin;
    std::int32_t step = 1;
    while (step < n) step *= 2;
    order.push_back(end - 1);
    for (; step > 1; step /= 2) {
        for (std::int32_t back = step / 2; back < n; back += step) order.push_back(end - 1 - back);
    }
    return order;
}

std::vector<BlockPlan> blocks_by_depth(const Problem& problem, std::int32_t deepest,
                                       const BlockOptions& options, const Executor& executor) {
    std::vector<BlockPlan> curve;
    const double upper = flow_bounds(problem).capped;
    if (upper <= 0 || deepest <= 0) return curve;
    std::vector<std::optional<BlockPlan>> best(at(deepest) + 1);  // by depth
    std::vector<BlockPacker> packers(
        at(kDepthLanes),
        BlockPacker(node_types(problem), static_cast<std::int32_t>(problem.cluster.nodes.size()),
                    problem.model.n_layers));
    const auto pack = [&](std::int32_t lane, std::int32_t depth) {
        if (options.stop && options.stop()) return;
        BlockOptions limited = options;
        limited.max_depth = depth;
        best[at(depth)] = packers[at(lane)].best(upper, limited);
    };
    // The deepest beside the shallow ones. How deep it really is limits the others.
    run_jobs(executor, kDepthLanes, [&](int lane) {
        if (lane == 0) return pack(0, deepest);
        for (std::int32_t depth = lane; depth <= std::min(deepest - 1, kShallow);
             depth += kDepthLanes - 1) {
            pack(lane, depth);
        }
    });
    const std::int32_t end = best[at(deepest)] ? best[at(deepest)]->depth : deepest;
    const std::vector<std::int32_t> order = spread_order(kShallow + 1, end);
    for (std::size_t k = 0; k < order.size(); k += at(kDepthLanes)) {
        const std::size_t n = std::min(at(kDepthLanes), order.size() - k);
        run_jobs(executor, static_cast<int>(n), [&](int lane) { pack(lane, order[k + at(lane)]); });
    }
    for (std::optional<BlockPlan>& plan : best) {
        if (plan && (curve.empty() || plan->flow > curve.back().flow))
            curve.push_back(std::move(*plan));
    }
    return curve;
}

}  // namespace helix::plan
