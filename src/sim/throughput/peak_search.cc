#include "sim/throughput/peak_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "sim/published/reference_world.h"

namespace helix::sim {
namespace {

// Between the first guess and a peak; every step up costs as much as all before it.
constexpr double kMostFactorUp = 64;
constexpr double kMostFactorDown = 1e6;
constexpr double kOfflineWarmup_s = 60;
constexpr double kOfflineWindow_s = 240;
constexpr double kLeastWindow_s = 60;
constexpr double kMostWindow_s = 600;
constexpr double kMostWarmup_s = 3600;
constexpr double kTail = 0.01;

class PeakSearch {
  public:
    PeakSearch(const ServedAtRate& served, const PeakRules& rules)
        : served_(served), rules_(rules) {}

    base::Result<Peak> run(double guess) {
        TRY_VOID(bracket(guess));
        while (above_ > peak_.tokens_per_s * (1 + rules_.precision) &&
               peak_.runs < rules_.most_runs) {
            TRY_VOID(attempt(std::sqrt(above_ * peak_.tokens_per_s)));
        }
        return peak_;
    }

  private:
    // Steps away from the guess, each twice the one before, until one rate is sustained and a
    // higher one is not.
    base::Status bracket(double guess) {
        double step = 1.05;
        double rate = guess;
        TRY_VOID(attempt(rate));
        if (above_ == 0) {
            while (above_ == 0) {
                rate *= step;
                step = 1 + 2 * (step - 1);
                if (rate > guess * kMostFactorUp) {
                    return base::invalid(fmt::format(
                        "every rate up to {:g} tokens/s is sustained; a peak needs an end", rate));
                }
                TRY_VOID(attempt(rate));
            }
            return base::Ok{};
        }
        // Overloaded, a cluster serves about as much as it can.
        rate = std::min(rate / step, std::max(last_served_, rate / 2));
        while (true) {
            TRY_VOID(attempt(rate));
            if (peak_.tokens_per_s > 0) return base::Ok{};
            step = 1 + 2 * (step - 1);
            rate /= step;
            if (rate < guess / kMostFactorDown) {
                return base::invalid(
                    fmt::format("no rate down to {:g} tokens/s is sustained", rate));
            }
        }
    }

    base::Status attempt(double rate) {
        ++peak_.runs;
        TRY(last_served_, served_(rate));
        if (last_served_ >= rules_.keeps_up * rate) {
            peak_.tokens_per_s = rate;
            peak_.served_tokens_per_s = last_served_;
        } else {
            above_ = rate;
        }
        return base::Ok{};
    }

    const ServedAtRate& served_;
    const PeakRules& rules_;
    Peak peak_;
    double above_ = 0;  // the lowest rate found not to be sustained; 0 = none yet
    double last_served_ = 0;
};

double served_tokens_per_s(const SimReport& report) {
    return report.kv_overflowed ? 0 : report.prompt_tokens_per_s + report.decode_tokens_per_s;
}

// The output tokens after which no more than kTail of all tokens come, prompts and outputs.
double most_of_output(const LengthSource& lengths) {
    std::vector<std::int32_t> outputs;
    double tokens = 0;
    for (const RequestLength& row : lengths.rows()) {
        outputs.push_back(row.output_tokens);
        tokens += static_cast<double>(row.prompt_tokens) + row.output_tokens;
    }
    std::sort(outputs.begin(), outputs.end(), std::greater<>());
    double later = 0;  // tokens after the first outputs[i] of each
    for (std::size_t i = 0; i + 1 < outputs.size(); ++i) {
        later += static_cast<double>(i + 1) * (outputs[i] - outputs[i + 1]);
        if (later > kTail * tokens) return outputs[i];
    }
    return outputs.back();
}

// Setup: HelixSetup or ReferenceSetup; run: its simulator.
template <typename Setup, typename Run>
base::Result<Peak> search(Setup setup, const PeakWatch& watch, const PeakRules& rules,
                          const Run& run) {
    setup.observer = nullptr;
    std::int32_t runs = 0;
    const auto simulate = [&](double tokens_per_s) {
        ++runs;
        const auto tell = [&, run_number = runs](double share) {
            if (watch) watch({run_number, tokens_per_s, share});
        };
        tell(0);
        return run(setup, [&](double done_s, double total_s) { tell(done_s / total_s); });
    };
    setup.online.reset();
    setup.warmup_s = kOfflineWarmup_s;
    setup.duration_s = kOfflineWindow_s;
    TRY(const SimReport offline, simulate(0));
    const double guess = offline.prompt_tokens_per_s + offline.decode_tokens_per_s;
    if (guess <= 0) {
        return base::invalid(fmt::format("nothing is served within {} s of a saturating load",
                                         kOfflineWarmup_s + kOfflineWindow_s));
    }
    // From an empty cluster, less than what comes is served until the longer answers have got to
    // their ends.
    const double stay_s = offline.ttft.mean + most_of_output(setup.lengths) * offline.tpot.mean;
    setup.warmup_s = std::clamp(stay_s, kLeastWindow_s, kMostWarmup_s);
    setup.duration_s = std::clamp(stay_s / 2, kLeastWindow_s, kMostWindow_s);
    const auto served = [&](double tokens_per_s) -> base::Result<double> {
        setup.online = even_load(setup.lengths, tokens_per_s, setup.warmup_s + setup.duration_s);
        TRY(const SimReport report, simulate(tokens_per_s));
        return served_tokens_per_s(report);
    };
    TRY(Peak peak, find_peak(guess, served, rules));
    peak.runs = runs;
    return peak;
}

}  // namespace

base::Result<Peak> find_peak(double first_guess, const ServedAtRate& served,
                             const PeakRules& rules) {
    CHECK(first_guess > 0);
    return PeakSearch(served, rules).run(first_guess);
}

OnlineLoad even_load(const LengthSource& lengths, double tokens_per_s, double duration_s) {
    std::vector<RequestLength> rows = lengths.rows();
    std::sort(rows.begin(), rows.end(), [](const RequestLength& a, const RequestLength& b) {
        return std::pair(a.prompt_tokens + a.output_tokens, a.output_tokens) <
               std::pair(b.prompt_tokens + b.output_tokens, b.output_tokens);
    });
    // Multiples of the golden ratio lie as evenly in [0, 1) as any sequence does.
    constexpr double kGolden = 0.6180339887498949;
    OnlineLoad load;
    load.process = ArrivalProcess::listed;
    load.tokens_per_s = tokens_per_s;
    const double gap_s = lengths.mean_tokens() / tokens_per_s;
    for (double k = 0; k * gap_s < duration_s; ++k) {
        const double place = k * kGolden - std::floor(k * kGolden);
        const auto row = static_cast<std::size_t>(place * static_cast<double>(rows.size()));
        load.listed.push_back({k * gap_s, rows[std::min(row, rows.size() - 1)]});
    }
    return load;
}

base::Result<Peak> find_peak(const HelixSetup& setup, const PeakWatch& watch,
                             const PeakRules& rules) {
    return search(setup, watch, rules, [](const HelixSetup& s, const SimProgress& progress) {
        return run_helix(s, progress);
    });
}

base::Result<Peak> find_peak(const ReferenceSetup& setup, const PeakWatch& watch,
                             const PeakRules& rules) {
    return search(setup, watch, rules, [](const ReferenceSetup& s, const SimProgress& progress) {
        return run_reference(s, progress);
    });
}

}  // namespace helix::sim
