// A pipeline of a processor, a Vulkan device and a processor: whatever is asked, it answers what
// three processors do that nothing is drafted for, bit for bit.

#include <gtest/gtest.h>

#include <atomic>
#include <tuple>

#include "engine/checked_vulkan.h"
#include "node/real_cluster.h"
#include "node/watched_backend.h"

namespace helix::node::vulkan_cluster_test {
namespace {

using namespace test_support;
using engine::test::CheckedVulkan;

// What the owner of a request heard, without the request's number.
struct Answer {
    using Produced = std::tuple<std::int32_t, spec::Token, float, std::vector<spec::TokenLogprob>>;

    std::map<std::int32_t, std::vector<spec::Token>> choices;
    std::vector<Produced> produced;
    std::vector<Produced> scored;
    std::vector<float> embedding;
    core::FinishReason reason;
    bool operator==(const Answer&) const = default;
};

const std::string kDemo = HELIX_SOURCE_DIR "/models/helix-demo.gguf";

struct Case {
    std::string name;
    std::function<std::vector<core::Request>()> requests;
    std::function<void(CoordinatorOptions&)> change = [](CoordinatorOptions&) {};
    // Whether the view after all answers shows that what the case is about has happened.
    std::function<bool(const core::ClusterView&)> happened = [](const core::ClusterView&) {
        return true;
    };
    bool demo = false;  // the demo model, which has a vocabulary
    bool tight = false;
};

std::ostream& operator<<(std::ostream& out, const Case& given) {
    return out << given.name;
}

core::Request plain(std::int32_t length, std::int32_t max_tokens) {
    core::Request request = greedy({}, max_tokens);
    for (std::int32_t i = 0; i < length; ++i) request.prompt.push_back(3 + i * i % 91);
    request.sampling.n_logprobs = 4;
    return request;
}

std::vector<core::Request> repeating() {
    core::Request request = greedy({}, 60);
    for (int i = 0; i < 30; ++i) request.prompt.push_back(3 + i % 6);
    core::Request seeded = request;
    seeded.sampling.temperature = 0.7F;
    seeded.sampling.top_k = 3;
    seeded.sampling.seed = 17;
    return {request, seeded};
}

// The demo model's, once greedily and once not.
std::vector<core::Request> stories() {
    const core::Request request = greedy({1, 663, 445, 262, 374}, 60);
    core::Request seeded = request;
    seeded.sampling.temperature = 0.8F;
    seeded.sampling.seed = 17;
    return {request, seeded};
}

std::vector<core::Request> drawn() {
    core::Request penalised = plain(40, 40);
    penalised.sampling.temperature = 0.9F;
    penalised.sampling.seed = 4;
    penalised.sampling.repetition_penalty = 1.3F;
    penalised.sampling.presence_penalty = 0.5F;
    return {plain(100, 40), penalised};
}

std::vector<core::Request> groups() {
    core::Request several = plain(21, 30);
    several.n = 3;
    several.sampling.temperature = 1;
    several.sampling.seed = 100;
    core::Request beams = plain(22, 30);
    beams.n = 2;
    beams.beam = core::BeamSearch{4, 1, core::EarlyStopping::never};
    return {several, beams};
}

std::vector<core::Request> read_only() {
    core::Request scored = plain(70, 1);
    scored.score_prompt = true;
    std::vector<core::Request> requests{scored};
    for (const int pooling : {1, 2, 3}) {
        requests.push_back(plain(50, 1));
        requests.back().sampling.n_logprobs = 0;
        requests.back().pooling = static_cast<spec::Pooling>(pooling);
    }
    return requests;
}

std::vector<core::Request> under_a_grammar() {
    core::Request request = plain(12, 50);
    request.sampling.temperature = 0.8F;
    request.sampling.seed = 7;
    request.sampling.grammar = {spec::OutputGrammar::Kind::gbnf,
                                R"(root ::= "[" item ("," item){24} "]"
item ::= "\"" [a-z]{2,4} "\"")"};
    return {request};
}

std::vector<core::Request> crowd() {
    std::vector<core::Request> requests;
    for (std::int32_t i = 0; i < 12; ++i) requests.push_back(plain(20 + i, 60));
    return requests;
}

std::vector<Case> cases() {
    const auto speculate = [](CoordinatorOptions& options) {
        options.core.speculation.ngram_tokens = 6;
    };
    const auto accepted = [](const core::ClusterView& view) {
        return view.accepted_draft_tokens > 0;
    };
    // What the model says greedily is not always what is drawn.
    const auto drafted_by_itself = [](CoordinatorOptions& options) {
        options.core.speculation.draft_tokens = 5;
        // The clock must not decide how many tokens are drafted.
        options.core.speculation.draft_timeout = base::from_seconds(60);
        DraftModelOptions small;
        small.path = kDemo;
        small.threads = 1;
        auto opened = DraftModel::open(small, options.model.weights->file());
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        options.draft_model = std::move(*opened);
    };
    const auto accepted_some = [](const core::ClusterView& view) {
        return view.accepted_draft_tokens > 0 && view.accepted_draft_tokens < view.draft_tokens;
    };
    const auto cache = [](CoordinatorOptions& options) { options.core.prefix_cache = true; };
    const auto swap = [](CoordinatorOptions& options) {
        options.core.block_size = 4;
        options.core.expected_output_tokens = 1;  // far too few: memory runs short
        options.core.policy.kv_high_water = 1;
        options.core.preemption = core::Preemption::swap;
    };
    const auto preempted = [](const core::ClusterView& view) { return view.preemptions > 0; };
    return {
        {.name = "Drawn", .requests = drawn},
        {.name = "ChoicesAndBeams", .requests = groups},
        {.name = "ScoresAndEmbeddings", .requests = read_only},
        {.name = "PrefixCache",
         .requests =
             [] {
                 return std::vector{plain(100, 20), plain(100, 20)};
             },
         .change = cache},
        {.name = "Drafts", .requests = repeating, .change = speculate, .happened = accepted},
        {.name = "DraftModel",
         .requests = stories,
         .change = drafted_by_itself,
         .happened = accepted_some,
         .demo = true},
        {.name = "Grammar", .requests = under_a_grammar, .demo = true},
        {.name = "Swap", .requests = crowd, .change = swap, .happened = preempted, .tight = true}};
}

class VulkanCluster : public RealCluster, public ::testing::WithParamInterface<Case> {
  protected:
    void SetUp() override {
        vulkan_ = CheckedVulkan::open();
        RealCluster::SetUp();
        if (vulkan_ == nullptr) GTEST_SKIP() << "no Vulkan device";
    }
    void TearDown() override {
        RealCluster::TearDown();
        if (vulkan_ != nullptr) {
            EXPECT_EQ(vulkan_->objections(), "");
        }
    }

    // Those of a case with little memory come at once, others one after the other.
    std::vector<Answer> answers(bool drafted) {
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (core::Request request : GetParam().requests()) {
            if (!drafted) request.max_draft_tokens = 0;
            sinks.push_back(std::make_shared<RecordingSink>());
            server_->submit(request, sinks.back());
            if (!GetParam().tight) sinks.back()->wait_done(600);
        }
        std::vector<Answer> all;
        for (const auto& sink : sinks) {
            EXPECT_TRUE(sink->wait_done(600));
            EXPECT_EQ(sink->rejection_ + sink->error_, "");
            EXPECT_EQ(sink->pipeline_.size(), 3U);
            EXPECT_EQ(sink->pipeline_.at(1).worker, worker_called("b").worker);
            all.push_back({sink->choices_, produced(sink->produced_), produced(sink->scored_),
                           sink->embedding_, sink->reason_});
            cached_ = sink->cached_tokens_;
        }
        return all;
    }

    std::unique_ptr<CheckedVulkan> vulkan_;
    // Of the device.
    std::atomic<std::size_t> pages_out_ = 0;
    std::atomic<std::size_t> pages_in_ = 0;

  private:
    static std::vector<Answer::Produced> produced(const std::vector<core::ProducedToken>& tokens) {
        std::vector<Answer::Produced> all;
        for (const core::ProducedToken& one : tokens)
            all.emplace_back(one.position, one.token, one.logprob, one.top);
        return all;
    }
};

TEST_P(VulkanCluster, BetweenProcessorsItAnswersWhatTheyDo) {
    const std::string path = GetParam().demo ? kDemo : synthetic();
    serve(path, GetParam().change);
    const std::vector<Answer> right = answers(false);
    workers_.clear();
    server_.reset();
    const auto processor = backend_of_;
    const auto device =
        std::make_shared<WatchedProvider>(vulkan_->provider(), [this](const core::BatchPlan& plan) {
            pages_out_ += plan.swap_out.size();
            pages_in_ += plan.swap_in.size();
        });
    backend_of_ = [&](std::int32_t i) { return i == 1 ? device : processor(i); };
    if (GetParam().tight) {
        worker_memory_ = 600'000;
        swap_bytes_ = 8 << 20;
    }
    serve(path, GetParam().change);
    const std::vector<Answer> got = answers(true);
    ASSERT_EQ(got.size(), right.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == right[i]) << "request " << i;
    EXPECT_TRUE(eventually([&] { return GetParam().happened(server_->view()); }));
    if (GetParam().tight) {
        EXPECT_GT(pages_out_, 0U);
        EXPECT_EQ(pages_in_, pages_out_);
    }
    if (GetParam().name == "PrefixCache") {
        EXPECT_EQ(cached_, 96);
    }
}

INSTANTIATE_TEST_SUITE_P(Asked, VulkanCluster, testing::ValuesIn(cases()),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace helix::node::vulkan_cluster_test
