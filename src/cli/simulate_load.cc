#include "cli/simulate_load.h"

#include <fmt/format.h>

#include "cli/word_option.h"
#include "sim/synthetic_trace.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

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

}  // namespace

base::Result<SimulatedLoad> read_load(const LoadArguments& a) {
    SimulatedLoad load;
    TRY(load.lengths, read_lengths(a));
    TRY(load.warmup_s, spec::parse_duration(a.warmup));
    TRY(load.duration_s, spec::parse_duration(a.duration));
    load.population = a.population;
    load.seed = a.seed;
    if (a.offline && a.online) return base::invalid("--offline and --online exclude each other");
    if (!a.online) {
        if (a.rate > 0) return base::invalid("--rate: only with --online");
        return load;
    }
    if (!(a.rate > 0)) {
        return base::invalid("--online: needs --rate, prompt and output tokens per second");
    }
    sim::OnlineLoad online;
    online.tokens_per_s = a.rate;
    TRY(online.process,
        choose_word<sim::ArrivalProcess>("--arrivals", a.arrivals,
                                         {{"shuffled", sim::ArrivalProcess::shuffled},
                                          {"recorded", sim::ArrivalProcess::recorded},
                                          {"poisson", sim::ArrivalProcess::poisson}}));
    if (online.process != sim::ArrivalProcess::poisson) {
        if (a.arrival_counts.empty()) {
            return base::invalid(fmt::format(
                "--arrivals {}: needs --arrival-counts FILE (requests_in_3s)", a.arrivals));
        }
        TRY(online.counts_per_3s, sim::read_arrival_counts(a.arrival_counts));
    }
    load.online = std::move(online);
    return load;
}

void LoadArguments::add_to(CLI::App& command) {
    command.add_option("--lengths", lengths,
                       "CSV with prompt_tokens and output_tokens [made up like the Azure "
                       "conversation trace]");
    command
        .add_option("--length-order", length_order,
                    "sampled: rows drawn at random; recorded: in the file's order; auto: recorded "
                    "if the file's name has \"stream\" in it")
        ->capture_default_str();
    command.add_flag("--offline", offline, "keep the cluster saturated (the default)");
    command.add_flag("--online", online, "requests arrive at --rate");
    command.add_option("--population", population,
                       "offline: requests fed at the start; all that the baselines ever keep");
    command.add_option("--rate", rate, "online: prompt and output tokens per second");
    command.add_option("--arrivals", arrivals, "online: shuffled, recorded or poisson")
        ->capture_default_str();
    command.add_option("--arrival-counts", arrival_counts,
                       "CSV with requests_in_3s, for shuffled and recorded arrivals");
    command.add_option("--warmup", warmup, "not counted")->capture_default_str();
    command.add_option("--duration", duration, "counted, after the warm-up")->capture_default_str();
    command.add_option("--seed", seed, "equal seeds give equal runs")->capture_default_str();
}

}  // namespace helix::cli
