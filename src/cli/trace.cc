// helix trace synth OUT · helix trace info FILE

#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "lab/load/trace_summary.h"
#include "sim/load/synthetic_trace.h"
#include "sim/load/trace_file.h"
#include "spec/word_choice.h"

namespace helix::cli {
namespace {

base::Status show_info(const std::string& path, bool json) {
    TRY(const sim::Trace trace, sim::read_trace(path));
    std::fputs(lab::describe_trace(trace, json).c_str(), stdout);
    return base::Ok{};
}

struct SynthArguments {
    std::string out;
    std::string format = "timed";
    sim::SyntheticTraceOptions options;
};

base::Status make_synth(const SynthArguments& a) {
    TRY(const auto format,
        spec::choose_word<sim::TraceFormat>("--format", a.format,
                                            {{"timed", sim::TraceFormat::timed},
                                             {"azure", sim::TraceFormat::azure},
                                             {"lengths", sim::TraceFormat::lengths}}));
    TRY(const auto requests, sim::synthetic_trace(a.options));
    TRY_VOID(sim::write_trace(a.out, requests, format));
    std::fputs(lab::describe_trace({format, requests}, false).c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_trace(App& app) {
    CLI::App* trace =
        app.parser.add_subcommand("trace", "Look at request traces, make synthetic ones");
    trace->require_subcommand(1);
    trace->footer(
        "Examples:\n"
        "  helix trace info AzureLLMInferenceTrace_conv.csv\n"
        "  helix trace synth trace.csv --requests 1000 --rate 2\n"
        "\n'helix trace COMMAND --help' says more.");

    CLI::App* info = trace->add_subcommand("info", "What a trace file holds");
    auto path = std::make_shared<std::string>();
    auto json = std::make_shared<bool>(false);
    info->add_option("FILE", *path,
                     "CSV: arrival_s,prompt_tokens,output_tokens, the Azure traces' columns, or "
                     "lengths only")
        ->required();
    info->add_flag("--json", *json, "one JSON object instead of lines for people");
    info->footer("Example:\n  helix trace info AzureLLMInferenceTrace_conv.csv");
    info->callback([&app, path, json] { app.action = [=] { return show_info(*path, *json); }; });

    CLI::App* synth = trace->add_subcommand(
        "synth", "Writes requests with the lengths of the Azure conversation trace");
    auto a = std::make_shared<SynthArguments>();
    synth->add_option("OUT", a->out, "the CSV file to write")->required();
    synth->add_option("--requests", a->options.requests, "how many")->capture_default_str();
    synth->add_option("--rate", a->options.requests_per_s, "requests per second")
        ->capture_default_str();
    synth
        ->add_option("--burst", a->options.gap_cv,
                     "deviation of the gaps over their mean: 1 = Poisson, more = bursts, 0 = even")
        ->capture_default_str();
    synth->add_option("--seed", a->options.seed, "equal seeds give equal files")
        ->capture_default_str();
    synth->add_option("--format", a->format, "timed, azure or lengths")->capture_default_str();
    synth->footer(
        "Example:\n  helix trace synth --requests 5000 --rate 4.6 --seed 1 conversations.csv");
    synth->callback([&app, a] { app.action = [a] { return make_synth(*a); }; });
}

}  // namespace helix::cli
