#include "cli/simulate_load.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/word_option.h"
#include "sim/load/synthetic_trace.h"
#include "sim/load/trace_file.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

using sim::ArrivalProcess;

constexpr double kDefaultDuration_s = 600;
constexpr double kMostShare = 1000;  // per cent
constexpr double kDefaultShare = 0.75;
// Of the arrivals of a load whose rate is found later.
constexpr double kAnyRate = 1;

base::Result<sim::LengthSource> read_lengths(const LoadArguments& a) {
    if (a.lengths.empty()) return sim::conversation_lengths();
    const std::string name = a.lengths.substr(a.lengths.find_last_of('/') + 1);
    const bool stream = name.find("stream") != std::string::npos;
    TRY(const sim::LengthOrder order,
        choose_word<sim::LengthOrder>(
            "--length-order", a.length_order,
            {{"auto", stream ? sim::LengthOrder::recorded : sim::LengthOrder::sampled},
             {"sampled", sim::LengthOrder::sampled},
             {"recorded", sim::LengthOrder::recorded}}));
    return sim::LengthSource::read(a.lengths, order);
}

base::Result<double> read_duration(const char* option, const std::string& text) {
    const auto seconds = spec::parse_duration(text);
    if (!seconds.ok()) return base::invalid(fmt::format("{}: {}", option, seconds.error().message));
    return *seconds;
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

base::Status check_options(const LoadArguments& a) {
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

base::Status read_timed_trace(const LoadArguments& a, lab::SimulatedLoad& load) {
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

base::Status draw_online(const LoadArguments& a, lab::SimulatedLoad& load) {
    sim::OnlineLoad online;
    online.tokens_per_s = a.rate > 0 ? a.rate : kAnyRate;
    const std::string usual = a.arrival_counts.empty() ? "poisson" : "shuffled";
    const std::string word = a.arrivals == "auto" ? usual : a.arrivals;
    TRY(online.process, choose_word<ArrivalProcess>("--arrivals", word,
                                                    {{"shuffled", ArrivalProcess::shuffled},
                                                     {"recorded", ArrivalProcess::recorded},
                                                     {"poisson", ArrivalProcess::poisson},
                                                     {"gamma", ArrivalProcess::gamma}}));
    if (online.process == ArrivalProcess::gamma) {
        if (!(a.burstiness >= 0 && a.burstiness <= 100)) {
            return base::invalid(
                "--burstiness: expected a coefficient of variation from 0 (even) to 100");
        }
        online.burstiness = a.burstiness;
    } else if (online.process != ArrivalProcess::poisson) {
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

base::Status read_window(const LoadArguments& a, lab::SimulatedLoad& load) {
    TRY(load.warmup_s, read_duration("--warmup", a.warmup));
    load.duration_s = kDefaultDuration_s;
    if (!a.duration.empty()) {
        TRY(load.duration_s, read_duration("--duration", a.duration));
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

base::Result<lab::SimulatedLoad> read_load(const LoadArguments& a) {
    TRY_VOID(check_options(a));
    lab::SimulatedLoad load;
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

void LoadArguments::add_to(CLI::App& command) {
    command.add_option("--lengths", lengths,
                       "CSV with prompt_tokens and output_tokens, or an Azure trace [made up like "
                       "the Azure conversation trace]");
    command
        .add_option("--length-order", length_order,
                    "sampled: rows drawn at random; recorded: in the file's order; auto: recorded "
                    "if the file's name has \"stream\" in it")
        ->capture_default_str();
    command.add_flag("--offline", offline, "keep the cluster saturated (the default)");
    command.add_flag("--online", online, "requests arrive at --rate or --load [75% of the peak]");
    command.add_option("--population", population,
                       "offline: requests fed at the start; all that the baselines ever keep");
    command.add_option("--rate", rate, "online: prompt and output tokens per second");
    command.add_option("--load", load,
                       "online at a share of the peak, like 75%; the peak is searched for first");
    command
        .add_option("--arrivals", arrivals,
                    "online: shuffled or recorded, with --arrival-counts; poisson or gamma; "
                    "auto: shuffled if there are counts, else poisson")
        ->capture_default_str();
    command
        .add_option("--burstiness", burstiness,
                    "--arrivals gamma: coefficient of variation of the gaps; 1 is poisson, 0 even")
        ->capture_default_str();
    command.add_option("--arrival-counts", arrival_counts,
                       "CSV with requests_in_3s, for shuffled and recorded arrivals");
    command.add_option("--trace", trace,
                       "online: the requests of a CSV of arrival_s,prompt_tokens,output_tokens or "
                       "of an Azure LLM trace, at its own rate, --rate or --load");
    command.add_option("--trace-speed", trace_speed, "--trace: so many times as fast")
        ->capture_default_str();
    command.add_option("--warmup", warmup, "not counted")->capture_default_str();
    command.add_option("--duration", duration,
                       "counted, after the warm-up [600s; with --trace: until its end]");
    command.add_option("--seed", seed, "equal seeds give equal runs")->capture_default_str();
}

}  // namespace helix::cli
