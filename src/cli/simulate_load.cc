#include "cli/simulate_load.h"

#include "cli/help_text.h"

namespace helix::cli {

void add_load_options(CLI::App& command, lab::LoadChoice& a) {
    const OptionHeading heading(command, "Load");
    command.add_option("--lengths", a.lengths,
                       "CSV with prompt_tokens and output_tokens, or an Azure trace [made up like "
                       "the Azure conversation trace]");
    command
        .add_option("--length-order", a.length_order,
                    "sampled: rows drawn at random; recorded: in the file's order; auto: recorded "
                    "if the file's name has \"stream\" in it")
        ->capture_default_str();
    command.add_flag("--offline", a.offline, "keep the cluster saturated (the default)");
    command.add_flag("--online", a.online, "requests arrive at --rate or --load [75% of the peak]");
    command.add_option("--population", a.population,
                       "offline: requests fed at the start; all that the baselines ever keep");
    command.add_option("--rate", a.rate, "online: prompt and output tokens per second");
    command.add_option("--load", a.load,
                       "online at a share of the peak, like 75%; the peak is searched for first");
    command
        .add_option("--arrivals", a.arrivals,
                    "online: shuffled or recorded, with --arrival-counts; poisson or gamma; "
                    "auto: shuffled if there are counts, else poisson")
        ->capture_default_str();
    command
        .add_option("--burstiness", a.burstiness,
                    "--arrivals gamma: coefficient of variation of the gaps; 1 is poisson, 0 even")
        ->capture_default_str();
    command.add_option("--arrival-counts", a.arrival_counts,
                       "CSV with requests_in_3s, for shuffled and recorded arrivals");
    command.add_option("--trace", a.trace,
                       "online: the requests of a CSV of arrival_s,prompt_tokens,output_tokens or "
                       "of an Azure LLM trace, at its own rate, --rate or --load");
    command.add_option("--trace-speed", a.trace_speed, "--trace: so many times as fast")
        ->capture_default_str();
    command.add_option("--warmup", a.warmup, "not counted")->capture_default_str();
    command.add_option("--duration", a.duration,
                       "counted, after the warm-up [600s; with --trace: until its end]");
    command.add_option("--seed", a.seed, "equal seeds give equal runs")->capture_default_str();
}

}  // namespace helix::cli
