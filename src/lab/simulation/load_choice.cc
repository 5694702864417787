#include "lab/simulation/load_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/load/synthetic_trace.h"
#include "sim/load/trace_file.h"
#include "spec/units.h"
#include "spec/word_choice.h"

namespace helix::lab {
namespace {

constexpr double kDefaultDuration_s = 600;
constexpr double kMostShare = 1000;  // per cent
constexpr double kDefaultShare = 0.75;
// Of the arrivals of a load whose rate is found later.
constexpr double kAnyRate = 1;

base::Result<sim::LengthSource> read_lengths(const LoadChoice& a) {
    if (a.lengths.empty()) return sim::conversation_lengths();
    const std::string name = a.lengths.substr(a.lengths.find_last_of('/') + 1);
    const bool stream = name.find("stream") != std::string::npos;
    TRY(const sim::LengthOrder order,
        spec::choose_word<sim::LengthOrder>(
            "--length-order", a.length_order,
            {{"auto", stream ? sim::LengthOrder::recorded : sim::LengthOrder::sampled},
             {"sampled", sim::LengthOrder::sampled},
             {"recorded", sim::LengthOrder::recorded}}));
    return sim::LengthSource::read(a.lengths, order);
}

// "75%" or "75 %", as a share.
base::Result<double> read_share(const std::string& text) {
    double percent = 0;
    const char* const end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data(), end, percent);
    std::string_view rest(after, static_cast<std::size_t>(end - after));
    if (rest.starts_with(' ')) rest.remove_prefix(1);
    if (error != std::errc() || rest != "%" || !(percent > 0 && percent <= kMostShare)) {
        return base::invalid("--load: '" + text + "': expected a share of the peak, like 75%");
    }
    return percent / 100;
}

base::Status check_options(const LoadChoice& a) {
    if (a.offline && a.online) return base::invalid("--offline and --online exclude each other");
    const int rates = (a.rate != 0 ? 1 : 0) + (a.load.empty() ? 0 : 1);
    if (a.offline && (rates > 0 || !a.trace.empty())) {
        return base::invalid(
            "--offline: the cluster is kept saturated; no --rate, --load, --trace");
    }
    if (rates > 1) return base::invalid("give one of --rate and --load");
    if (a.rate != 0 && !(a.rate > 0)) {
        return base::invalid("--rate: expected tokens per second, above 0");
    }
    if (a.rate > 0 && !a.online && a.trace.empty()) {
        return base::invalid("--rate: only with --online");
    }
    if (a.population < 0) return base::invalid("--population: expected a number above 0");
    if (a.trace.empty()) {
        if (a.trace_speed != 1) return base::invalid("--trace-speed: only with --trace");
        return base::Ok{};
    }
    if (!a.lengths.empty()) return base::invalid("--trace: the file has the lengths; no --lengths");
    if (!(a.trace_speed > 0 && a.trace_speed <= 1e6)) {
        return base::invalid("--trace-speed: expected a factor above 0");
    }
    if (a.trace_speed != 1 && rates > 0) {
        return base::invalid("--trace-speed: --rate and --load say how fast the trace comes");
    }
    return base::Ok{};
}

base::Status read_timed_trace(const LoadChoice& a, SimulatedLoad& load) {
    TRY(const sim::Trace trace, sim::read_trace(a.trace));
    if (trace.format == sim::TraceFormat::lengths) {
        return base::invalid(a.trace +
                             ": has lengths but no times of arrival; give it to --lengths, with "
                             "--rate");
    }
    auto online = sim::listed_load(trace.requests);
    if (!online.ok()) return base::invalid(a.trace + ": " + online.error().message);
    std::vector<sim::RequestLength> rows;
    for (const sim::Arrival& arrival : online->listed) rows.push_back(arrival.length);
    load.lengths = sim::LengthSource(std::move(rows), sim::LengthOrder::recorded);
    sim::set_rate(*online, a.rate > 0 ? a.rate : online->tokens_per_s * a.trace_speed);
    load.online = std::move(*online);
    load.described = "trace " + a.trace;
    return base::Ok{};
}

base::Status draw_online(const LoadChoice& a, SimulatedLoad& load) {
    sim::OnlineLoad online;
    online.tokens_per_s = a.rate > 0 ? a.rate : kAnyRate;
    const std::string usual = a.arrival_counts.empty() ? "poisson" : "shuffled";
    const std::string word = a.arrivals == "auto" ? usual : a.arrivals;
    TRY(online.process,
        spec::choose_word<sim::ArrivalProcess>("--arrivals", word,
                                               {{"shuffled", sim::ArrivalProcess::shuffled},
                                                {"recorded", sim::ArrivalProcess::recorded},
                                                {"poisson", sim::ArrivalProcess::poisson},
                                                {"gamma", sim::ArrivalProcess::gamma}}));
    if (online.process == sim::ArrivalProcess::gamma) {
        if (!(a.burstiness >= 0 && a.burstiness <= 100)) {
            return base::invalid(
                "--burstiness: expected a coefficient of variation from 0 (even) to 100");
        }
        online.burstiness = a.burstiness;
    } else if (online.process != sim::ArrivalProcess::poisson) {
        if (a.arrival_counts.empty()) {
            return base::invalid(
                fmt::format("--arrivals {}: needs --arrival-counts FILE (requests_in_3s)", word));
        }
        TRY(online.counts_per_3s, sim::read_arrival_counts(a.arrival_counts));
    }
    load.online = std::move(online);
    load.described = "online, " + word + " arrivals";
    return base::Ok{};
}

base::Status read_window(const LoadChoice& a, SimulatedLoad& load) {
    TRY(load.warmup_s, spec::parse_duration("--warmup", a.warmup));
    load.duration_s = kDefaultDuration_s;
    if (!a.duration.empty()) {
        TRY(load.duration_s, spec::parse_duration("--duration", a.duration));
        if (!(load.duration_s > 0)) return base::invalid("--duration: expected a time above 0");
        return base::Ok{};
    }
    if (a.trace.empty() || load.peak_share > 0) return base::Ok{};
    const double last_s = load.online->listed.back().at_s;
    if (last_s <= load.warmup_s) {
        return base::invalid(fmt::format("--warmup {}: the trace's last request comes after {}",
                                         a.warmup, spec::format_duration(last_s)));
    }
    load.duration_s = last_s - load.warmup_s;
    return base::Ok{};
}

}  // namespace

base::Result<SimulatedLoad> read_load(const LoadChoice& a) {
    TRY_VOID(check_options(a));
    SimulatedLoad load;
    load.population = a.population;
    load.seed = a.seed;
    load.described = "offline";
    if (!a.load.empty()) {
        TRY(load.peak_share, read_share(a.load));
    } else if (a.online && a.rate == 0 && a.trace.empty()) {
        load.peak_share = kDefaultShare;
    }
    if (!a.trace.empty()) {
        TRY_VOID(read_timed_trace(a, load));
    } else {
        TRY(load.lengths, read_lengths(a));
        if (a.online || load.peak_share > 0) TRY_VOID(draw_online(a, load));
    }
    TRY_VOID(read_window(a, load));
    return load;
}

}  // namespace helix::lab
