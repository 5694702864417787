#include "core/batch/batch_limits.h"

#include <algorithm>
#include <cmath>

namespace helix::core {
namespace {

constexpr double kShareGain = 0.25;  // share of a decode batch's time that sharing must save
// The rows of a batch of prompt rows, and of one of decodes that is longer than kLongBatch_s, cost
// at most this many times its fixed cost.
constexpr double kFixedInAlone = 4;    // of a batch of prompt rows
constexpr double kFixedInDecodes = 8;  // of one of decodes that is longer than kLongBatch_s

std::int32_t rows_for(double seconds, double per_row_s, std::int32_t least, std::int32_t most) {
    if (per_row_s * most <= seconds) return most;
    return std::clamp(static_cast<std::int32_t>(seconds / per_row_s), least, most);
}

// The fewest decodes of a batch that leave the worker idle for long enough.
std::int32_t least_decodes(const CostLine& decode, const BatchLoad& load, std::int32_t most) {
    const std::int32_t worthwhile = rows_for(decode.fixed_s, decode.per_row_s, 1, most);
    if (!load.known()) return worthwhile;
    const double rate = load.decode_rows_per_s();
    const double left = kBusyAtMost - load.prompts_share() - decode.per_row_s * rate;
    const double least = rate * decode.fixed_s / std::max(left, 1e-9);
    return least < worthwhile ? std::max(1, static_cast<std::int32_t>(least)) : worthwhile;
}

}  // namespace

BatchLimits batch_limits(const WorkerConfig& config, const BatchCosts& costs, const BatchLoad& load,
                         std::int32_t groups, std::int64_t past_prompt, double prefill_share) {
    BatchLimits limits;
    limits.decodes = std::max<std::int64_t>(1, (past_prompt + groups - 1) / groups);
    limits.mixed_rows = config.mixed_prefill_rows;
    limits.alone_rows = config.max_batch_rows;

    limits.saved_by_gathering_s = costs.decodes().fixed_s().value_or(costs.decodes().mean_s() / 2);
    const auto decode = costs.decodes().line();
    if (decode && groups > 1) {
        limits.decodes = std::max<std::int64_t>(
            limits.decodes, least_decodes(*decode, load, config.max_batch_seqs));
    }
    if (decode && costs.decodes().fixed_s()) {
        const double longest_s = std::max(kLongBatch_s, kFixedInDecodes * decode->fixed_s);
        limits.decodes = std::min<std::int64_t>(
            limits.decodes, rows_for(longest_s, decode->per_row_s, 1, config.max_batch_seqs));
    }
    const auto prefill = costs.prefills().line();
    if (!prefill) return limits;
    const std::int32_t most = config.max_batch_rows;
    const double decode_s = costs.decodes().mean_s();
    if (decode_s > 0) {
        limits.share = costs.saved_by_sharing().value_or(1) > kShareGain;
        const double mixed_s = limits.share ? prefill_share * decode_s : decode_s;
        limits.mixed_rows =
            rows_for(mixed_s, prefill->per_row_s, std::min(config.block_size, most), most);
    }
    if (groups > 1) {
        limits.alone_rows = rows_for(kFixedInAlone * prefill->fixed_s, prefill->per_row_s,
                                     std::min(config.mixed_prefill_rows, most), most);
    }
    return limits;
}

}  // namespace helix::core
