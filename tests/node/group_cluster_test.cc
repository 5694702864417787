// Several answers to a prompt over real sockets, workers and a real model: where memory is so short
// that requests are preempted all the time, they say what they say on an idle machine.

#include <gtest/gtest.h>

#include <filesystem>

#include "base/effort.h"
#include "model/synth.h"
#include "node/cluster_fixture.h"
#include "node/even_coordinator.h"

namespace helix::node::group_cluster_test {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

using Choices = std::map<std::int32_t, std::vector<spec::Token>>;

class GroupCluster : public ::testing::Test {
  protected:
    struct Setup {
        std::int32_t workers = 4;                      // of the tiny model, a layer each
        std::int64_t memory = std::int64_t{64} << 20;  // of each
        core::Preemption preemption = core::Preemption::automatic;
        bool prefix_cache = false;
    };

    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-groups-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
        model::SynthOptions synth;
        synth.path = model_ = (dir_ / "tiny.gguf").string();
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    void TearDown() override { fs::remove_all(dir_); }

    WorkerOptions worker(std::size_t index, const Setup& setup) const {
        WorkerOptions options = cpu_worker("w" + std::to_string(index), dir_);
        options.memory_bytes = setup.memory;
        options.swap_bytes = 8 << 20;
        return options;
    }

    std::unique_ptr<CoordinatorServer> serve(const Setup& setup) const {
        CoordinatorOptions options;
        auto model = open_served_model(model_);
        EXPECT_TRUE(model.ok()) << model.error().message;
        options.model = std::move(*model);
        options.model.spec.context_length = 256;
        options.core.block_size = 4;
        options.core.expected_output_tokens = 1;  // far too few: memory runs short
        options.core.policy.kv_high_water = 1;
        options.core.preemption_pause = base::from_ms(5);
        options.core.preemption = setup.preemption;
        options.core.prefix_cache = setup.prefix_cache;
        options.core.min_workers = setup.workers;
        options.core.settle = base::from_ms(100);
        options.planner = dealt_evenly(options.model.spec);
        auto server = CoordinatorServer::start(std::move(options));
        EXPECT_TRUE(server.ok()) << server.error().message;
        return std::move(*server);
    }

    static std::vector<core::Request> load() {
        std::vector<core::Request> requests;
        for (std::int32_t i = 0; i < 9; ++i) {
            core::Request request;
            for (spec::Token token = 0; token < 21 + i; ++token) {
                request.prompt.push_back(3 + (token * 7 + i) % 40);
            }
            request.max_tokens = 40;
            request.sampling.seed = static_cast<std::uint64_t>(100 + i);
            request.n = 1 + i % 3;
            if (i % 3 == 1) request.beam = core::BeamSearch{4, 1, core::EarlyStopping::never};
            requests.push_back(std::move(request));
        }
        return requests;
    }

    struct Result {
        std::vector<Choices> choices;
        core::ClusterView view;
    };

    std::vector<std::unique_ptr<RunningWorker>> join(const Setup& setup,
                                                     CoordinatorServer& server) const {
        std::vector<std::unique_ptr<RunningWorker>> workers;
        for (std::size_t i = 0; i < static_cast<std::size_t>(setup.workers); ++i) {
            workers.push_back(
                std::make_unique<RunningWorker>(worker(i, setup), cluster_address(server)));
        }
        return workers;
    }

    static Choices choices_of(RecordingSink& sink) {
        EXPECT_TRUE(sink.wait_done(120));
        EXPECT_EQ(sink.reason_, core::FinishReason::length) << sink.error_ << sink.rejection_;
        return sink.choices_;
    }

    // The view once this many requests have ended, since a view may be a second old. No page may be
    // left.
    static core::ClusterView view_of_the_end(CoordinatorServer& server, std::int64_t requests) {
        core::ClusterView view;
        for (int i = 0; i < 200; ++i) {
            view = server.view();
            std::int64_t held = 0;
            for (const core::WorkerView& w : view.workers) held += w.used_pages;
            if (view.finished == requests && held == 0 && view.running == 0) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        for (const core::WorkerView& w : view.workers) {
            EXPECT_EQ(w.used_pages, 0) << "pages of " << w.node.name << " were never freed";
            EXPECT_EQ(w.estimated_pages, 0);
        }
        return view;
    }

    Result run(const Setup& setup) const {
        Result result;
        const auto server = serve(setup);
        const auto workers = join(setup, *server);
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (const core::Request& request : load()) {
            sinks.push_back(std::make_shared<RecordingSink>());
            server->submit(request, sinks.back());
        }
        for (const auto& sink : sinks) result.choices.push_back(choices_of(*sink));
        result.view = view_of_the_end(*server, std::ssize(sinks));
        return result;
    }

    // Requests of one token, after which the coordinator expects others to be short, too.
    static constexpr std::int64_t kShortOnes = 80;
    static void run_short_ones(CoordinatorServer& server) {
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (std::int64_t i = 0; i < kShortOnes; ++i) {
            core::Request request;
            request.prompt = {5};
            request.max_tokens = 1;
            sinks.push_back(std::make_shared<RecordingSink>());
            server.submit(request, sinks.back());
        }
        for (const auto& sink : sinks) EXPECT_TRUE(sink->wait_done(120));
    }

    // A request that goes before the others and soon holds 9 texts of six blocks each, and the one
    // of the prompt.
    static core::Request pushing() {
        core::Request request;
        request.prompt = {5, 6, 7, 8};
        request.max_tokens = 24;
        request.n = 9;
        request.priority = 1;
        return request;
    }

    // Memory with which each worker has room for this many blocks of tokens, and one worker for no
    // more, whichever layers it gets.
    std::int64_t memory_for(std::int64_t blocks) const {
        constexpr std::int64_t kLarge = std::int64_t{64} << 20;
        constexpr std::int64_t kSmall = std::int64_t{32} << 20;
        const Result large = run({});
        Setup setup;
        setup.memory = kSmall;
        const Result small = run(setup);
        std::map<spec::LayerRange, std::int64_t> pages;  // by layers, of the smaller ones
        for (const core::WorkerView& w : small.view.workers) pages[w.layers] = w.total_pages;
        std::int64_t memory = 0;
        for (const core::WorkerView& w : large.view.workers) {
            const auto less = pages.find(w.layers);
            const std::int64_t fewer = less == pages.end() ? 0 : w.total_pages - less->second;
            if (fewer <= 0) {
                ADD_FAILURE() << "other layers with less memory";
                continue;
            }
            const std::int64_t page_bytes = (kLarge - kSmall) / fewer;
            const std::int64_t too_many = w.total_pages - blocks * w.layers.size();
            memory = std::max(memory, kLarge - too_many * page_bytes);
        }
        return memory;
    }

    fs::path dir_;
    std::string model_;
};

TEST_F(GroupCluster, ChoicesOverFourWorkersAreThoseOfOne) {
    Setup alone;
    alone.workers = 1;
    const Result one = run(alone);
    const Result four = run({});
    EXPECT_TRUE(four.choices == one.choices);
    const std::vector<core::Request> asked = load();
    for (std::size_t i = 0; i < asked.size(); ++i) {
        const Choices& got = one.choices[i];
        ASSERT_EQ(got.size(), static_cast<std::size_t>(asked[i].n)) << "request " << i;
        std::set<std::vector<spec::Token>> different;
        for (const auto& [choice, tokens] : got) {
            EXPECT_EQ(tokens.size(), 40U);
            different.insert(tokens);
        }
        EXPECT_EQ(different.size(), got.size()) << "request " << i << " says the same twice";
    }
}

TEST_F(GroupCluster, PreemptedAgainAndAgainTheySayTheSame) {
    Setup alone;
    alone.workers = 1;
    const std::vector<Choices> right = run(alone).choices;
    Setup tight;
    // The largest, three answers of 40 tokens to a prompt of 29, takes 7 + 3 * 11 blocks; the four
    // beams up to 6 + 4 * 11.
    tight.memory = memory_for(56);
    for (const core::Preemption mode :
         {core::Preemption::recompute, core::Preemption::swap, core::Preemption::automatic}) {
        for (const bool prefix_cache : {false, true}) {
            if (kSanitized && (!prefix_cache || mode != core::Preemption::automatic)) continue;
            tight.preemption = mode;
            tight.prefix_cache = prefix_cache;
            const Result result = run(tight);
            EXPECT_TRUE(result.choices == right)
                << "mode " << static_cast<int>(mode) << ", prefix cache " << prefix_cache;
            EXPECT_GE(result.view.preemptions, 1) << "mode " << static_cast<int>(mode);
        }
    }
}

// Each runs by itself beside a request of higher priority with which it does not fit, so whatever
// is preempted is this one.
TEST_F(GroupCluster, EachKindOfRequestIsPreemptedAndSaysTheSame) {
    Setup alone;
    alone.workers = 1;
    const std::vector<Choices> right = run(alone).choices;
    Setup tight;
    tight.memory = memory_for(56);
    tight.prefix_cache = true;
    const std::vector<core::Request> asked = load();
    for (const core::Preemption mode : {core::Preemption::recompute, core::Preemption::swap}) {
        if (kSanitized && mode != core::Preemption::swap) continue;
        SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)));
        tight.preemption = mode;
        const auto server = serve(tight);
        const auto workers = join(tight, *server);
        std::int64_t ended = 0;
        std::int64_t preemptions = 0;
        for (std::size_t i = 0; i < 3; ++i) {  // one answer, beams, three answers
            if (kSanitized && i != 1) continue;
            // On a busy machine the request may be over before the other one is there.
            bool preempted = false;
            for (int attempt = 0; attempt < 10 && !preempted; ++attempt) {
                run_short_ones(*server);
                auto pushed = std::make_shared<RecordingSink>();
                auto pusher = std::make_shared<RecordingSink>();
                server->submit(asked[i], pushed);
                pushed->wait_for([](const RecordingSink& s) { return !s.pipeline_.empty(); });
                server->submit(pushing(), pusher);
                EXPECT_EQ(choices_of(*pusher).size(), 9U);
                EXPECT_TRUE(choices_of(*pushed) == right[i]) << "request " << i;
                ended += kShortOnes + 2;
                const std::int64_t now = view_of_the_end(*server, ended).preemptions;
                preempted = now > preemptions;
                preemptions = now;
            }
            EXPECT_TRUE(preempted) << "request " << i;
        }
    }
}

}  // namespace
}  // namespace helix::node::group_cluster_test
