#include "api/history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace helix::api {
namespace {

using nlohmann::json;

// The smallest value that is not below a part of them; NaN of none. Reorders values.
double quantile(std::vector<double>& values, double part) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    const auto rank =
        static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

double kv_used(const core::ClusterView& view) {
    std::int64_t used = 0;
    std::int64_t total = 0;
    for (const core::WorkerView& worker : view.workers) {
        used += worker.used_pages;
        total += worker.total_pages;
    }
    return total == 0 ? std::numeric_limits<double>::quiet_NaN()
                      : static_cast<double>(used) / static_cast<double>(total);
}

// The part of the time between two views that workers computed, on average over those that were
// there all along and have layers.
double busy(const core::ClusterView& before, const core::ClusterView& now) {
    const auto passed = static_cast<double>(now.taken.ns - before.taken.ns);
    double sum = 0;
    int number = 0;
    for (const core::WorkerView& worker : now.workers) {
        const auto was = std::find_if(
            before.workers.begin(), before.workers.end(), [&](const core::WorkerView& other) {
                return other.worker == worker.worker && other.incarnation == worker.incarnation;
            });
        if (was == before.workers.end() || worker.layers.begin >= worker.layers.end) continue;
        if (worker.busy_ns < was->busy_ns) continue;  // it began anew
        sum += static_cast<double>(worker.busy_ns - was->busy_ns) / passed;
        ++number;
    }
    if (number == 0 || passed <= 0) return std::numeric_limits<double>::quiet_NaN();
    return std::min(1.0, sum / number);
}

// Four digits are enough for a picture.
json rounded(double value) {
    if (std::isnan(value)) return {};
    if (value == std::floor(value)) return static_cast<std::int64_t>(value);
    const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
    return std::round(value * scale) / scale;
}

}  // namespace

const std::array<std::string_view, History::kColumns> History::kColumnNames = {
    "time",   "tokens_per_s", "prompt_tokens_per_s", "running",    "waiting",    "finished",
    "failed", "ttft_p50_s",   "ttft_p95_s",          "tpot_p50_s", "tpot_p95_s", "kv_used",
    "busy",   "workers"};

void History::first_token(double ttft_s) {
    counts_.ttft_s.push_back(ttft_s);
}

void History::ended(bool failed, double tpot_s) {
    ++(failed ? counts_.failed : counts_.finished);
    if (tpot_s >= 0) counts_.tpot_s.push_back(tpot_s);
}

void History::see(base::TimePoint now, std::int64_t unix_s, const core::ClusterView& view) {
    seen_ = now;
    for (ClusterEvent& event : watch_.see(view)) {
        events_.push_back({unix_s, std::move(event)});
        if (events_.size() > kMostEvents) events_.pop_front();
    }
    if (!sampled_) {
        sampled_ = now;
        before_ = view;
        counts_ = {};
    }
    if (now - *sampled_ >= kEvery) take_sample(now, unix_s, view);
}

void History::take_sample(base::TimePoint now, std::int64_t unix_s, const core::ClusterView& view) {
    const double passed_s = (now - *sampled_).seconds();
    samples_.push_back({static_cast<double>(unix_s), static_cast<double>(counts_.tokens) / passed_s,
                        static_cast<double>(counts_.prompt_tokens) / passed_s,
                        static_cast<double>(view.running), static_cast<double>(view.waiting),
                        static_cast<double>(counts_.finished), static_cast<double>(counts_.failed),
                        quantile(counts_.ttft_s, 0.5), quantile(counts_.ttft_s, 0.95),
                        quantile(counts_.tpot_s, 0.5), quantile(counts_.tpot_s, 0.95),
                        kv_used(view), busy(before_, view),
                        static_cast<double>(view.workers.size())});
    const auto oldest = static_cast<double>(unix_s - kKept_s);
    while (samples_.front()[0] < oldest) samples_.pop_front();
    while (!events_.empty() && static_cast<double>(events_.front().unix_s) < oldest) {
        events_.pop_front();
    }
    sampled_ = now;
    before_ = view;
    counts_ = {};
}

nlohmann::json History::to_json(double since) const {
    json samples = json::array();
    for (const Sample& sample : samples_) {
        if (sample[0] <= since) continue;
        json values = json::array();
        for (const double value : sample) values.push_back(rounded(value));
        values[0] = static_cast<std::int64_t>(sample[0]);
        samples.push_back(std::move(values));
    }
    json events = json::array();
    for (const Event& one : events_) {
        if (static_cast<double>(one.unix_s) <= since) continue;
        json event = event_json(one.event);
        event["time"] = one.unix_s;
        event["event"] = one.event.what;
        events.push_back(std::move(event));
    }
    return {{"interval_s", kEvery.seconds()},
            {"kept_s", kKept_s},
            {"columns", kColumnNames},
            {"samples", std::move(samples)},
            {"events", std::move(events)}};
}

std::string History::to_csv(double since) const {
    std::string out = fmt::format("{}\n", fmt::join(kColumnNames, ","));
    for (const Sample& sample : samples_) {
        if (sample[0] <= since) continue;
        for (std::size_t i = 0; i < kColumns; ++i) {
            if (i > 0) out += ',';
            if (i == 0) {
                out += fmt::format("{:.0f}", sample[i]);
            } else if (!std::isnan(sample[i])) {
                out += fmt::format("{:.6g}", sample[i]);
            }
        }
        out += '\n';
    }
    return out;
}

}  // namespace helix::api
