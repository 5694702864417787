#include "node/machine_profile.h"

#include <gtest/gtest.h>

#include "engine/modelled/modelled_backend.h"

namespace helix::node::machine_profile_test {
namespace {

// A machine whose times are known.
class StraightLine final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec&, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return (decode_seqs > 0 ? 1e-3 + 2e-4 * decode_seqs : 0) +
               (prefill_tokens > 0 ? 2e-3 + 1e-4 * prefill_tokens : 0);
    }
};

constexpr std::int64_t kPages = 1000;

std::unique_ptr<engine::ModelledBackend> modelled(spec::LayerRange layers, double time_scale = 1) {
    engine::ModelledOptions options;
    options.cost = std::make_shared<StraightLine>();
    options.model.n_layers = 6;
    options.model.layer_bytes = 1000;
    options.model.kv_bytes_per_token_layer = 4;
    options.memory_bytes = 1000 * layers.size() + kPages * 64;
    options.time_scale = time_scale;
    auto backend = engine::ModelledBackend::create(options);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    const auto pages = (*backend)->load(layers);
    EXPECT_TRUE(pages.ok()) << pages.error().message;
    return std::move(backend).value();
}

ProfileRequest small_request(spec::LayerRange layers) {
    ProfileRequest request;
    request.layers = layers;
    request.pages = kPages;
    request.context = 40;
    request.most_prompt = 64;
    request.most_sequences = 8;
    request.budget = base::from_seconds(1);
    return request;
}

TEST(MachineProfile, FindsTheTimesOfAMachineThatIsKnown) {
    const auto backend = modelled({0, 2});
    double share = 0;
    ProfileRequest request = small_request({0, 2});
    request.on_progress = [&](double s) {
        EXPECT_GE(s, share);
        share = s;
    };
    const auto profile = profile_machine(*backend, request);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(share, 1);
    const StraightLine truth;
    ASSERT_GE(profile->prompt.size(), 5U);
    EXPECT_EQ(profile->prompt.back().tokens, 64);  // two prompts, as the context is shorter
    for (const ProfilePoint& point : profile->prompt) {
        // A sleep never ends early; on a busy machine it ends late.
        const double expected = truth.layer_s({}, 0, point.tokens);
        EXPECT_GE(point.seconds, expected) << point.tokens;
        EXPECT_LT(point.seconds, 1.5 * expected + 1e-3) << point.tokens;
        EXPECT_GE(point.runs, 5);
    }
    ASSERT_EQ(profile->decode.size(), 6U);  // 1 2 3 4 6 8
    for (const ProfilePoint& point : profile->decode) {
        const double expected = truth.layer_s({}, point.tokens, 0);
        EXPECT_GE(point.seconds, expected) << point.tokens;
        EXPECT_LT(point.seconds, 1.5 * expected + 1e-3) << point.tokens;
    }
    EXPECT_EQ(profile->context_sequences, 8);
    EXPECT_EQ(profile->context.back().tokens, 40);
}

TEST(MachineProfile, ABudgetTooSmallLeavesOutTheLargestBatches) {
    const auto backend = modelled({0, 2}, 5.0);  // 64 tokens take 84 ms
    ProfileRequest request = small_request({0, 2});
    request.budget = base::from_ms(100);
    const auto profile = profile_machine(*backend, request);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(profile->prompt.size(), 2U);
    EXPECT_GE(profile->decode.size(), 1U);
    EXPECT_LT(profile->decode.size(), 6U);
}

TEST(MachineProfile, FewPagesMeanFewSequences) {
    const auto backend = modelled({0, 2});
    ProfileRequest request = small_request({0, 2});
    request.pages = 3 * 2 * 2;  // three blocks of 16 hold 40 tokens, in two layers: two sequences
    const auto profile = profile_machine(*backend, request);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(profile->decode.back().tokens, 2);
    request.pages = 5;
    EXPECT_EQ(profile_machine(*backend, request).error().code, base::Errc::unavailable);
}

}  // namespace
}  // namespace helix::node::machine_profile_test
