#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace helix::sim {

// Durations in bounded memory: exact for the first `exact_limit` samples; beyond that percentiles
// come from 256 buckets per factor of two and are off by at most kRelativeError. Mean, least and
// greatest stay exact.
class Distribution {
  public:
    static constexpr double kRelativeError = 1.0 / 512;

    explicit Distribution(std::size_t exact_limit = 65536) : exact_limit_(exact_limit) {}

    void add(double seconds);  // not negative
    std::uint64_t count() const { return count_; }
    bool exact() const { return buckets_.empty(); }
    double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
    double least() const { return least_; }
    double greatest() const { return greatest_; }
    // The sorted samples at floor(count * share), the greatest for share = 1; zeros without
    // samples. shares ascend.
    std::vector<double> quantiles(std::span<const double> shares) const;
    double quantile(double share) const { return quantiles({&share, 1}).front(); }

  private:
    static std::size_t bucket_of(double seconds);
    static double middle_of(std::size_t bucket);

    std::size_t exact_limit_;
    std::vector<double> samples_;
    std::vector<std::uint64_t> buckets_;
    std::uint64_t count_ = 0;
    double sum_ = 0;
    double least_ = 0;
    double greatest_ = 0;
};

}  // namespace helix::sim
