#include "base/log_budget.h"

#include <utility>

#include <fmt/format.h>

namespace helix::base {
namespace {

constexpr Duration kMinute = from_seconds(60);

std::string grouped(std::int64_t count) {
    std::string text = std::to_string(count);
    for (std::size_t at = text.size(); at > 3;) {
        at -= 3;
        text.insert(at, ",");
    }
    return text;
}

}  // namespace

void LogBudget::begin_minute(TimePoint now) {
    if (running_ && now - began_ < kMinute) return;
    running_ = true;
    began_ = now;
    written_ = 0;
    to_tell_ += std::exchange(held_back_, 0);
}

bool LogBudget::take(TimePoint now) {
    begin_minute(now);
    if (written_ < lines_per_minute_) {
        ++written_;
        return true;
    }
    ++held_back_;
    return false;
}

std::string LogBudget::take_summary(TimePoint now) {
    begin_minute(now);
    const std::int64_t count = std::exchange(to_tell_, 0);
    if (count == 0) return {};
    return fmt::format("and {} more in the last minute", grouped(count));
}

}  // namespace helix::base
