#include "core/coordinator/migration_pairing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "core/routing/widest_path.h"

namespace helix::core::migration_pairing_test {
namespace {

using spec::kCoordinator;

const MayTake kAny = [](const BalanceRequest&, WorkerId, LayerRange) { return true; };

// Stages side by side: every node of a stage is linked with every node of the next.
PipelineGraph mesh(std::int32_t stages, std::int32_t per_stage, std::int32_t layers_each = 2) {
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
    for (std::int32_t s = 0; s < stages; ++s) {
        for (std::int32_t i = 0; i < per_stage; ++i) {
            const std::int32_t n = s * per_stage + i;
            nodes.push_back(
                {{static_cast<std::uint32_t>(n)}, {s * layers_each, (s + 1) * layers_each}});
            if (s == 0) edges.push_back({kCoordinator, n, 10});
            for (std::int32_t j = 0; s > 0 && j < per_stage; ++j) {
                edges.push_back({(s - 1) * per_stage + j, n, 10});
            }
            if (s + 1 == stages) edges.push_back({n, kCoordinator, 10});
        }
    }
    return {stages * layers_each, std::move(nodes), edges};
}

Path way(const PipelineGraph& graph, const std::vector<std::int32_t>& nodes) {
    Pipeline pipeline;
    for (const std::int32_t n : nodes) {
        const PipelineNode& node = graph.nodes()[static_cast<std::size_t>(n)];
        pipeline.push_back({node.worker, node.layers});
    }
    return graph.path(pipeline);
}

std::vector<std::int32_t> nodes_of(const PipelineGraph& graph, const Path& path) {
    std::vector<std::int32_t> nodes;
    for (const std::int32_t e : path) {
        if (graph.edge(e).to != kCoordinator) nodes.push_back(graph.edge(e).to);
    }
    return nodes;
}

// memory_tokens: in each layer with KV of its own.
BalanceView view_of(const PipelineGraph& graph, std::int64_t memory_tokens,
                    std::vector<BalanceRequest> requests, std::int32_t shared_kv_layers = 0) {
    BalanceView view;
    view.graph = &graph;
    view.shared_kv_layers = shared_kv_layers;
    const auto own = [&](LayerRange layers) {
        return spec::kv_layers(layers, graph.n_layers(), shared_kv_layers).size();
    };
    for (const PipelineNode& node : graph.nodes()) {
        view.nodes.emplace_back(own(node.layers), memory_tokens * own(node.layers), 0);
    }
    for (const BalanceRequest& request : requests) {
        for (const std::int32_t e : request.path) {
            if (graph.edge(e).to == kCoordinator) continue;
            view.nodes[static_cast<std::size_t>(graph.edge(e).to)].add(
                usage_at(request, own(graph.stage(graph.edge(e)).layers)));
        }
    }
    view.requests = std::move(requests);
    return view;
}

TEST(WidestPath, IsTheBestOfAllPaths) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        base::Random random(seed);
        const PipelineGraph graph = mesh(3, 3);
        std::vector<double> width(graph.edges().size());
        for (double& w : width) w = random.chance(0.2) ? -1 : random.uniform();
        const WidePath found =
            widest_path(graph, [&](std::int32_t e) { return width[static_cast<std::size_t>(e)]; });
        double best = -1;
        for (std::int32_t all = 0; all < 27; ++all) {
            const Path path = way(graph, {all % 3, 3 + all / 3 % 3, 6 + all / 9});
            double narrowest = 2;
            for (const std::int32_t e : path) {
                narrowest = std::min(narrowest, width[static_cast<std::size_t>(e)]);
            }
            best = std::max(best, narrowest);
        }
        ASSERT_EQ(found.path.empty(), best < 0) << "seed " << seed;
        if (best < 0) continue;
        EXPECT_TRUE(graph.is_path(found.path));
        EXPECT_EQ(found.width, best) << "seed " << seed;
    }
}

TEST(Pairing, AFullNodeGivesToTheFreestPath) {
    const PipelineGraph graph = mesh(2, 3);
    for (const std::int32_t shared_kv_layers : {0, 1}) {
        SCOPED_TRACE(shared_kv_layers);
        const BalanceView view = view_of(graph, 1000,
                                         {{{1}, 0, 1, way(graph, {0, 3}), 480},
                                          {{2}, 0, 2, way(graph, {0, 3}), 500},
                                          {{3}, 0, 3, way(graph, {1, 4}), 400}},
                                         shared_kv_layers);
        const auto moves = plan_moves(view, {}, kAny);
        ASSERT_EQ(moves.size(), 1U);
        EXPECT_EQ(moves[0].id.value, 1U);  // the shorter one
        EXPECT_EQ(nodes_of(graph, moves[0].to), (std::vector<std::int32_t>{2, 5}));
    }
}

TEST(Pairing, NobodyMovesWhileAllHaveRoom) {
    const PipelineGraph graph = mesh(2, 2);
    const BalanceView view = view_of(
        graph, 1000, {{{1}, 0, 1, way(graph, {0, 2}), 300}, {{2}, 0, 2, way(graph, {0, 2}), 400}});
    EXPECT_TRUE(plan_moves(view, {}, kAny).empty());
}

TEST(Pairing, WhatPreemptsIsASourceAlthoughItHasRoom) {
    const PipelineGraph graph = mesh(1, 2);
    BalanceView view = view_of(
        graph, 1000, {{{1}, 0, 1, way(graph, {0}), 300}, {{2}, 0, 2, way(graph, {0}), 300}});
    EXPECT_TRUE(plan_moves(view, {}, kAny).empty());
    view.preempts = {1, 0};
    EXPECT_EQ(plan_moves(view, {}, kAny).size(), 1U);
}

TEST(Pairing, ChoosesLowPriorityFirstThenAsConfigured) {
    const PipelineGraph graph = mesh(1, 2);
    const auto chosen = [&](MoveChoice choice, std::int32_t priority_of_2) {
        const BalanceView view = view_of(graph, 1000,
                                         {{{1}, 0, 10, way(graph, {0}), 300},
                                          {{2}, priority_of_2, 11, way(graph, {0}), 100},
                                          {{3}, 0, 12, way(graph, {0}), 200},
                                          {{4}, 0, 9, way(graph, {0}), 380}});
        PairingConfig config;
        config.choice = choice;
        const auto moves = plan_moves(view, config, kAny);
        return moves.size() == 1 ? moves[0].id.value : 0;
    };
    EXPECT_EQ(chosen(MoveChoice::shortest, 0), 2U);
    EXPECT_EQ(chosen(MoveChoice::shortest, 1), 3U);
    EXPECT_EQ(chosen(MoveChoice::longest, 0), 4U);
    EXPECT_EQ(chosen(MoveChoice::latest, 0), 3U);
}

TEST(Pairing, WhatIsNotMovableOrMayNotBeTakenStays) {
    const PipelineGraph graph = mesh(1, 2);
    const auto moves = [&](bool movable, const MayTake& may_take) {
        return plan_moves(view_of(graph, 1000,
                                  {{{1}, 0, 1, way(graph, {0}), 480, 1, movable},
                                   {{2}, 0, 2, way(graph, {0}), 500, 1, false}}),
                          {}, may_take)
            .size();
    };
    EXPECT_EQ(moves(true, kAny), 1U);
    EXPECT_EQ(moves(false, kAny), 0U);
    EXPECT_EQ(moves(true, [](const auto&, WorkerId, LayerRange) { return false; }), 0U);
}

// Only the stage at the full node changes if the other stages have no better place.
TEST(Pairing, KeepsTheStagesThatNeedNotMove) {
    const PipelineGraph graph(
        4, {{{0}, {0, 2}}, {{1}, {0, 2}}, {{2}, {2, 4}}},
        {{kCoordinator, 0, 5}, {kCoordinator, 1, 5}, {0, 2, 5}, {1, 2, 5}, {2, kCoordinator, 5}});
    BalanceView view = view_of(graph, 1000, {});
    std::vector<BalanceRequest> requests = {{{1}, 0, 1, way(graph, {0, 2}), 460},
                                            {{2}, 0, 2, way(graph, {0, 2}), 500}};
    view = view_of(graph, 1000, requests);
    view.nodes[2] = NodeLoad(2, 100'000, 0);
    for (const BalanceRequest& request : requests) view.nodes[2].add(usage_at(request, 2));
    const auto moves = plan_moves(view, {}, kAny);
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(nodes_of(graph, moves[0].to), (std::vector<std::int32_t>{1, 2}));
}

TEST(Pairing, AmongPathsThatAreAlikeTheFlowDecides) {
    const PipelineGraph graph(2, {{{0}, {0, 2}}, {{1}, {0, 2}}, {{2}, {0, 2}}},
                              {{kCoordinator, 0, 5},
                               {kCoordinator, 1, 5},
                               {kCoordinator, 2, 50},
                               {0, kCoordinator, 5},
                               {1, kCoordinator, 5},
                               {2, kCoordinator, 50}});
    const auto target = [&](std::int64_t at_2) {
        const auto moves = plan_moves(view_of(graph, 1000,
                                              {{{1}, 0, 1, way(graph, {0}), 200},
                                               {{2}, 0, 2, way(graph, {0}), 780},
                                               {{3}, 0, 3, way(graph, {2}), at_2},
                                               {{4}, 0, 4, way(graph, {1}), 10}}),
                                      {}, kAny);
        return moves.size() == 1 ? nodes_of(graph, moves[0].to)[0] : -1;
    };
    EXPECT_EQ(target(30), 2);   // less free than node 1, not much
    EXPECT_EQ(target(600), 1);  // much less
}

TEST(Pairing, ADrainingNodeGivesWhateverItHas) {
    const PipelineGraph graph = mesh(1, 2);
    BalanceView view = view_of(graph, 1000, {{{1}, 0, 1, way(graph, {0}), 30}});
    view.nodes[0].add({UsageKind::draining});
    const auto moves = plan_moves(view, {}, kAny);
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(nodes_of(graph, moves[0].to), (std::vector<std::int32_t>{1}));
}

struct World {
    PipelineGraph graph;
    BalanceView view;
};

World random_world(base::Random& random) {
    const auto stages = static_cast<std::int32_t>(random.between(1, 3));
    const auto per_stage = static_cast<std::int32_t>(random.between(2, 4));
    World world{mesh(stages, per_stage), {}};
    std::vector<BalanceRequest> requests;
    const std::int64_t count = random.between(1, 40);
    for (std::int64_t i = 0; i < count; ++i) {
        std::vector<std::int32_t> nodes;
        for (std::int32_t s = 0; s < stages; ++s) {
            // The first node of a stage gets more.
            const auto at = static_cast<std::int32_t>(
                random.chance(0.5) ? 0 : random.below(static_cast<std::uint64_t>(per_stage)));
            nodes.push_back(s * per_stage + at);
        }
        BalanceRequest request;
        request.id = {static_cast<std::uint64_t>(i + 1)};
        request.priority = static_cast<std::int32_t>(random.between(0, 1));
        request.order = static_cast<std::uint64_t>(i);
        request.path = way(world.graph, nodes);
        request.tokens = random.between(1, 400);
        requests.push_back(std::move(request));
    }
    world.view = view_of(world.graph, random.between(200, 3000), std::move(requests));
    return world;
}

// Under a load that does not change nobody moves any more after few rounds, and in no round do
// requests move both ways.
TEST(Pairing, AStaticLoadComesToRest) {
    std::size_t moved = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        base::Random random(seed);
        World world = random_world(random);
        world.view.graph = &world.graph;
        const std::size_t bound = 2 * world.view.requests.size() + 2;
        std::size_t rounds = 0;
        for (;; ++rounds) {
            ASSERT_LE(rounds, bound) << "seed " << seed;
            const auto moves = plan_moves(world.view, {}, kAny);
            if (moves.empty()) break;
            std::set<std::int32_t> gave;
            std::set<std::int32_t> took;
            std::vector<BalanceRequest> requests = world.view.requests;
            for (const Move& move : moves) {
                auto& request = *std::find_if(requests.begin(), requests.end(),
                                              [&](const auto& r) { return r.id == move.id; });
                const auto from = nodes_of(world.graph, request.path);
                const auto to = nodes_of(world.graph, move.to);
                for (const std::int32_t n : to) {
                    const bool kept = std::find(from.begin(), from.end(), n) != from.end();
                    if (!kept) took.insert(n);
                }
                const auto fullest = *std::min_element(
                    from.begin(), from.end(), [&](std::int32_t a, std::int32_t b) {
                        return world.view.nodes[static_cast<std::size_t>(a)].freeness() <
                               world.view.nodes[static_cast<std::size_t>(b)].freeness();
                    });
                gave.insert(fullest);
                request.path = move.to;
                ++moved;
            }
            for (const std::int32_t n : gave) EXPECT_FALSE(took.contains(n)) << "seed " << seed;
            const std::int64_t memory = world.view.nodes[0].memory() / 2;
            world.view = view_of(world.graph, memory, std::move(requests));
            world.view.graph = &world.graph;
        }
    }
    EXPECT_GT(moved, 200U);  // the worlds are such that there is something to do
}

// ---- as Llumnix is published

struct Held {
    std::int32_t node;
    std::int64_t tokens;
    std::int32_t priority = 0;
    bool movable = true;
};
struct PublishedCase {
    const char* what;
    std::vector<Held> requests;  // numbered from 1; every node has 1000 tokens
    std::int32_t high_headroom = 0;
    std::vector<std::pair<std::int32_t, Usage>> more = {};  // at these nodes
    std::vector<char> preempts = {};
    std::vector<std::pair<std::uint64_t, std::int32_t>> moves = {};  // request, to node
};

constexpr std::int32_t kNodes = 4;
const Usage kHead{UsageKind::head_of_line, 300, 2};

// Sources are less free than 100 tokens, destinations more.
const std::vector<PublishedCase> kPublishedCases = {
    {"all have room", {{0, 300}, {1, 800}}},
    {"a source gives to the freest",
     {{0, 450}, {0, 480}, {1, 500}, {2, 100}, {3, 200}},
     0,
     {},
     {},
     {{1, 2}}},
    {"the least free gives to the freest, the next to the next",
     {{0, 450}, {0, 500}, {1, 470}, {1, 510}, {2, 500}, {3, 100}},
     0,
     {},
     {},
     {{3, 3}, {1, 2}}},
    {"more sources than destinations",
     {{0, 450}, {0, 500}, {1, 470}, {1, 510}, {2, 480}, {2, 490}, {3, 100}},
     0,
     {},
     {},
     {{3, 3}}},
    {"no destination", {{0, 950}, {1, 900}, {2, 900}, {3, 900}}},
    {"although they only change places", {{0, 950}}, 0, {}, {}, {{1, 1}}},
    {"low priority goes first, then the shortest",
     {{0, 100, 1}, {0, 300}, {0, 290}, {0, 280, 0, false}},
     0,
     {},
     {},
     {{3, 1}}},
    {"headroom of high priority counts once",
     {{0, 100, 1}, {0, 150, 1}, {0, 200}},
     400,
     {},
     {},
     {{3, 1}}},
    {"without it that is no source", {{0, 100, 1}, {0, 150, 1}, {0, 200}}},
    {"the demand of the first in the queue makes a source",
     {{0, 300}, {0, 310}},
     0,
     {{0, kHead}},
     {},
     {{1, 1}}},
    {"what waits behind it does not", {{0, 300}, {0, 310}}, 0, {{0, {UsageKind::queued, 300, 2}}}},
    {"what is drained gives whatever it has",
     {{0, 10}},
     0,
     {{0, {UsageKind::draining}}},
     {},
     {{1, 1}}},
    {"and takes nothing", {{0, 950}}, 0, {{1, {UsageKind::draining}}}, {}, {{1, 2}}},
    {"what had to preempt is no source for that", {{0, 300}, {0, 310}}, 0, {}, {1, 0, 0, 0}},
};

PairingConfig as_published() {
    PairingConfig config;
    config.rule = PairingRule::llumnix;
    config.source_below = config.destination_above = 100;
    return config;
}

TEST(PairingAsLlumnix, MovesAsTheTableSays) {
    const PipelineGraph graph = mesh(1, kNodes);
    for (const PublishedCase& c : kPublishedCases) {
        SCOPED_TRACE(c.what);
        BalanceView view;
        view.graph = &graph;
        for (std::int32_t n = 0; n < kNodes; ++n)
            view.nodes.emplace_back(2, 2000, 2 * c.high_headroom);
        std::uint64_t id = 0;
        for (const Held& held : c.requests) {
            ++id;
            view.requests.push_back(
                {{id}, held.priority, id, way(graph, {held.node}), held.tokens, 1, held.movable});
            view.nodes[static_cast<std::size_t>(held.node)].add(usage_at(view.requests.back(), 2));
        }
        for (const auto& [node, usage] : c.more)
            view.nodes[static_cast<std::size_t>(node)].add(usage);
        view.preempts = c.preempts;
        std::vector<std::pair<std::uint64_t, std::int32_t>> moves;
        for (const Move& move : plan_moves(view, as_published(), kAny)) {
            moves.emplace_back(move.id.value, nodes_of(graph, move.to).front());
        }
        EXPECT_EQ(moves, c.moves);
    }
}

// With whole models nothing else would be said of pipelines: the freest way off the source.
TEST(PairingAsLlumnix, OfPipelinesTheFreestWayOffTheSourceTakes) {
    const PipelineGraph graph = mesh(2, 3);
    const BalanceView view = view_of(graph, 1000,
                                     {{{1}, 0, 1, way(graph, {0, 3}), 480},
                                      {{2}, 0, 2, way(graph, {0, 4}), 500},
                                      {{3}, 0, 3, way(graph, {1, 4}), 100}});
    const auto moves = plan_moves(view, as_published(), kAny);
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(moves[0].id.value, 1U);
    EXPECT_EQ(nodes_of(graph, moves[0].to), (std::vector<std::int32_t>{2, 3}))
        << "what it has of the second stage costs nothing";
}

struct RecoveredCase {
    const char* what;
    std::int64_t stays;                // tokens at node 0
    std::vector<std::int64_t> leaves;  // of the requests that leave it
    bool draining;
    std::vector<std::uint64_t> recovered;
};

TEST(PairingAsLlumnix, AMoveIsGivenUpOnceItsSourceWouldBeNone) {
    const std::vector<RecoveredCase> cases = {
        {"still full", 500, {420}, false, {}},
        {"others have ended", 300, {420}, false, {1}},
        {"two that leave count both", 350, {200, 360}, false, {}},
        {"and are given up together", 350, {100, 120}, false, {1, 2}},
        {"drained", 0, {10}, true, {}},
    };
    for (const RecoveredCase& c : cases) {
        SCOPED_TRACE(c.what);
        std::vector<NodeLoad> nodes(2, NodeLoad(2, 2000, 0));
        nodes[0].add({UsageKind::running, c.stays, 2});
        if (c.draining) nodes[0].add({UsageKind::draining});
        std::vector<MoveUnderWay> moves;
        for (const std::int64_t tokens : c.leaves) {
            const Usage usage{UsageKind::running, tokens, 2};
            nodes[1].add(usage);
            moves.push_back({{moves.size() + 1}, {{0, usage}}});
        }
        std::vector<std::uint64_t> recovered;
        PairingConfig config = as_published();
        config.source_below = 50;
        for (const RequestId id : recovered_moves(nodes, moves, config))
            recovered.push_back(id.value);
        EXPECT_EQ(recovered, c.recovered);
    }
}

}  // namespace
}  // namespace helix::core::migration_pairing_test
