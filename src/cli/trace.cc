// helix trace synth OUT · helix trace info FILE

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "sim/load/synthetic_trace.h"
#include "sim/load/trace_file.h"
#include "sim/report/distribution.h"

namespace helix::cli {
namespace {

struct Column {
    const char* name;
    sim::Distribution values;
};

struct TraceSummary {
    std::size_t requests = 0;
    bool timed = false;
    double duration_s = 0;  // from the first to the last arrival
    double gap_mean_s = 0;
    double gap_cv = 0;
    Column prompt{"prompt_tokens", sim::Distribution{}};
    Column output{"output_tokens", sim::Distribution{}};

    double requests_per_s() const { return gap_mean_s > 0 ? 1 / gap_mean_s : 0; }
};

TraceSummary summarise(const sim::Trace& trace) {
    TraceSummary s;
    s.requests = trace.requests.size();
    s.timed = trace.format != sim::TraceFormat::lengths;
    s.duration_s = trace.requests.back().arrival_s - trace.requests.front().arrival_s;
    const double gaps = static_cast<double>(s.requests) - 1;
    double squares = 0;
    for (std::size_t i = 0; i < s.requests; ++i) {
        const sim::TraceRequest& request = trace.requests[i];
        s.prompt.values.add(request.prompt_tokens);
        s.output.values.add(request.output_tokens);
        if (i == 0) continue;
        squares += std::pow(request.arrival_s - trace.requests[i - 1].arrival_s, 2);
    }
    if (gaps > 0 && s.duration_s > 0) {
        s.gap_mean_s = s.duration_s / gaps;
        const double variance = std::max(0.0, squares / gaps - s.gap_mean_s * s.gap_mean_s);
        s.gap_cv = std::sqrt(variance) / s.gap_mean_s;
    }
    return s;
}

void show_text(const TraceSummary& s) {
    fmt::print("requests       {}\n", s.requests);
    if (s.timed) {
        fmt::print("duration       {:.3f} s\n", s.duration_s);
        fmt::print("rate           {:.4g} requests/s, gaps vary by {:.2f} (1 = Poisson)\n",
                   s.requests_per_s(), s.gap_cv);
    }
    for (const Column* c : {&s.prompt, &s.output}) {
        fmt::print("{:<14} mean {:.1f}, least {}, p50 {}, p95 {}, p99 {}, greatest {}\n", c->name,
                   c->values.mean(), c->values.least(), c->values.quantile(0.5),
                   c->values.quantile(0.95), c->values.quantile(0.99), c->values.greatest());
    }
}

void show_json(const TraceSummary& s) {
    fmt::print("{{\"requests\": {}, ", s.requests);
    if (s.timed) {
        fmt::print("\"duration_s\": {}, \"requests_per_s\": {}, \"gap_cv\": {}, ", s.duration_s,
                   s.requests_per_s(), s.gap_cv);
    }
    for (const Column* c : {&s.prompt, &s.output}) {
        fmt::print(
            "\"{}\": {{\"mean\": {}, \"min\": {}, \"p50\": {}, \"p95\": {}, \"p99\": {}, "
            "\"max\": {}}}{}",
            c->name, c->values.mean(), c->values.least(), c->values.quantile(0.5),
            c->values.quantile(0.95), c->values.quantile(0.99), c->values.greatest(),
            c == &s.prompt ? ", " : "}\n");
    }
}

base::Status show_info(const std::string& path, bool json) {
    TRY(const sim::Trace trace, sim::read_trace(path));
    const TraceSummary summary = summarise(trace);
    json ? show_json(summary) : show_text(summary);
    return base::Ok{};
}

struct SynthArguments {
    std::string out;
    std::string format = "timed";
    sim::SyntheticTraceOptions options;
};

base::Result<sim::TraceFormat> parse_format(const std::string& word) {
    if (word == "timed") return sim::TraceFormat::timed;
    if (word == "azure") return sim::TraceFormat::azure;
    if (word == "lengths") return sim::TraceFormat::lengths;
    return base::invalid("--format: '" + word + "' is none of timed, azure, lengths");
}

base::Status make_synth(const SynthArguments& a) {
    TRY(const sim::TraceFormat format, parse_format(a.format));
    TRY(const auto requests, sim::synthetic_trace(a.options));
    TRY_VOID(sim::write_trace(a.out, requests, format));
    show_text(summarise({format, requests}));
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
