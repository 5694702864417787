#include "engine/ops/reduce_logits.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/ops/sums.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

std::int64_t logit_pieces(std::int64_t n) {
    return (n + ops::kLogitSegment - 1) / ops::kLogitSegment;
}

// Work space of words: two arrays for sums, which take turns, or three for what is the greatest.
constexpr std::int64_t kLogitArrays = 3;

struct LogitAddresses {
    VkDeviceAddress logits;              // of the first row
    VkDeviceAddress room[kLogitArrays];  // [rows, pieces]
    VkDeviceAddress out;
};

// Pieces of pieces, until one is left for each row.
void record_sums(VulkanCommands::Operator& record, const ops::ReduceLogits& op,
                 const LogitAddresses& at) {
    struct {
        VkDeviceAddress x, y, top;
        std::uint32_t rows, width, y_stride, top_stride, weigh;
    } push{};
    const std::int64_t stride = ops::ReducedRowAt::floats(op.n_top);
    push.x = at.logits;
    push.top = at.out + 4 * ops::ReducedRowAt::kLogits;
    push.top_stride = word(stride);
    push.rows = word(op.rows);
    push.weigh = 1;
    int turn = 0;
    for (std::int64_t width = op.vocab; width > 1 || push.weigh != 0;) {
        const std::int64_t pieces = logit_pieces(width);
        const bool last = pieces == 1;
        push.width = word(width);
        push.y = last ? at.out + 4 * ops::ReducedRowAt::kSum : at.room[turn];
        push.y_stride = word(last ? stride : pieces);
        record.barrier();
        record.dispatch(shaders::sum_pieces, push, groups_for(op.rows * pieces, 16));
        push.x = push.y;
        push.weigh = 0;
        width = pieces;
        turn = 1 - turn;
    }
}

void record_named(VulkanCommands::Operator& record, const ops::ReduceLogits& op,
                  const LogitAddresses& at) {
    std::vector<std::uint32_t> places;
    places.reserve(op.named.size());
    for (const ops::LogitAt& one : op.named) places.push_back(word(one.row * op.vocab + one.token));
    struct {
        VkDeviceAddress x, at, y;
        std::uint32_t n;
    } const push{
        at.logits, record.put(std::span<const std::uint32_t>(places)),
        at.out + static_cast<VkDeviceAddress>(4 * op.rows * ops::ReducedRowAt::floats(op.n_top)),
        word(std::ssize(op.named))};
    record.dispatch(shaders::pick_floats, push, groups_for(std::ssize(op.named), 64));
}

}  // namespace

void VulkanDevice::reduce_logits(const ops::ReduceLogits& op) {
    CHECK(op.n_top >= 1 && op.n_top <= ops::kMaxTopLogits && op.n_top <= op.vocab);
    CHECK(op.vocab <= ops::kMaxReducedVocab);
    if (op.rows == 0) return;
    VulkanCommands::Operator record(*commands_);
    const std::int64_t bytes = 4 * op.rows * logit_pieces(op.vocab);
    if (logits_room_.slice().bytes < kLogitArrays * bytes) {
        auto part = buffers_->take(kLogitArrays * bytes);
        if (!part.ok()) return record.fail(part.error());
        logits_room_ = std::move(*part);
    }
    LogitAddresses at{};
    at.logits =
        vulkan(op.logits).address() + static_cast<VkDeviceAddress>(4 * op.first_row * op.vocab);
    at.out = vulkan(op.out).address();
    for (std::int64_t i = 0; i < kLogitArrays; ++i)
        at.room[i] = logits_room_.slice().address() + static_cast<VkDeviceAddress>(i * bytes);
    struct {
        VkDeviceAddress logits, keys, tokens, broken;
        std::uint32_t rows, vocab;
    } const tops{at.logits, at.room[0], at.room[1], at.room[2], word(op.rows), word(op.vocab)};
    record.dispatch(shaders::logit_tops, tops, groups_for(op.rows * logit_pieces(op.vocab), 16));
    if (!op.named.empty()) record_named(record, op, at);
    record.barrier();
    struct {
        VkDeviceAddress logits, keys, tokens, broken, out;
        std::uint32_t rows, vocab, n_top;
    } const choose{at.logits, at.room[0],    at.room[1],     at.room[2],
                   at.out,    word(op.rows), word(op.vocab), word(op.n_top)};
    record.dispatch(shaders::choose_logits, choose, groups_for(op.rows));
    if (op.sum) record_sums(record, op, at);
}

}  // namespace helix::engine
