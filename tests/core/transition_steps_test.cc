#include "core/coordinator/transition_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/random.h"
#include "core/routing/pipeline_graph.h"

namespace helix::core::transition_steps_test {
namespace {

using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;

// Links from every machine to every other, and from the coordinator to all.
Links full_mesh(std::int32_t n) {
    Links links;
    for (std::int32_t a = spec::kCoordinator; a < n; ++a) {
        for (std::int32_t b = spec::kCoordinator; b < n; ++b) {
            if (a != b) links.emplace_back(a, b);
        }
    }
    return links;
}

// Whether there is a pipeline of these ranges, by the graph that requests are routed through.
bool complete(std::int32_t n_layers, const std::vector<LayerRange>& held, const Links& links) {
    std::vector<PipelineNode> nodes;
    for (std::size_t i = 0; i < held.size(); ++i) {
        nodes.push_back({{static_cast<std::uint32_t>(i)}, held[i]});
    }
    std::vector<PipelineEdge> edges;
    for (const auto& [from, to] : links) edges.push_back({from, to, 1, 0, 0});
    const PipelineGraph graph(n_layers, nodes, edges);
    return graph.reachable([](WorkerId, LayerRange) { return true; });
}

// The ranges while the nodes in away change; those in changed have changed already.
std::vector<LayerRange> held(const std::vector<TransitionNode>& nodes, std::uint64_t changed,
                             std::uint64_t away) {
    std::vector<LayerRange> ranges;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        ranges.push_back((changed >> i & 1) != 0 ? nodes[i].next : nodes[i].now);
        if ((away >> i & 1) != 0) ranges.back() = {};
    }
    return ranges;
}

// Tries all orders, one after another.
bool some_order_serves(std::int32_t n_layers, const std::vector<TransitionNode>& nodes,
                       const Links& links) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        all |= nodes[i].changes ? std::uint64_t{1} << i : 0;
    if (!complete(n_layers, held(nodes, 0, 0), links)) return false;
    std::set<std::uint64_t> reached = {0};
    std::vector<std::uint64_t> open = {0};
    while (!open.empty()) {
        const std::uint64_t changed = open.back();
        open.pop_back();
        for (std::uint64_t bit = 1; bit <= all; bit <<= 1) {
            if ((all & bit) == 0 || (changed & bit) != 0) continue;
            if (!complete(n_layers, held(nodes, changed, bit), links)) continue;
            if (reached.insert(changed | bit).second) open.push_back(changed | bit);
        }
    }
    return reached.contains(all);
}

std::string text(const std::vector<TransitionNode>& nodes) {
    std::string all;
    for (const TransitionNode& node : nodes) {
        all += "[" + std::to_string(node.now.begin) + "," + std::to_string(node.now.end) + ")->[" +
               std::to_string(node.next.begin) + "," + std::to_string(node.next.end) + ")" +
               (node.changes ? " " : "= ");
    }
    return all;
}

// Takes the steps; false if service stopped. Every step must do what it says.
bool walk(std::int32_t n_layers, std::vector<TransitionNode> nodes, const Links& links) {
    bool served = true;
    for (std::size_t steps = 0; steps <= nodes.size(); ++steps) {
        const TransitionStep step = next_transition_step(n_layers, nodes, links);
        if (step.nodes.empty()) {
            EXPECT_TRUE(std::none_of(nodes.begin(), nodes.end(),
                                     [](const TransitionNode& n) { return n.changes; }));
            return served;
        }
        std::uint64_t away = 0;
        for (const std::int32_t i : step.nodes) away |= std::uint64_t{1} << i;
        EXPECT_EQ(step.serves, complete(n_layers, held(nodes, 0, away), links));
        served = served && step.serves;
        for (const std::int32_t i : step.nodes) {
            TransitionNode& node = nodes[static_cast<std::size_t>(i)];
            EXPECT_TRUE(node.changes);
            node.now = node.next;
            node.changes = false;
        }
    }
    ADD_FAILURE() << "it does not end";
    return served;
}

TEST(TransitionSteps, ServiceStopsOnlyWhereEveryOrderStopsIt) {
    constexpr std::int32_t kLayers = 4;
    std::int32_t with_order = 0;
    std::int32_t without = 0;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(2 + random.below(4));
        const auto range = [&]() -> LayerRange {
            if (random.below(8) == 0) return {};
            const auto begin = static_cast<std::int32_t>(random.below(kLayers));
            const auto size = 1 + random.below(static_cast<std::uint64_t>(kLayers - begin));
            return {begin, begin + static_cast<std::int32_t>(size)};
        };
        std::vector<TransitionNode> nodes;
        for (std::int32_t i = 0; i < n; ++i) {
            TransitionNode node{range(), range(), true};
            if (random.below(4) == 0) node.next = node.now;
            node.changes = node.now != node.next;
            nodes.push_back(node);
        }
        Links links = full_mesh(n);
        if (random.below(2) == 0) {
            std::erase_if(links, [&](const auto&) { return random.below(5) == 0; });
        }
        std::vector<LayerRange> last;
        for (const TransitionNode& node : nodes) last.push_back(node.next);
        if (!complete(kLayers, last, links)) continue;  // no planner would say so
        const bool possible = some_order_serves(kLayers, nodes, links);
        ++(possible ? with_order : without);
        EXPECT_EQ(walk(kLayers, nodes, links), possible) << "seed " << seed << ": " << text(nodes);
    }
    EXPECT_GT(with_order, 200);
    EXPECT_GT(without, 200);
}

TEST(TransitionSteps, ALaneThatIsOfNoUseWithoutOneOfItsMachinesChangesAtOnce) {
    const std::vector<TransitionNode> nodes = {{{0, 4}, {0, 5}, true},
                                               {{4, 8}, {5, 8}, true},
                                               {{0, 3}, {0, 2}, true},
                                               {{3, 6}, {2, 6}, true},
                                               {{6, 8}, {6, 8}, false}};
    const Links links = {{-1, 0}, {0, 1}, {1, -1}, {-1, 2}, {2, 3}, {3, 4}, {4, -1}};
    const TransitionStep step = next_transition_step(8, nodes, links);
    EXPECT_TRUE(step.serves);
    EXPECT_TRUE(step.nodes == std::vector<std::int32_t>({0, 1}) ||
                step.nodes == std::vector<std::int32_t>({2, 3}));
    EXPECT_TRUE(walk(8, nodes, links));
}

TEST(TransitionSteps, OfASingleChainTheNewMachineLoadsWhileTheOthersServe) {
    const std::vector<TransitionNode> nodes = {
        {{0, 4}, {0, 3}, true}, {{4, 8}, {3, 6}, true}, {{}, {6, 8}, true}};
    const TransitionStep first = next_transition_step(8, nodes, full_mesh(3));
    EXPECT_EQ(first.nodes, (std::vector<std::int32_t>{2}));
    EXPECT_TRUE(first.serves);
    std::vector<TransitionNode> later = nodes;
    later[2] = {{6, 8}, {6, 8}, false};
    const TransitionStep second = next_transition_step(8, later, full_mesh(3));
    EXPECT_EQ(second.nodes, (std::vector<std::int32_t>{0, 1}));
    EXPECT_FALSE(second.serves) << "no order keeps a pipeline";
}

TEST(TransitionSteps, FortyMachinesAreOrderedQuickly) {
    std::vector<TransitionNode> nodes;
    for (std::int32_t i = 0; i < 40; ++i) {
        const std::int32_t begin = i % 4 * 20;
        nodes.push_back({{begin, begin + 20}, {80 - begin - 20, 80 - begin}, true});
    }
    EXPECT_TRUE(walk(80, nodes, full_mesh(40)));
}

}  // namespace
}  // namespace helix::core::transition_steps_test
