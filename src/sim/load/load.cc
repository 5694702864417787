#include "sim/load/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sim/load/gamma_variate.h"
#include "spec/csv_table.h"

namespace helix::sim {
namespace {

constexpr double kIntervalS = 3;
constexpr double kMostArrivals = 1e8;
constexpr double kMostBurstiness = 100;

// How many arrive in each 3 s, and when inside them.
void arrivals_by_counts(const OnlineLoad& load, LengthSource& lengths, double start_s,
                        double duration_s, PythonRandom& random, std::vector<Arrival>& out) {
    const std::vector<double>& counts = load.counts_per_3s;
    double mean = 0;
    for (const double count : counts) mean += count;
    mean /= static_cast<double>(counts.size());
    const double scale = kIntervalS * (load.tokens_per_s / lengths.mean_tokens()) / mean;
    const auto n_intervals = static_cast<std::size_t>(duration_s / kIntervalS);
    double carried = 0;
    std::vector<double> times;
    for (std::size_t i = 0; i < n_intervals; ++i) {
        const std::size_t row = load.process == ArrivalProcess::recorded
                                    ? i % counts.size()
                                    : random.below(static_cast<std::uint32_t>(counts.size()));
        const double wanted = scale * counts[row] + carried;
        const double n = std::nearbyint(wanted);  // ties to even
        carried = wanted - n;
        times.clear();
        for (double k = 0; k < n; ++k) {
            times.push_back(start_s + static_cast<double>(i) * kIntervalS +
                            kIntervalS * random.uniform());
        }
        std::sort(times.begin(), times.end());
        for (const double at_s : times) out.push_back({at_s, lengths.next(random), 0});
    }
}

void arrivals_by_gaps(const OnlineLoad& load, LengthSource& lengths, double start_s,
                      double duration_s, PythonRandom& random, std::vector<Arrival>& out) {
    const double per_s = load.tokens_per_s / lengths.mean_tokens();
    const double variance =
        load.process == ArrivalProcess::poisson ? 1 : load.burstiness * load.burstiness;
    double at_s = 0;
    while (true) {
        double gap = 1;
        if (load.process == ArrivalProcess::poisson) {
            gap = -std::log1p(-random.uniform());
        } else if (variance > 0) {
            gap = draw_gamma(1 / variance, random) * variance;
        }
        at_s += gap / per_s;
        if (at_s >= duration_s) return;
        out.push_back({start_s + at_s, lengths.next(random), 0});
    }
}

base::Result<std::vector<Arrival>> listed_arrivals(const std::vector<Arrival>& listed,
                                                   double start_s, double duration_s) {
    std::vector<Arrival> arrivals;
    double last_s = 0;
    for (const Arrival& arrival : listed) {
        if (!(arrival.at_s >= last_s)) {
            return base::invalid(
                fmt::format("online load: an arrival at {} s is listed after one at {} s",
                            arrival.at_s, last_s));
        }
        last_s = arrival.at_s;
        if (last_s >= duration_s) break;
        arrivals.push_back({start_s + last_s, arrival.length, arrival.priority});
    }
    if (arrivals.empty()) return base::invalid("online load: no arrival is listed for the window");
    return arrivals;
}

}  // namespace

LengthSource::LengthSource(std::vector<RequestLength> rows, LengthOrder order)
    : rows_(std::move(rows)), order_(order) {
    CHECK(!rows_.empty());
}

base::Result<LengthSource> LengthSource::read(const std::string& path, LengthOrder order) {
    TRY(const Trace trace, read_trace(path));
    std::vector<RequestLength> rows;
    for (const TraceRequest& request : trace.requests) {
        rows.push_back({request.prompt_tokens, request.output_tokens});
    }
    return LengthSource(std::move(rows), order);
}

RequestLength LengthSource::next(PythonRandom& random) {
    if (order_ == LengthOrder::sampled) {
        return rows_[random.below(static_cast<std::uint32_t>(rows_.size()))];
    }
    const RequestLength row = rows_[next_];
    next_ = (next_ + 1) % rows_.size();
    return row;
}

std::int32_t LengthSource::longest_prompt() const {
    std::int32_t longest = 0;
    for (const RequestLength& row : rows_) longest = std::max(longest, row.prompt_tokens);
    return longest;
}

std::int64_t LengthSource::longest_context() const {
    std::int64_t longest = 0;
    for (const RequestLength& row : rows_) {
        longest = std::max(longest, std::int64_t{row.prompt_tokens} + row.output_tokens);
    }
    return longest;
}

double LengthSource::mean_tokens() const {
    double prompt = 0;
    double output = 0;
    for (const RequestLength& row : rows_) {
        prompt += row.prompt_tokens;
        output += row.output_tokens;
    }
    const auto n = static_cast<double>(rows_.size());
    return prompt / n + output / n;
}

base::Result<std::vector<double>> read_arrival_counts(const std::string& path) {
    TRY(const spec::CsvTable table, spec::CsvTable::read(path, {"requests_in_3s"}));
    std::vector<double> counts(table.n_rows());
    double sum = 0;
    for (std::size_t row = 0; row < counts.size(); ++row) {
        TRY(counts[row], table.number(row, 0));
        sum += counts[row];
    }
    if (sum <= 0) return base::invalid(path + ": expected some requests in requests_in_3s");
    return counts;
}

base::Result<OnlineLoad> listed_load(const std::vector<TraceRequest>& requests) {
    OnlineLoad load;
    load.process = ArrivalProcess::listed;
    double tokens = 0;
    for (const TraceRequest& request : requests) {
        load.listed.push_back(
            {request.arrival_s, {request.prompt_tokens, request.output_tokens}, 0});
        tokens += static_cast<double>(request.prompt_tokens) + request.output_tokens;
    }
    if (load.listed.empty() || load.listed.back().at_s <= 0) {
        return base::invalid("all requests arrive at once; expected times of arrival");
    }
    load.tokens_per_s = tokens / load.listed.back().at_s;
    return load;
}

void set_rate(OnlineLoad& load, double tokens_per_s) {
    CHECK(tokens_per_s > 0);
    for (Arrival& arrival : load.listed) arrival.at_s *= load.tokens_per_s / tokens_per_s;
    load.tokens_per_s = tokens_per_s;
}

base::Result<std::vector<Arrival>> make_arrivals(const OnlineLoad& load, LengthSource& lengths,
                                                 double start_s, double duration_s,
                                                 PythonRandom& random) {
    if (load.process == ArrivalProcess::listed) {
        return listed_arrivals(load.listed, start_s, duration_s);
    }
    if (!(load.tokens_per_s > 0)) {
        return base::invalid("online load: the rate must be above 0 tokens/s");
    }
    if (load.tokens_per_s / lengths.mean_tokens() * duration_s > kMostArrivals) {
        return base::invalid(fmt::format("online load: {} tokens/s for {} s are over {} requests",
                                         load.tokens_per_s, duration_s, kMostArrivals));
    }
    std::vector<Arrival> arrivals;
    if (!(load.burstiness >= 0 && load.burstiness <= kMostBurstiness)) {
        return base::invalid(fmt::format("online load: a burstiness of {}, expected 0 to {}",
                                         load.burstiness, kMostBurstiness));
    }
    if (load.process == ArrivalProcess::poisson || load.process == ArrivalProcess::gamma) {
        arrivals_by_gaps(load, lengths, start_s, duration_s, random, arrivals);
    } else if (load.counts_per_3s.empty()) {
        return base::invalid("online load: arrivals by recorded counts need a file of counts");
    } else {
        arrivals_by_counts(load, lengths, start_s, duration_s, random, arrivals);
    }
    return arrivals;
}

}  // namespace helix::sim
