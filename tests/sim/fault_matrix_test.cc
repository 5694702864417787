// One small migration, and everything that can go wrong once in it: each of its messages lost,
// doubled or late, and each worker killed as each of them goes out; then kills together with a
// loss. Every case must end with the same tokens, each migration ended once, and nothing held
// anywhere.
//
// A failure names its case; HELIX_FAULT_CASE=NUMBER runs it alone, with all that happens.
// HELIX_SWEEPS=all pairs every kill with every loss; else with those of the next messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/effort.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/flat_cost.h"

namespace helix::sim::fault_matrix_test {
namespace {

constexpr std::int32_t kLayers = 4;
constexpr std::int32_t kVocab = 200;
constexpr std::int32_t kWorkers = 6;
constexpr double kDownSeconds = 1.5;

// From w0 w1 to w2 w3 w4; w5 looks on. With a shared worker: to w0 w3 w4.
constexpr spec::LayerRange kHeld[kWorkers] = {{0, 2}, {2, 4}, {0, 1}, {1, 3}, {3, 4}, {0, 4}};
const core::Pipeline kFrom = {{{0}, {0, 2}}, {{1}, {2, 4}}};

core::CoordinatorEvent plan(const core::PlanCluster& request) {
    core::Planned planned;
    planned.plan = request.plan;
    for (const core::WorkerId id : request.workers) {
        planned.placement.layers.push_back(kHeld[id.value]);
    }
    const auto& held = planned.placement.layers;
    const auto n = static_cast<std::int32_t>(held.size());
    for (std::int32_t layer = 0; layer < kLayers; ++layer) {
        if (std::none_of(held.begin(), held.end(),
                         [&](spec::LayerRange range) { return range.contains(layer); })) {
            return core::NotPlanned{request.plan, "a layer has no holder"};
        }
    }
    for (std::int32_t i = 0; i < n; ++i) {
        const spec::LayerRange a = held[static_cast<std::size_t>(i)];
        const double flow = a.size() == kLayers ? 0.01 : 10;  // w5 last
        if (a.begin == 0) planned.flows.push_back({spec::kCoordinator, i, flow});
        if (a.end == kLayers) planned.flows.push_back({i, spec::kCoordinator, flow});
        for (std::int32_t j = 0; j < n; ++j) {
            const spec::LayerRange b = held[static_cast<std::size_t>(j)];
            if (b.begin <= a.end && a.end < b.end) planned.flows.push_back({i, j, 1});
        }
    }
    return planned;
}

FaultyClusterConfig config() {
    FaultyClusterConfig config;
    core::CoordinatorConfig& c = config.coordinator;
    c.n_layers = config.worker.n_layers = kLayers;
    c.block_size = config.worker.block_size = 4;
    c.context_length = 128;
    c.expected_output_tokens = 20;
    c.settle = base::from_ms(50);
    c.switch_gain = 0.5;
    c.migration.last_round_blocks = 1;
    c.migration.timeout = base::from_seconds(1);
    c.migration.hold_timeout = base::from_ms(300);
    c.lost_rows_timeout = base::from_seconds(1);
    c.assign_repeat = base::from_seconds(1);
    c.empty_timeout = base::from_seconds(1);
    config.worker.report_interval = base::from_ms(200);
    config.worker.orphan_timeout = base::from_seconds(1);
    config.worker.transfer_pages = 4;  // several parts in a round
    config.vocab = kVocab;
    config.link_latency_s = 0.002;
    config.load_s = 0.1;
    config.kv_page_bytes = 1e5;
    config.fault_seed = 1;
    return config;
}

core::Request request_of(std::int32_t n, bool beams) {
    core::Request request;
    for (core::Token token = 3; token < 17; ++token) request.prompt.push_back(token * 7 % kVocab);
    request.max_tokens = 26;
    request.sampling.seed = 11;
    request.n = n;
    if (beams) {
        request.beam = core::BeamSearch{};
        request.beam->width = n;
        request.sampling.temperature = 0;
    }
    return request;
}

// What goes wrong; the numbers are those of the messages since the move was asked for.
struct Case {
    std::int64_t lost = 0;
    std::int64_t twice = 0;
    std::int64_t late = 0;
    std::int64_t kill_at = 0;
    std::int32_t killed = 0;

    std::string text() const {
        std::string text;
        if (lost > 0) text += "message " + std::to_string(lost) + " lost ";
        if (twice > 0) text += "message " + std::to_string(twice) + " twice ";
        if (late > 0) text += "message " + std::to_string(late) + " late ";
        if (kill_at > 0)
            text += "w" + std::to_string(killed) + " killed at message " + std::to_string(kill_at);
        return text;
    }
};

struct Setting {
    const char* name;
    core::Pipeline to;
    std::int32_t n = 1;
    bool beams = false;
};

using Answers = std::map<std::int32_t, std::vector<core::Token>>;

struct Result {
    std::string broken;
    Answers answers;
    FaultCounts counts;
    std::int64_t last_letter = 0;  // of those that belong to the migration, and a little after
};

class Matrix {
  public:
    explicit Matrix(const Setting& setting) : setting_(setting) {}

    Result run(const Case& which, bool trace = false) const {
        Result result;
        FaultyClusterConfig how = config();
        how.on_broken = [&](const std::string& what) { result.broken = what; };
        const FlatCost cost(0.001, 0.1, 0.1);
        FaultyCluster world(how, plan, cost);
        if (trace)
            world.set_trace([](const std::string& line) { std::printf("%s\n", line.c_str()); });
        spec::NodeSpec node;
        for (int i = 0; i < kWorkers; ++i) {
            node.name = "w" + std::to_string(i);
            world.add_worker(node, 400);
        }
        world.run_for(1);
        const core::RequestId id = world.submit(request_of(setting_.n, setting_.beams));
        bring_to_start(world, id);
        if (result.broken.empty() && world.outcomes().at(id).pipelines.back() != kFrom)
            result.broken = "it does not begin where the script wants it";
        std::int64_t letters = 0;
        world.set_postman([&](const Letter& letter) {
            const std::int64_t committed = world.moves().commits(id);
            letters = letter.number;
            if (committed == 0 || after_commit_++ < kAfterCommit) result.last_letter = letters;
            if (letter.number == which.kill_at) world.run_faults({kill_of(which.killed)});
            Fate fate;
            fate.lost = letter.number == which.lost;
            fate.twice = letter.number == which.twice;
            if (letter.number == which.late) fate.late_s = 0.7;
            return fate;
        });
        after_commit_ = 0;
        world.tell(core::MoveRequest{id, setting_.to});
        if (!world.run_until_idle(60) && result.broken.empty())
            result.broken = "the request did not end";
        world.calm();
        world.run_for(3);  // everyone is back, what nobody wants any more is gone
        if (result.broken.empty()) result.broken = world.leak();
        const Outcome& outcome = world.outcomes().at(id);
        if (result.broken.empty() && !outcome.error.empty())
            result.broken = "it ended with an error: " + outcome.error;
        result.answers = outcome.choices;
        result.counts = world.counts();
        return result;
    }

  private:
    static constexpr int kAfterCommit = 12;

    static Fault kill_of(std::int32_t worker) {
        Fault fault;
        fault.kind = FaultKind::kill;
        fault.a = worker;
        fault.amount = 0.03;
        fault.for_us = static_cast<std::int64_t>(kDownSeconds * 1e6);
        return fault;
    }

    // It has some tokens, and runs where the script wants it.
    void bring_to_start(FaultyCluster& world, core::RequestId id) const {
        const auto tokens = [&] {
            std::size_t least = SIZE_MAX;
            const auto& choices = world.outcomes().at(id).choices;
            for (const auto& [choice, said] : choices) least = std::min(least, said.size());
            return choices.empty() ? 0 : least;
        };
        const double seconds = setting_.beams ? 0.2 : 0;
        for (int i = 0; i < 2000 && (seconds > 0 ? i < 60 : tokens() < 3); ++i) {
            world.run_for(0.002);
        }
        if (world.outcomes().at(id).pipelines.back() == kFrom) return;
        world.tell(core::MoveRequest{id, kFrom});
        for (int i = 0; i < 500 && world.moves().commits(id) == 0; ++i) world.run_for(0.002);
        world.run_for(0.02);
    }

    const Setting& setting_;
    mutable int after_commit_ = 0;
};

std::vector<Case> cases_of(std::int64_t letters, bool with_pairs) {
    std::vector<Case> cases;
    for (std::int64_t i = 1; i <= letters; ++i) {
        cases.push_back({.lost = i});
        cases.push_back({.twice = i});
        cases.push_back({.late = i});
        for (std::int32_t w = 0; w < kWorkers; ++w) cases.push_back({.kill_at = i, .killed = w});
    }
    if (!with_pairs) return cases;
    const bool every = whole_sweeps();
    for (std::int64_t i = 1; i <= letters; ++i) {
        const std::int64_t last = every ? letters : std::min(letters, i + 3);
        for (std::int64_t j = every ? 1 : i; j <= last; ++j) {
            for (std::int32_t w = 0; w < kWorkers; ++w) {
                cases.push_back({.lost = j, .kill_at = i, .killed = w});
            }
        }
    }
    return cases;
}

class FaultMatrix : public testing::TestWithParam<Setting> {};

TEST_P(FaultMatrix, WhateverGoesWrongOnceTheAnswerStaysAndNothingIsLeft) {
    const Matrix matrix(GetParam());
    const Result calm = matrix.run({});
    ASSERT_EQ(calm.broken, "");
    const core::Request asked = request_of(GetParam().n, GetParam().beams);
    if (!GetParam().beams) {
        for (const auto& [choice, tokens] : calm.answers) {
            EXPECT_EQ(tokens, toy_generate(asked.prompt, asked.max_tokens, kLayers,
                                           spec::member_seed(asked.sampling.seed,
                                                             static_cast<std::uint32_t>(choice)),
                                           kVocab));
        }
    }
    ASSERT_GE(calm.counts.moves.committed, 1) << "the script's move itself does not succeed";
    const std::vector<Case> cases = cases_of(calm.last_letter, GetParam().n == 1);
    const char* one = std::getenv("HELIX_FAULT_CASE");
    const std::size_t first = one == nullptr ? 0 : std::strtoull(one, nullptr, 10);
    const std::size_t end = one == nullptr ? cases.size() : first + 1;
    ASSERT_LE(end, cases.size());
    // With fewer cases not every kind of end would come.
    constexpr std::size_t kStride = kSanitized ? 5 : 1;
    FaultCounts total;
    for (std::size_t i = first; i < end; i += kStride) {
        const Result result = matrix.run(cases[i], one != nullptr);
        total.add(result.counts);
        const std::string which =
            std::string(GetParam().name) + ", case " + std::to_string(i) + " (" + cases[i].text() +
            ") — replay: HELIX_FAULT_CASE=" + std::to_string(i) +
            " helix_sim_test --gtest_filter='*FaultMatrix*" + GetParam().name + "'";
        ASSERT_EQ(result.broken, "") << which;
        ASSERT_EQ(result.answers, calm.answers) << which;
    }
    const MoveCounts& moves = total.moves;
    std::printf(
        "fault matrix, %s: %zu cases over %lld messages: %lld migrations committed, given up while "
        "reserving %lld, while copying %lld, in the last round %lld; kills %lld, failovers %lld, "
        "wrong = 0, leaked = 0\n",
        GetParam().name, (end - first + kStride - 1) / kStride,
        static_cast<long long>(calm.last_letter), static_cast<long long>(moves.committed),
        static_cast<long long>(moves.given_up[0]), static_cast<long long>(moves.given_up[1]),
        static_cast<long long>(moves.given_up[2]), static_cast<long long>(total.kills),
        static_cast<long long>(total.failovers));
    if (one != nullptr) return;
    for (const std::int64_t given_up : moves.given_up) EXPECT_GT(given_up, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Moves, FaultMatrix,
    testing::Values(Setting{"ToOthers", {{{2}, {0, 1}}, {{3}, {1, 3}}, {{4}, {3, 4}}}},
                    Setting{"WithASharedWorker", {{{0}, {0, 2}}, {{3}, {2, 3}}, {{4}, {3, 4}}}},
                    Setting{"Group", {{{2}, {0, 1}}, {{3}, {1, 3}}, {{4}, {3, 4}}}, 3},
                    Setting{"Beams", {{{2}, {0, 1}}, {{3}, {1, 3}}, {{4}, {3, 4}}}, 2, true}),
    [](const testing::TestParamInfo<Setting>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace helix::sim::fault_matrix_test
