#include "engine/ops/reduce_logits.h"

#include "base/check.h"
#include "base/index.h"
#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::reduce_logits(const ops::ReduceLogits& op) {
    CHECK(op.n_top >= 1 && op.n_top <= ops::kMaxTopLogits && op.n_top <= op.vocab);
    CHECK(op.vocab <= ops::kMaxReducedVocab);
    const float* logits = data_of(op.logits) + op.first_row * op.vocab;
    float* out = data_of(op.out);
    pool_.run(op.rows, [&](std::int64_t row, int thread) {
        const auto reduced = reducers_[base::at(thread)].reduce(
            {logits + row * op.vocab, base::size_of(op.vocab)}, op.n_top, op.sum);
        float* to = out + row * ops::ReducedRowAt::floats(op.n_top);
        to[ops::ReducedRowAt::kBroken] = static_cast<float>(reduced.broken);
        to[ops::ReducedRowAt::kSum] = reduced.sum;
        for (std::int64_t i = 0; i < std::ssize(reduced.top); ++i) {
            const ops::TopLogit& top = reduced.top[base::at(i)];
            to[ops::ReducedRowAt::kLogits + i] = top.logit;
            to[ops::ReducedRowAt::kLogits + op.n_top + i] = static_cast<float>(top.token);
        }
    });
    float* named = out + op.rows * ops::ReducedRowAt::floats(op.n_top);
    for (const ops::LogitAt& at : op.named) *named++ = logits[at.row * op.vocab + at.token];
}

}  // namespace helix::engine
