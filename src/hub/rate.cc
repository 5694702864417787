#include "hub/rate.h"

#include <cmath>

#include <fmt/format.h>

#include "spec/units.h"

namespace helix::hub {
namespace {

constexpr base::Duration kWindow = base::from_seconds(10);
constexpr base::Duration kStep = base::from_ms(200);  // between two samples
constexpr double kLongestLeft_s = 99.0 * 3600;

std::string bytes_text(double bytes) {
    return spec::format_bytes(static_cast<std::int64_t>(bytes));
}

std::string left_text(double left_s) {
    const auto s = static_cast<std::int64_t>(std::ceil(left_s));
    if (s < 60) return fmt::format("{} s left", s);
    if (s < 3600) return fmt::format("{} min {} s left", s / 60, s % 60);
    return fmt::format("{} h {} min left", s / 3600, s % 3600 / 60);
}

}  // namespace

void RateMeter::at(base::TimePoint now, std::uint64_t done) {
    if (!samples_.empty() && done < samples_.back().done) samples_.clear();
    // Until the first byte comes there is no rate.
    if (samples_.size() == 1 && done == samples_.back().done) samples_.clear();
    if (samples_.size() > 1 && now - samples_[samples_.size() - 2].time < kStep) {
        samples_.back() = {now, done};
    } else {
        samples_.push_back({now, done});
    }
    while (samples_.size() > 2 && now - samples_[1].time > kWindow) samples_.pop_front();
}

std::optional<double> RateMeter::bytes_per_s() const {
    if (samples_.size() < 2) return std::nullopt;
    const double seconds = (samples_.back().time - samples_.front().time).seconds();
    if (seconds < 1) return std::nullopt;
    return static_cast<double>(samples_.back().done - samples_.front().done) / seconds;
}

std::string describe_transfer(std::uint64_t done, std::uint64_t total,
                              std::optional<double> bytes_per_s) {
    const auto have = static_cast<double>(done);
    const auto all = static_cast<double>(total);
    std::string text =
        total > 0 ? fmt::format("{} of {}", bytes_text(have), bytes_text(all)) : bytes_text(have);
    if (!bytes_per_s) return text;
    text += fmt::format(", {}/s", bytes_text(*bytes_per_s));
    if (total <= done || *bytes_per_s <= 0) return text;
    const double left_s = (all - have) / *bytes_per_s;
    return text + (left_s < kLongestLeft_s ? ", " + left_text(left_s) : "");
}

}  // namespace helix::hub
