#include "sim/report/time_grid.h"

#include <algorithm>

#include "base/check.h"

namespace helix::sim {

TimeGrid::TimeGrid(Fold fold, std::size_t max_buckets, base::TimePoint origin)
    : fold_(fold), max_buckets_(max_buckets), origin_(origin), furthest_(origin) {
    CHECK(max_buckets >= 2 && max_buckets % 2 == 0);
}

std::size_t TimeGrid::add_row() {
    cells_.resize(cells_.size() + max_buckets_, 0.0);
    return n_rows_++;
}

base::TimePoint TimeGrid::begin_of(std::size_t bucket) const {
    return origin_ + width_ * static_cast<std::int64_t>(bucket);
}

void TimeGrid::join() {
    for (std::size_t row = 0; row < n_rows_; ++row) {
        for (std::size_t i = 0; i < max_buckets_; ++i) {
            if (2 * i >= max_buckets_) {
                cell(row, i) = 0;
                continue;
            }
            const double a = cell(row, 2 * i);
            const double b = cell(row, 2 * i + 1);
            cell(row, i) = fold_ == Fold::sum ? a + b : std::max(a, b);
        }
    }
    width_ = width_ * 2;
}

std::size_t TimeGrid::reach(base::TimePoint end) {
    const std::int64_t span = std::max<std::int64_t>(1, (end - origin_).ns);
    while ((span - 1) / width_.ns >= static_cast<std::int64_t>(max_buckets_)) join();
    furthest_ = std::max(furthest_, end);
    return static_cast<std::size_t>((span - 1) / width_.ns) + 1;
}

std::vector<double> TimeGrid::per_second(std::size_t row, base::TimePoint end) {
    std::vector<double> rates(reach(end));
    for (std::size_t b = 0; b < rates.size(); ++b) {
        const base::TimePoint until = std::min(end, begin_of(b + 1));
        const double seconds = (until - begin_of(b)).seconds();
        rates[b] = seconds > 0 ? at(row, b) / seconds : 0;
    }
    return rates;
}

void TimeGrid::add(std::size_t row, base::TimePoint begin, base::TimePoint end, double amount) {
    const std::int64_t length = end.ns - begin.ns;
    CHECK(length >= 0);
    const std::int64_t from = std::max<std::int64_t>(0, begin.ns - origin_.ns);
    const std::int64_t to = end.ns - origin_.ns;
    if (to < from) return;
    reach({origin_.ns + std::max(to, from + 1)});
    const auto first = static_cast<std::size_t>(from / width_.ns);
    if (length == 0 || to <= static_cast<std::int64_t>(first + 1) * width_.ns) {
        double& only = cell(row, first);
        if (fold_ == Fold::highest) {
            only = std::max(only, amount);
        } else {
            only += length == 0
                        ? amount
                        : amount * static_cast<double>(to - from) / static_cast<double>(length);
        }
        return;
    }
    const auto last = static_cast<std::size_t>((to - 1) / width_.ns);
    for (std::size_t i = first; i <= last; ++i) {
        const std::int64_t left = std::max(from, static_cast<std::int64_t>(i) * width_.ns);
        const std::int64_t right = std::min(to, static_cast<std::int64_t>(i + 1) * width_.ns);
        double& here = cell(row, i);
        here = fold_ == Fold::highest ? std::max(here, amount)
                                      : here + amount * static_cast<double>(right - left) /
                                                   static_cast<double>(length);
    }
}

void StepValue::set(base::TimePoint at, double value, TimeGrid& grid, std::size_t row) {
    if (value_ != 0 && at > since_) grid.add(row, since_, at, value_ * (at - since_).seconds());
    since_ = at;
    value_ = value;
}

}  // namespace helix::sim
