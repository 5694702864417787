#include "sim/report/distribution.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace helix::sim {
namespace {

// From 2^-30 s (about a nanosecond) to 2^30 s. What lies outside counts as the nearest.
constexpr int kLowestExponent = -30;
constexpr int kOctaves = 60;
constexpr int kPerOctave = 256;

}  // namespace

std::size_t Distribution::bucket_of(double seconds) {
    int exponent = 0;
    const double mantissa = std::frexp(seconds, &exponent);  // [0.5, 1)
    const int octave = exponent - 1 - kLowestExponent;
    if (seconds <= 0 || octave < 0) return 0;
    if (octave >= kOctaves) return static_cast<std::size_t>(kOctaves * kPerOctave - 1);
    return static_cast<std::size_t>(octave * kPerOctave +
                                    static_cast<int>((2 * mantissa - 1) * kPerOctave));
}

double Distribution::middle_of(std::size_t bucket) {
    if (bucket == 0) return 0;
    const auto i = static_cast<int>(bucket);
    return std::ldexp(1 + (i % kPerOctave + 0.5) / kPerOctave, i / kPerOctave + kLowestExponent);
}

void Distribution::add(double seconds) {
    CHECK(seconds >= 0);
    least_ = count_ == 0 ? seconds : std::min(least_, seconds);
    greatest_ = std::max(greatest_, seconds);
    sum_ += seconds;
    ++count_;
    if (exact() && samples_.size() < exact_limit_) {
        samples_.push_back(seconds);
        return;
    }
    if (exact()) {
        buckets_.resize(static_cast<std::size_t>(kOctaves * kPerOctave), 0);
        for (const double sample : samples_) ++buckets_[bucket_of(sample)];
        samples_ = {};
    }
    ++buckets_[bucket_of(seconds)];
}

std::vector<double> Distribution::quantiles(std::span<const double> shares) const {
    std::vector<double> values(shares.size(), 0.0);
    if (count_ == 0) return values;
    std::vector<double> sorted = samples_;
    std::sort(sorted.begin(), sorted.end());
    std::size_t bucket = 0;
    std::uint64_t up_to = exact() ? 0 : buckets_[0];
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const auto rank = std::min(
            count_ - 1, static_cast<std::uint64_t>(static_cast<double>(count_) * shares[i]));
        if (exact()) {
            values[i] = sorted[rank];
            continue;
        }
        if (rank == count_ - 1) {
            values[i] = greatest_;
            continue;
        }
        while (up_to <= rank) up_to += buckets_[++bucket];
        values[i] = std::clamp(middle_of(bucket), least_, greatest_);
    }
    return values;
}

}  // namespace helix::sim
