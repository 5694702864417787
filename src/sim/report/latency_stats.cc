#include "sim/report/latency_stats.h"

#include <algorithm>
#include <bit>

namespace helix::sim {
namespace {

// A double's exponent and the first 12 bits of its fraction, from 2^-20 s (1 us) to 2^20 s (12
// days).
constexpr int kFractionBits = 12;
constexpr int kDropped = 52 - kFractionBits;
constexpr double kLeast = 0x1.0p-20;
constexpr double kMost = 0x1.0p20;
constexpr std::uint64_t kBase = std::bit_cast<std::uint64_t>(kLeast) >> kDropped;
constexpr std::size_t kBuckets =
    static_cast<std::size_t>((std::bit_cast<std::uint64_t>(kMost) >> kDropped) - kBase) + 1;

std::size_t bucket_of(double seconds) {
    const double clamped = std::clamp(seconds, kLeast, kMost);
    return static_cast<std::size_t>((std::bit_cast<std::uint64_t>(clamped) >> kDropped) - kBase);
}

double middle_of(std::size_t bucket) {
    const std::uint64_t bits =
        ((bucket + kBase) << kDropped) | (std::uint64_t{1} << (kDropped - 1));
    return std::bit_cast<double>(bits);
}

}  // namespace

void LatencyStats::add(double seconds) {
    if (counters_.empty()) counters_.resize(kBuckets);
    ++counters_[bucket_of(seconds)];
    ++count_;
    sum_ += seconds;
}

void LatencyStats::merge(const LatencyStats& other) {
    if (other.counters_.empty()) return;
    if (counters_.empty()) counters_.resize(kBuckets);
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
        counters_[bucket] += other.counters_[bucket];
    }
    count_ += other.count_;
    sum_ += other.sum_;
}

double LatencyStats::percentile(double share) const {
    if (count_ == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(static_cast<double>(count_) * share);
    std::uint64_t below = 0;
    for (std::size_t bucket = 0; bucket < counters_.size(); ++bucket) {
        below += counters_[bucket];
        if (below > rank) return middle_of(bucket);
    }
    return middle_of(kBuckets - 1);
}

LatencySummary LatencyStats::summary() const {
    LatencySummary summary;
    summary.count = count_;
    if (count_ == 0) return summary;
    summary.mean = sum_ / static_cast<double>(count_);
    summary.p50 = percentile(0.50);
    summary.p95 = percentile(0.95);
    summary.p99 = percentile(0.99);
    summary.samples = std::make_shared<const LatencyStats>(*this);
    return summary;
}

}  // namespace helix::sim
