#include "core/routing/request_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/effort.h"
#include "base/random.h"
#include "core/routing/router_catalogue.h"

namespace helix::core::request_router_test {
namespace {

using spec::kCoordinator;

const StageFits kAlways = [](WorkerId, LayerRange) { return true; };

WorkerId worker(std::int32_t i) {
    return {static_cast<std::uint32_t>(i)};
}

PipelineEdge edge(std::int32_t from, std::int32_t to, double flow) {
    return {from, to, flow, 0, 0};
}

// Ranges and flows without any plan behind them: overlaps, gaps, edges that cannot be used.
struct Layout {
    std::int32_t n_layers = 0;
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
    PipelineGraph graph() const { return {n_layers, nodes, edges}; }
};

Layout random_layout(base::Random& random) {
    Layout made;
    made.n_layers = static_cast<std::int32_t>(random.between(1, 8));
    const auto n = static_cast<std::int32_t>(random.between(1, 6));
    for (std::int32_t i = 0; i < n; ++i) {
        const auto begin = static_cast<std::int32_t>(random.between(0, made.n_layers - 1));
        const auto end = static_cast<std::int32_t>(random.between(begin, made.n_layers));
        made.nodes.push_back({worker(i), {begin, end}});
    }
    for (std::int32_t from = kCoordinator; from < n; ++from) {
        for (std::int32_t to = kCoordinator; to < n; ++to) {
            if (from == to || random.chance(0.2)) continue;
            made.edges.push_back(edge(from, to, random.chance(0.1) ? 0.0 : random.uniform() * 100));
        }
    }
    return made;
}

// Whether there is a pipeline over edges that carry flow (or over all edges). Tries all of them,
// independently of graph and routers.
bool exists(const Layout& p, bool planned, const StageFits& fits, std::int32_t at = kCoordinator,
            std::int32_t position = 0) {
    for (const PipelineEdge& e : p.edges) {
        if (e.from != at || (planned && e.flow_tokens_per_s <= 1e-9)) continue;
        if (e.to == kCoordinator) {
            if (at != kCoordinator && position == p.n_layers) return true;
            continue;
        }
        const LayerRange next = p.nodes[static_cast<std::size_t>(e.to)].layers;
        if (at == kCoordinator && next.begin != 0) continue;
        if (next.begin > position || next.end <= position) continue;
        if (!fits(worker(e.to), {position, next.end})) continue;
        if (exists(p, planned, fits, e.to, next.end)) return true;
    }
    return false;
}

// Does what a coordinator does around a router, with loads that it makes up.
class Driver {
  public:
    Driver(const RouterKind& kind, PipelineGraph graph, std::uint64_t seed = 1)
        : router_(kind.make({std::move(graph), seed})) {}

    Path route(std::int64_t rows, const StageFits& fits = kAlways, bool others_run = true) {
        const RoutedRequest request{{next_++}, now_, rows, 0, others_run};
        Path path = router_->route(request, fits, [&](WorkerId w) {
            const WorkerReport& report = reports_[w.value];
            return WorkerLoad{0, 0, 100, &report};
        });
        if (!path.empty()) router_->on_sent(path, rows);
        return path;
    }
    Pipeline pipeline(std::int64_t rows, const StageFits& fits = kAlways) {
        const Path path = route(rows, fits);
        return path.empty() ? Pipeline{} : router_->graph().pipeline(path);
    }
    void report(std::int32_t w, std::int64_t waiting_rows) {
        WorkerReport& report = reports_[static_cast<std::uint32_t>(w)];
        report.waiting_rows = waiting_rows;
        router_->on_report(worker(w), report);
    }
    RequestRouter& router() { return *router_; }

  private:
    std::unique_ptr<RequestRouter> router_;
    std::map<std::uint32_t, WorkerReport> reports_;
    TimePoint now_;
    std::uint64_t next_ = 0;
};

// Every router of the program.
class AnyRouter : public ::testing::TestWithParam<std::string> {
  protected:
    RouterKind kind() const { return find_router(GetParam()).value(); }
    bool planned() const {  // over the planned links only
        return GetParam() == "helix" || GetParam() == "separate" || GetParam() == "freest" ||
               GetParam() == "llumnix";
    }
    bool whole() const { return GetParam() == "separate"; }  // picks among fewer pipelines
};

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const RouterKind& kind : router_kinds()) names.push_back(kind.name);
    return names;
}
std::string test_name(const ::testing::TestParamInfo<std::string>& param) {
    std::string name = param.param;
    std::erase(name, '-');
    return name;
}
INSTANTIATE_TEST_SUITE_P(All, AnyRouter, ::testing::ValuesIn(all_names()), test_name);

void expect_valid(const Layout& layout, const Pipeline& pipeline, const StageFits& fits) {
    std::int32_t next = 0;
    for (const Stage& stage : pipeline) {
        ASSERT_EQ(stage.layers.begin, next);
        ASSERT_FALSE(stage.layers.empty());
        ASSERT_TRUE(fits(stage.worker, stage.layers));
        const LayerRange held = layout.nodes[stage.worker.value].layers;
        ASSERT_TRUE(held.contains(stage.layers));
        ASSERT_EQ(held.end, stage.layers.end);
        next = stage.layers.end;
    }
    ASSERT_EQ(next, layout.n_layers);
}

TEST_P(AnyRouter, EveryPipelineJoinsAndOneIsFoundWheneverOneExists) {
    constexpr int kLayouts = kSanitized ? 500 : 10000;
    int found = 0;
    for (int seed = 0; seed < kLayouts; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        base::Random random(static_cast<std::uint64_t>(seed));
        const Layout layout = random_layout(random);
        Driver driver(kind(), layout.graph());
        std::vector<Path> running;
        for (int step = 0; step < 6; ++step) {
            std::set<std::uint32_t> full;
            for (const PipelineNode& node : layout.nodes) {
                if (random.chance(0.3)) full.insert(node.worker.value);
            }
            const StageFits fits = [&](WorkerId w, LayerRange) { return !full.contains(w.value); };
            const bool there_is = driver.router().can_route(fits);
            const bool exists_any = exists(layout, planned(), fits);
            ASSERT_TRUE(whole() ? exists_any || !there_is : exists_any == there_is);
            const auto rows = static_cast<std::int64_t>(1 + random.below(1000));
            const Path path = driver.route(rows, fits);
            ASSERT_EQ(!path.empty(), there_is);
            if (path.empty()) continue;
            ++found;
            const Pipeline pipeline = driver.router().graph().pipeline(path);
            expect_valid(layout, pipeline, fits);
            ASSERT_EQ(driver.router().graph().path(pipeline), path);
            running.push_back(path);
            // Feedback of all kinds comes in between.
            if (random.chance(0.5)) {
                driver.router().on_returned(path, rows, base::from_seconds(random.uniform()));
                driver.router().on_sent(path, 1);
            }
            driver.report(0, static_cast<std::int64_t>(random.below(50)));
        }
        for (const Path& path : running) driver.router().on_ended(path, 1);
        ASSERT_EQ(driver.router().can_route(kAlways), exists(layout, planned(), kAlways));
    }
    EXPECT_GT(found, kLayouts / 2);  // the draw is not trivially empty
}

TEST_P(AnyRouter, EqualSeedsAndEventsGiveEqualRoutes) {
    for (int seed = 0; seed < 200; ++seed) {
        base::Random random(static_cast<std::uint64_t>(seed));
        const Layout layout = random_layout(random);
        Driver a(kind(), layout.graph(), 7);
        Driver b(kind(), layout.graph(), 7);
        for (int i = 0; i < 20; ++i) {
            const Path path = a.route(i + 1);
            ASSERT_EQ(path, b.route(i + 1)) << "seed " << seed;
            for (Driver* driver : {&a, &b}) {
                driver->router().on_returned(path, 1, base::from_ms(i));
                driver->report(0, i);
            }
        }
    }
}

TEST_P(AnyRouter, PartialOverlapRunsOnlyWhatIsLeft) {
    const PipelineGraph graph(8, {{worker(0), {0, 5}}, {worker(1), {3, 8}}},
                              {edge(kCoordinator, 0, 1), edge(0, 1, 1), edge(1, kCoordinator, 1)});
    Driver driver(kind(), graph);
    EXPECT_EQ(driver.pipeline(1), (Pipeline{{worker(0), {0, 5}}, {worker(1), {5, 8}}}));
}

TEST_P(AnyRouter, AFullWorkerDeepInTheRouteIsAvoidedAtTheFirstHop) {
    // 0 leads only to 2, which is full; 1 leads only to 3.
    const PipelineGraph graph(
        4, {{worker(0), {0, 2}}, {worker(1), {0, 2}}, {worker(2), {2, 4}}, {worker(3), {2, 4}}},
        {edge(kCoordinator, 0, 99), edge(kCoordinator, 1, 1), edge(0, 2, 99), edge(1, 3, 1),
         edge(2, kCoordinator, 99), edge(3, kCoordinator, 1)});
    const StageFits fits = [](WorkerId w, LayerRange) { return w.value != 2; };
    for (int i = 0; i < 5; ++i) {
        Driver driver(kind(), graph, static_cast<std::uint64_t>(i));
        EXPECT_EQ(driver.pipeline(1, fits), (Pipeline{{worker(1), {0, 2}}, {worker(3), {2, 4}}}));
    }
}

TEST_P(AnyRouter, NothingFitsGivesNothingAndChangesNothing) {
    const PipelineGraph graph(4, {{worker(0), {0, 4}}, {worker(1), {0, 4}}},
                              {edge(kCoordinator, 0, 1), edge(kCoordinator, 1, 1),
                               edge(0, kCoordinator, 1), edge(1, kCoordinator, 1)});
    Driver a(kind(), graph);
    Driver b(kind(), graph);
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(a.route(1, [](WorkerId, LayerRange) { return false; }).empty());
        EXPECT_EQ(a.route(1), b.route(1));
    }
}

// ---- what each does with the choice
// ---------------------------------------------------------------

// Two equal first stages, one second.
PipelineGraph fork(double flow_0, double flow_1) {
    return {4,
            {{worker(0), {0, 2}}, {worker(1), {0, 2}}, {worker(2), {2, 4}}},
            {edge(kCoordinator, 0, flow_0), edge(kCoordinator, 1, flow_1), edge(0, 2, flow_0),
             edge(1, 2, flow_1), edge(2, kCoordinator, flow_0 + flow_1)}};
}

TEST(MaxFlowRouter, SharesFollowTheFlowWithoutBursts) {
    Driver driver(max_flow_router(), fork(30, 10));
    std::map<std::uint32_t, int> count;
    int run = 0;
    int longest = 0;
    std::uint32_t last = 99;
    for (int i = 0; i < 4000; ++i) {
        const Pipeline pipeline = driver.pipeline(1);
        ASSERT_EQ(pipeline.size(), 2U);
        const std::uint32_t first = pipeline[0].worker.value;
        ++count[first];
        run = first == last ? run + 1 : 1;
        longest = std::max(longest, run);
        last = first;
    }
    EXPECT_NEAR(count[0] / 4000.0, 0.75, 0.01);
    EXPECT_LE(longest, 3);  // weights 3:1 never send more than 3 in a row the same way
}

TEST(MaxFlowRouter, SharesFollowTheFlowOnRandomLayouts) {
    int checked = 0;
    for (int seed = 0; seed < 300; ++seed) {
        base::Random random(static_cast<std::uint64_t>(seed));
        const Layout layout = random_layout(random);
        Driver driver(max_flow_router(), layout.graph());
        const PipelineGraph& graph = driver.router().graph();
        if (!driver.router().can_route(kAlways)) continue;
        const StageFits& fits = kAlways;
        std::vector<double> rows(graph.edges().size());
        double heaviest = 0;
        for (int i = 0; i < 2000; ++i) {
            const auto weight = static_cast<std::int64_t>(1 + random.below(50));
            heaviest = std::max(heaviest, static_cast<double>(weight));
            for (const std::int32_t e : driver.route(weight)) {
                rows[static_cast<std::size_t>(e)] += static_cast<double>(weight);
            }
        }
        // At every node: rows over flow are equal on all open edges, but for one request's.
        for (std::int32_t at = kCoordinator; at < static_cast<std::int32_t>(layout.nodes.size());
             ++at) {
            LookAhead look(graph, fits);
            double least = 1e300;
            double most = 0;
            double room = 0;
            for (const std::int32_t e : graph.out(at)) {
                if (!look.open(e)) continue;
                const double load =
                    rows[static_cast<std::size_t>(e)] / graph.edge(e).flow_tokens_per_s;
                least = std::min(least, load);
                most = std::max(most, load);
                room = std::max(room, heaviest / graph.edge(e).flow_tokens_per_s);
            }
            if (most == 0) continue;
            ++checked;
            ASSERT_LE(most - least, room * 1.001) << "seed " << seed << " node " << at;
        }
    }
    EXPECT_GT(checked, 100);
}

// How many of so many requests go to the first machine, that are asked at once when there are no
// others.
template <typename Choose>
int first_of_burst(Driver& driver, int requests, const Choose& answer) {
    std::vector<Path> paths;
    int first = 0;
    for (int i = 0; i < requests; ++i) {
        paths.push_back(driver.route(20, kAlways, i > 0));
        first += driver.router().graph().pipeline(paths.back())[0].worker.value == 0 ? 1 : 0;
    }
    for (int i = 0; i < requests; ++i) {
        driver.router().on_sent(paths[static_cast<std::size_t>(i)], answer(i));
        driver.router().on_ended(paths[static_cast<std::size_t>(i)], 0);
    }
    return first;
}

class SharesOfABurst : public ::testing::TestWithParam<std::string> {
  protected:
    // Machines that each hold the whole model.
    Driver machines(double flow_0, double flow_1) const {
        return {find_router(GetParam()).value(),
                PipelineGraph(4, {{worker(0), {0, 4}}, {worker(1), {0, 4}}},
                              {edge(kCoordinator, 0, flow_0), edge(kCoordinator, 1, flow_1),
                               edge(0, kCoordinator, flow_0), edge(1, kCoordinator, flow_1)})};
    }
};
INSTANTIATE_TEST_SUITE_P(OfThePlan, SharesOfABurst,
                         ::testing::Values("helix", "separate", "freest"));

// A long answer before is no reason for one machine to stand idle while the other has four.
TEST_P(SharesOfABurst, AreEvenOnEqualMachinesWhateverWasAnsweredBefore) {
    for (const int before : {0, 1, 2, 3}) {
        Driver driver = machines(10, 10);
        for (int i = 0; i < before; ++i) {
            first_of_burst(driver, 1, [](int) { return 500 + 40; });
        }
        EXPECT_EQ(first_of_burst(driver, 4, [](int) { return 1; }), 2) << before;
        EXPECT_EQ(first_of_burst(driver, 8, [](int i) { return i * 100; }), 4) << before;
        EXPECT_EQ(first_of_burst(driver, 4, [](int) { return 1; }), 2) << before;
    }
}

TEST_P(SharesOfABurst, FollowTheFlowOnUnequalMachines) {
    for (const int before : {0, 1, 2, 3}) {
        Driver driver = machines(30, 10);
        for (int i = 0; i < before; ++i) first_of_burst(driver, 1, [](int) { return 500; });
        EXPECT_EQ(first_of_burst(driver, 4, [](int) { return 1; }), 3) << before;
        EXPECT_EQ(first_of_burst(driver, 8, [](int i) { return i * 100; }), 6) << before;
    }
}

TEST_P(SharesOfABurst, AreInTheLongRunThoseOfTheFlowHoweverFewComeAtOnce) {
    for (const int at_once : {1, 2, 3}) {
        Driver driver = machines(30, 10);
        base::Random random(5);
        std::int64_t rows[2] = {0, 0};
        for (int burst = 0; burst < 3000; ++burst) {
            bool others = false;
            std::vector<Path> paths;
            for (int i = 0; i < at_once; ++i) {
                paths.push_back(driver.route(20, kAlways, std::exchange(others, true)));
            }
            for (const Path& path : paths) {
                const auto answer = static_cast<std::int64_t>(1 + random.below(200));
                driver.router().on_sent(path, answer);
                driver.router().on_ended(path, 0);
                const Pipeline pipeline = driver.router().graph().pipeline(path);
                rows[pipeline[0].worker.value] += 20 + answer;
            }
        }
        const double share = static_cast<double>(rows[0]) / static_cast<double>(rows[0] + rows[1]);
        EXPECT_NEAR(share, 0.75, 0.01) << at_once << " at once";
    }
}

TEST(RandomRouter, DrawsEvenlyWhateverThePlanSays) {
    Driver driver(random_router(), fork(39, 0));
    int first = 0;
    for (int i = 0; i < 2000; ++i) first += driver.pipeline(1)[0].worker.value == 0 ? 1 : 0;
    EXPECT_NEAR(first, 1000, 100);
}

TEST(ShortestQueueRouter, CountsWhatWasReportedAndWhatWentSince) {
    Driver driver(shortest_queue_router(), fork(1, 1));
    driver.report(0, 10);
    driver.report(1, 4);
    EXPECT_EQ(driver.pipeline(5)[0].worker, worker(1));  // 10 and 4
    EXPECT_EQ(driver.pipeline(5)[0].worker, worker(1));  // 10 and 9
    const Path path = driver.route(5);                   // 10 and 14
    EXPECT_EQ(driver.router().graph().pipeline(path)[0].worker, worker(0));
    driver.report(1, 20);
    driver.router().on_returned(path, 5, base::from_ms(1));  // 10 and 20
    EXPECT_EQ(driver.pipeline(15)[0].worker, worker(0));
    EXPECT_EQ(driver.pipeline(1)[0].worker, worker(1));  // 25 and 20
}

TEST(SwarmRouter, FasterWorkersGetMore) {
    Driver driver(swarm_router(), fork(1, 1));
    std::map<std::uint32_t, int> count;
    for (int i = 0; i < 3000; ++i) {
        const Path path = driver.route(1);
        const bool slow = driver.router().graph().pipeline(path)[0].worker.value == 1;
        driver.router().on_returned(path, 1, base::from_ms(slow ? 400 : 100));
        if (i >= 1000) ++count[slow ? 1 : 0];
    }
    EXPECT_GT(count[0], 2 * count[1]);
    EXPECT_GT(count[1], 100);
}

TEST(SeparateRouter, OnSeparatePipelinesItIsTheMaxFlowRouter) {
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
    base::Random random(3);
    for (std::int32_t lane = 0; lane < 4; ++lane) {
        const double flow = 10 + random.uniform() * 50;
        edges.push_back(edge(kCoordinator, 2 * lane, flow));
        edges.push_back(edge(2 * lane, 2 * lane + 1, flow));
        edges.push_back(edge(2 * lane + 1, kCoordinator, flow));
        nodes.push_back({worker(2 * lane), {0, 3}});
        nodes.push_back({worker(2 * lane + 1), {3, 8}});
    }
    Driver separate(separate_router(), {8, nodes, edges});
    Driver max_flow(max_flow_router(), {8, nodes, edges});
    for (int i = 0; i < 2000; ++i) {
        const auto rows = static_cast<std::int64_t>(1 + random.below(500));
        const std::uint32_t full = static_cast<std::uint32_t>(random.below(12));
        const StageFits fits = [&](WorkerId w, LayerRange) { return w.value != full; };
        ASSERT_EQ(separate.pipeline(rows, fits), max_flow.pipeline(rows, fits)) << i;
    }
}

TEST(SeparateRouter, OfAnyPlanItTakesTheWidestPipelinesThatShareNoWorker) {
    // 0 and 1 into 2 and 3: the widest is 0-3, which leaves 1-2.
    const PipelineGraph graph(
        4, {{worker(0), {0, 2}}, {worker(1), {0, 2}}, {worker(2), {2, 4}}, {worker(3), {2, 4}}},
        {edge(kCoordinator, 0, 50), edge(kCoordinator, 1, 20), edge(0, 2, 10), edge(0, 3, 40),
         edge(1, 2, 20), edge(2, kCoordinator, 30), edge(3, kCoordinator, 40)});
    Driver driver(separate_router(), graph);
    std::map<std::uint32_t, int> count;
    for (int i = 0; i < 300; ++i) {
        const Pipeline pipeline = driver.pipeline(1);
        ASSERT_EQ(pipeline[0].worker.value + pipeline[1].worker.value, 3U);
        ++count[pipeline[0].worker.value];
    }
    EXPECT_EQ(count[0], 200);  // 40 to 20
    EXPECT_EQ(count[1], 100);
}

// ---- the graph
// ------------------------------------------------------------------------------------

TEST(PipelineGraph, KnowsTheShortestWayAndWhichOfAnOldPlacementAreLeft) {
    const PipelineGraph graph(
        4, {{worker(5), {0, 2}}, {worker(3), {2, 4}}, {worker(9), {0, 4}}},
        {edge(kCoordinator, 0, 1), edge(0, 1, 1), edge(1, kCoordinator, 1), edge(0, 2, 1),
         edge(kCoordinator, 2, 0), edge(2, kCoordinator, 1), edge(kCoordinator, 0, 2)});
    EXPECT_EQ(graph.min_depth(), 1);
    EXPECT_EQ(graph.planned().min_depth(), 2);
    EXPECT_EQ(graph.edge(graph.out(kCoordinator)[0]).flow_tokens_per_s, 3) << "one edge of two";
    EXPECT_EQ(graph.node_of(worker(3)), 1);
    EXPECT_EQ(graph.node_of(worker(4)), -1);
    const Pipeline two = {{worker(5), {0, 2}}, {worker(3), {2, 4}}};
    EXPECT_EQ(graph.pipeline(graph.path(two)), two);
    EXPECT_TRUE(graph.path({{worker(9), {0, 4}}}).size() == 2);
    EXPECT_TRUE(graph.planned().path({{worker(9), {0, 4}}}).empty()) << "no such edge";
    EXPECT_TRUE(graph.path({{worker(5), {0, 3}}, {worker(3), {3, 4}}}).empty()) << "other layers";
    EXPECT_TRUE(graph.path({{worker(7), {0, 4}}}).empty()) << "no such worker";
    EXPECT_FALSE(graph.is_path({graph.out(kCoordinator)[0]})) << "does not end";
}

struct LlumnixCase {
    const char* what;
    std::vector<double> freeness;  // of four workers: two first halves, two second ones
    std::vector<std::uint32_t> full;
    std::vector<std::uint32_t> way;
};

TEST(LlumnixRouter, TakesTheWayWhoseFullestWorkerIsTheFreest) {
    constexpr double kDrained = -std::numeric_limits<double>::infinity();
    const std::vector<LlumnixCase> cases = {
        {"the freest of each half", {10, 40, 30, 20}, {}, {1, 2}},
        {"a half that is full decides", {10, 5, 1, 2}, {}, {0, 3}},
        {"ties go to the first", {7, 7, 7, 7}, {}, {0, 2}},
        {"what has no room is left out", {10, 40, 30, 20}, {1}, {0, 2}},
        {"more than its memory, by the least", {-9, -3, -2, -1}, {}, {1, 2}},
        {"the last choice is what is drained", {kDrained, -3, 5, kDrained}, {}, {1, 2}},
        {"but it is one", {kDrained, -3, 5, kDrained}, {1}, {0, 2}},
    };
    const PipelineGraph graph(
        4, {{worker(0), {0, 2}}, {worker(1), {0, 2}}, {worker(2), {2, 4}}, {worker(3), {2, 4}}},
        {edge(kCoordinator, 0, 1), edge(kCoordinator, 1, 1), edge(0, 2, 1), edge(0, 3, 1),
         edge(1, 2, 1), edge(1, 3, 1), edge(2, kCoordinator, 1), edge(3, kCoordinator, 1)});
    for (const LlumnixCase& c : cases) {
        SCOPED_TRACE(c.what);
        const auto router = llumnix_router().make({graph, 0});
        EXPECT_TRUE(router->wants_freeness());
        const WorkerReport report;
        const Path path = router->route(
            {{1}, {}, 100},
            [&](WorkerId w, LayerRange) {
                return std::find(c.full.begin(), c.full.end(), w.value) == c.full.end();
            },
            [&](WorkerId w) {
                return WorkerLoad{0, 0, 100, &report, c.freeness[w.value]};
            });
        std::vector<std::uint32_t> way;
        for (const Stage& stage : router->graph().pipeline(path)) way.push_back(stage.worker.value);
        // Where the second stage decides nothing, any of it may be taken.
        ASSERT_EQ(way.size(), 2U);
        const auto narrowest = [&](const std::vector<std::uint32_t>& one) {
            return std::min(c.freeness[one[0]], c.freeness[one[1]]);
        };
        EXPECT_EQ(way[0], c.way[0]);
        EXPECT_EQ(narrowest(way), narrowest(c.way));
    }
}

TEST(RouterCatalogue, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
    const auto kind = find_router("fastest");
    ASSERT_FALSE(kind.ok());
    EXPECT_EQ(
        kind.error().message,
        "--scheduler: 'fastest' is none of helix, swarm, random, shortest-queue, separate, freest, "
        "llumnix");
    EXPECT_NE(list_routers().find("\nswarm: deals requests"), std::string::npos);
}

}  // namespace
}  // namespace helix::core::request_router_test
