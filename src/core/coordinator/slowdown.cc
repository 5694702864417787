#include "core/coordinator/slowdown.h"

#include <algorithm>

namespace helix::core {
namespace {

// This is the least busy time of a window that is judged
constexpr std::int64_t kLeastBusyNs = 200'000'000;
constexpr std::int64_t kLeastBatches = 8;
constexpr int kFirstSamples = 5;    // so many samples say first what is usual
constexpr double kDownwards = 0.2;  // how fast the usual follows quicker samples
// The usual follows slower samples as slowly as this: contexts grow, but a slow machine must not
// become usual.
constexpr double kUpwards = 0.02;
constexpr double kBatch = 8;  // rows in the batch of NodeSpec::decode_batch_s_per_layer

// Returns the seconds for one layer of a batch of this many rows.
double measured_s(const spec::NodeSpec& node, double rows) {
    const double one = node.decode_s_per_layer;
    const double eight = std::max(one, node.decode_batch_s_per_layer);
    if (rows <= kBatch) return one + (eight - one) * (std::max(rows, 1.0) - 1) / (kBatch - 1);
    return eight + (rows - kBatch) * node.prefill_s_per_token_layer;
}

}  // namespace

bool SlowdownWatch::observe(TimePoint now, const WorkerReport& report, const spec::NodeSpec& node,
                            std::int32_t n_layers, const SlowdownConfig& config) {
    if (config.factor <= 1 || node.decode_s_per_layer <= 0 || n_layers <= 0) return false;
    if (!from_ || report.busy_ns < from_->busy_ns || report.batches < from_->batches) {
        from_ = report;
        return false;
    }
    const std::int64_t busy_ns = report.busy_ns - from_->busy_ns;
    const std::int64_t batches = report.batches - from_->batches;
    if (busy_ns < kLeastBusyNs || batches < kLeastBatches) return false;
    const double rows =
        static_cast<double>(report.rows - from_->rows) / static_cast<double>(batches);
    const double expected_s =
        measured_s(node, rows) * static_cast<double>(batches) * static_cast<double>(n_layers);
    from_ = report;
    return judge(now, static_cast<double>(busy_ns) * 1e-9 / expected_s, config);
}

void SlowdownWatch::learn_anew() {
    from_.reset();
    if (factor_ > 1) return;
    usual_ = 0;
    samples_ = 0;
    since_.reset();
}

bool SlowdownWatch::judge(TimePoint now, double ratio, const SlowdownConfig& config) {
    if (samples_ < kFirstSamples) {
        usual_ += (ratio - usual_) / ++samples_;
        return false;
    }
    const bool is_slow = factor_ > 1;
    const bool other = is_slow ? ratio <= config.back * usual_ : ratio >= config.factor * usual_;
    if (!other) {
        since_.reset();
        if (!is_slow) usual_ += (ratio - usual_) * (ratio < usual_ ? kDownwards : kUpwards);
        return false;
    }
    if (!since_) {
        since_ = now;
        sum_ = 0;
        count_ = 0;
    }
    sum_ += ratio;
    ++count_;
    if (now - *since_ < config.lasting) return false;
    factor_ = is_slow ? 1 : sum_ / count_ / usual_;
    since_.reset();
    return true;
}

spec::NodeSpec slowed(spec::NodeSpec node, double factor) {
    node.decode_s_per_layer *= factor;
    node.decode_batch_s_per_layer *= factor;
    node.prefill_s_per_token_layer *= factor;
    return node;
}

}  // namespace helix::core
