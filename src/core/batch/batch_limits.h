#pragma once

#include <cstdint>

#include "core/batch/batch_costs.h"
#include "core/batch/batch_load.h"
#include "core/protocol/worker_config.h"
#include "spec/serving_policy.h"

namespace helix::core {

// How large the next batches may be, from what batches have cost here. Batches of d decodes were
// measured to take a + b d seconds, and batches of p prompt rows f + c p seconds. D is the mean
// time of a batch of decodes, n the number of sequences past their prompt, and g the number of
// machines in a pipeline. Then
//
// * decodes: n / g, but at least as many as keep the worker free half of the time. Smaller groups
//   keep more machines of a pipeline at work, but every batch pays a again. With r rows of decodes
//   per second, and a share o of the time for prompts, batches of d rows keep a worker busy for
//   r / d (a + b d) + o of the time; that is kBusyAtMost from d = r a / (kBusyAtMost - o - b r) on,
//   or d = a / b, if that is less (below it a is most of what a batch pays) or r is not known yet.
//   And no more than take max(kLongBatch_s, 8 a): longer batches save less than a ninth, and
//   whoever comes meanwhile waits for their end, as for the thousand choices of somebody else's
//   request.
// * share: prompt rows go into the batches of decodes if that has saved more than D / 4, as with an
//   engine that reads its weights once per batch. Otherwise decodes would wait for nothing, at
//   every stage of the pipeline again: prompt rows take batches of their own.
// * mixed_rows: while both wait prompts take prefill_share times what decodes take,
//   beside them or by turns. Beside decodes as many rows as cost that much of D; in batches of
//   their own, of which a turn has several, as many as cost D.
// * alone_rows: as few as keep the fixed part below a fifth of the batch, 4 f / c, so that the
//   stages of a pipeline work on one prompt at the same time; a single machine takes all it can.
//
// * saved_by_gathering_s: a, what two batches of decodes cost more than one of all; D / 2 while
//   their sizes were too alike to tell.
//
// While nothing is measured a batch has n / g decodes, with mixed_prefill_rows beside them.
inline constexpr double kLongBatch_s = 0.25;
inline constexpr double kBusyAtMost = 0.45;

struct BatchLimits {
    std::int64_t decodes = 1;
    bool share = true;
    std::int32_t mixed_rows = 1;
    std::int32_t alone_rows = 1;
    double saved_by_gathering_s = 0;
};

// prefill_share: spec::ServingPolicy says what it is.
BatchLimits batch_limits(const WorkerConfig& config, const BatchCosts& costs, const BatchLoad& load,
                         std::int32_t groups, std::int64_t past_prompt,
                         double prefill_share = spec::ServingPolicy().prefill_share);

}  // namespace helix::core
