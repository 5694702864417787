#include "node/self_profile.h"

#include <algorithm>

#include "base/random.h"
#include "node/clock.h"

namespace helix::node {
namespace {

using base::Result;

constexpr base::Duration kEach = base::from_ms(100);
constexpr int kMostRuns = 25;
constexpr std::uint64_t kProbeBuffer = 1;

std::int32_t blocks_per_sequence(std::int32_t block_size) {
    return (kProfilePrompt + 1 + block_size - 1) / block_size;
}

core::BatchChunk make_chunk(std::int32_t sequence, std::int32_t layer, std::int32_t first,
                            std::int32_t rows, std::int32_t block_size) {
    core::BatchChunk chunk;
    chunk.key.request = core::RequestId{static_cast<std::uint64_t>(sequence) + 1};
    chunk.layers = {layer, layer + 1};
    chunk.first_position = first;
    chunk.tokens.assign(static_cast<std::size_t>(rows), 0);
    if (layer > 0) chunk.input = {kProbeBuffer, 0, static_cast<std::uint32_t>(rows)};
    const std::int32_t blocks = blocks_per_sequence(block_size);
    for (std::int32_t i = 0; i < blocks; ++i) {
        chunk.pages.push_back(static_cast<core::PageId>(sequence * blocks + i));
    }
    return chunk;
}

// The median of some runs.
Result<double> time_plan(engine::Backend& backend, core::BatchPlan plan,
                         const engine::PayloadRows& payload) {
    std::vector<double> seconds;
    const base::TimePoint start = now();
    for (int i = 0; i < kMostRuns && (i < 2 || now() - start < kEach); ++i) {
        plan.id = core::kFirstBatch + static_cast<std::uint64_t>(i);
        const base::TimePoint before = now();
        TRY(const engine::BatchResult result, backend.run(plan, payload));
        seconds.push_back((now() - before).seconds());
        if (seconds.back() > 2 * kEach.seconds()) break;  // slow enough to be measured by one run
    }
    std::nth_element(seconds.begin(),
                     seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                     seconds.end());
    return seconds[seconds.size() / 2];
}

}  // namespace

std::vector<float> profile_rows(std::int64_t rows, std::int64_t hidden) {
    base::Random random(1);
    std::vector<float> values(static_cast<std::size_t>(rows * hidden));
    for (float& value : values) value = static_cast<float>(random.uniform() - 0.5) * 0.02F;
    return values;
}

std::int32_t profile_pages(std::int32_t block_size) {
    return kProfileSequences * blocks_per_sequence(block_size);
}

Result<SelfProfile> measure_layer(engine::Backend& backend, std::int32_t layer,
                                  std::int32_t block_size) {
    const std::vector<float> rows = profile_rows(kProfilePrompt, backend.hidden_size());
    const engine::PayloadRows payload = [&](const core::PayloadRef& ref) {
        const std::size_t count = ref.rows * static_cast<std::size_t>(backend.hidden_size());
        return std::span<const float>(rows).first(count);
    };
    core::BatchPlan prompt;
    prompt.chunks.push_back(make_chunk(0, layer, 0, kProfilePrompt, block_size));
    core::BatchPlan one;
    one.chunks.push_back(make_chunk(0, layer, kProfilePrompt, 1, block_size));
    core::BatchPlan eight;
    for (std::int32_t i = 0; i < kProfileSequences; ++i) {
        eight.chunks.push_back(make_chunk(i, layer, kProfilePrompt, 1, block_size));
    }
    SelfProfile profile;
    TRY(profile.prefill_s_per_token_layer, time_plan(backend, prompt, payload));
    profile.prefill_s_per_token_layer /= kProfilePrompt;
    TRY(profile.decode_s_per_layer, time_plan(backend, one, payload));
    TRY(profile.decode_batch_s_per_layer, time_plan(backend, eight, payload));
    return profile;
}

}  // namespace helix::node
