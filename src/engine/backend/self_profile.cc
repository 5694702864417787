#include "engine/backend/self_profile.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/random.h"
#include "engine/backend/made_up_weights.h"

namespace helix::engine {
namespace {

using base::Result;

constexpr double kEach_s = 0.1;
constexpr int kMostRuns = 25;

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
    if (layer > 0) chunk.input = {kProfileBuffer, 0, static_cast<std::uint32_t>(rows)};
    const std::int32_t blocks = blocks_per_sequence(block_size);
    for (std::int32_t i = 0; i < blocks; ++i) {
        chunk.pages.push_back(static_cast<core::PageId>(sequence * blocks + i));
    }
    return chunk;
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// The median of some runs. The last chunk's rows are handed on, so that a run ends when the device
// has computed them; a device with processors of its own has warmed up before, since it makes its
// programs when it first needs them.
Result<double> time_plan(Backend& backend, core::BatchPlan plan, const PayloadRows& payload) {
    plan.chunks.back().output_row = 0;
    plan.output_rows = static_cast<std::int32_t>(plan.chunks.back().tokens.size());
    if (backend.compute_threads() == 0) {
        plan.id = core::kFirstBatch + kMostRuns;
        TRY_VOID(backend.run(plan, payload));
    }
    std::vector<double> seconds;
    const auto start = Clock::now();
    for (int i = 0; i < kMostRuns && (i < 2 || seconds_since(start) < kEach_s); ++i) {
        plan.id = core::kFirstBatch + static_cast<std::uint64_t>(i);
        const auto before = Clock::now();
        TRY(const BatchResult result, backend.run(plan, payload));
        seconds.push_back(seconds_since(before));
        if (seconds.back() > 2 * kEach_s) break;  // slow enough to be measured by one
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

Result<SelfProfile> measure_layer(Backend& backend, std::int32_t layer, std::int32_t block_size) {
    const std::vector<float> rows = profile_rows(kProfilePrompt, backend.hidden_size());
    const PayloadRows payload = [&](const core::PayloadRef& ref) {
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

Result<SelfProfile> profile_made_up_layer(const BackendRequest& request,
                                          const MakeLayerBackend& make) {
    TRY(const std::shared_ptr<model::WeightSource> weights, request.weights());
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    const spec::ModelSpec& shape = request.model;
    const std::int32_t block_size = request.block_size;
    const std::int32_t layer = spec::typical_layer(shape);
    const std::int64_t page_bytes = shape.kv_bytes_per_token_layer * block_size;
    // As a device holds them weights may be larger than stored ones.
    const std::int64_t memory_bytes =
        8 * (shape.layer_bytes + shape.common_bytes + (layer == 0 ? shape.embedding_bytes : 0)) +
        4 * profile_pages(block_size) * page_bytes + (std::int64_t{16} << 20);
    TRY(const std::unique_ptr<Backend> backend,
        make(std::make_shared<MadeUpWeights>(weights), config, memory_bytes));
    TRY(const std::int64_t pages, backend->load({layer, layer + 1}));
    if (pages < profile_pages(block_size))
        return base::Error{base::Errc::unavailable, "no memory to measure one layer"};
    return measure_layer(*backend, layer, block_size);
}

}  // namespace helix::engine
