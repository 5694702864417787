// helix bench --url http://HOST:PORT

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/help_text.h"
#include "cli/interrupt.h"
#include "lab/load/api_client.h"
#include "lab/load/bench.h"
#include "lab/load/load_run.h"
#include "net/open_files.h"

namespace helix::cli {
namespace {

// A line on standard error, renewed on a terminal, every ten seconds elsewhere.
class BenchProgress {
  public:
    ~BenchProgress() {
        if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
    }
    void show(const lab::LoadProgress& p) {
        if (!terminal_ && p.seconds < next_s_) return;
        next_s_ = p.seconds + 10;
        shown_ = true;
        const double rate =
            static_cast<double>(p.tokens - tokens_) / std::max(p.seconds - seconds_, 1e-3);
        tokens_ = p.tokens;
        seconds_ = p.seconds;
        std::fputs(fmt::format("{}{:.0f} s: {} sent, {} under way, {} failed, {:.0f} tokens/s{}",
                               terminal_ ? "\r\033[K" : "", p.seconds, p.sent, p.open, p.failed,
                               rate, terminal_ ? "" : "\n")
                       .c_str(),
                   stderr);
        std::fflush(stderr);
    }

  private:
    bool terminal_ = isatty(STDERR_FILENO) != 0;
    bool shown_ = false;
    double next_s_ = 10;
    double seconds_ = 0;
    std::size_t tokens_ = 0;
};

lab::LoadResult measure(lab::ApiClient& client, const lab::LoadPlan& plan) {
    std::atomic<bool> interrupted{false};
    const Interrupt interrupt([&] {
        interrupted = true;
        client.http().wake();
    });
    BenchProgress progress;
    return lab::run_load(client, plan, interrupted,
                         [&](const lab::LoadProgress& p) { progress.show(p); });
}

base::Status run_bench(const lab::BenchQuestion& question) {
    net::raise_open_file_limit();
    const lab::BenchHooks hooks = {.measure = measure, .announce = [](const std::string& line) {
                                       std::fputs((line + "\n").c_str(), stdout);
                                       std::fflush(stdout);
                                   }};
    TRY(const lab::BenchAnswer answer, lab::run_bench(question, hooks));
    std::fputs(answer.shown.c_str(), stdout);
    if (answer.all_failed) {
        return base::Error{base::Errc::unavailable, "every request failed"};
    }
    return base::Ok{};
}

void add_server_options(CLI::App& bench, lab::BenchQuestion& a) {
    const OptionHeading heading(bench, "The server");
    bench.add_option("--url", a.target.url, "of the server")->capture_default_str();
    bench.add_option("--served-model", a.target.model, "[the first that it names]");
    bench.add_option("--api-key", a.target.api_key, "if it wants one")->envname("HELIX_API_KEY");
    bench.add_option("--endpoint", a.endpoint, "completions (prompts as token ids), or chat")
        ->capture_default_str();
    bench.add_option("--timeout", a.timeout, "of one request")->capture_default_str();
}

void add_bench_load_options(CLI::App& bench, lab::BenchQuestion& a) {
    const OptionHeading heading(bench, "Load");
    bench.add_option("--concurrency", a.concurrency,
                     "so many clients, each with one request at a time [8]");
    bench.add_option("--rate", a.rate_per_s,
                     "requests per second, sent when due whatever became of earlier ones");
    bench
        .add_option("--arrivals", a.arrivals,
                    "with --rate: even, poisson, or gamma:CV (bursts, CV of the gaps)")
        ->capture_default_str();
    bench.add_option("--trace", a.trace,
                     "a CSV of arrival_s,prompt_tokens,output_tokens, or an Azure LLM trace");
    bench.add_option("--requests", a.requests, "how many [100, or what --duration allows]");
    bench.add_option("--duration", a.duration,
                     "measure for so long, like 60s; then what is under way is awaited");
    bench.add_option("--warmup", a.warmup, "load before that, not counted, like 10s");
    bench.add_option("--prompt-tokens", a.prompt_tokens, "512, or any of a range: 100-1000")
        ->capture_default_str();
    bench.add_option("--output-tokens", a.output_tokens, "512, or any of a range: 100-1000")
        ->capture_default_str();
    bench.add_option("--lengths", a.lengths,
                     "a CSV of prompt_tokens,output_tokens to draw requests from");
    bench.add_flag("--skip-too-long", a.skip_too_long,
                   "leave out requests beyond the model's context");
    bench.add_option("--seed", a.seed, "equal seeds give equal loads")->capture_default_str();
}

void add_goal_options(CLI::App& bench, lab::BenchQuestion& a) {
    const OptionHeading heading(bench, "Goals");
    bench.add_option("--slo-ttft", a.slo_ttft, "goodput counts first tokens within, like 2s");
    bench.add_option("--slo-tpot", a.slo_tpot, "... and mean times per token within, like 80ms");
}

void add_simulation_options(CLI::App& bench, lab::BenchQuestion& a) {
    const OptionHeading heading(bench, "Beside a simulation");
    bench.add_flag("--against-simulation", a.against_simulation,
                   "also simulate this load on the cluster that serves, and compare");
    bench.add_option("--profiles", a.profiles, "for it: folder of measured tables");
    bench.add_option("--profile", a.profile, "for it: the tables' model");
    bench.add_option("--time-scale", a.time_scale, "for it: as the modelled workers have it")
        ->capture_default_str();
    bench.add_option("--link-latency", a.link_latency,
                     "for it: between any two machines [measured with lone requests before]");
    bench.add_option("--answer-delay", a.answer_delay,
                     "for it: of a token on its way to the client; with --link-latency");
    bench.add_option("--link-bandwidth", a.link_bandwidth, "for it: between any two machines")
        ->capture_default_str();
    bench.add_option("--block-size", a.block_size, "for it: tokens of a KV page")
        ->capture_default_str();
}

}  // namespace

void add_bench(App& app) {
    CLI::App* bench = app.parser.add_subcommand(
        "bench", "Puts load on a server with the OpenAI API and measures it");
    auto a = std::make_shared<lab::BenchQuestion>();
    add_server_options(*bench, *a);
    add_bench_load_options(*bench, *a);
    add_goal_options(*bench, *a);
    add_simulation_options(*bench, *a);
    bench->add_flag("--json", a->json, "one JSON object");
    bench->footer(
        "Examples:\n"
        "  helix bench --concurrency 16 --duration 60s --warmup 10s\n"
        "  helix bench --url http://192.0.2.7:8080 --rate 4 --arrivals gamma:2 --duration 5min\n"
        "  helix bench --trace day.csv --slo-ttft 2s --slo-tpot 100ms --json\n"
        "  helix bench --trace day.csv --against-simulation --profiles DIR --profile llama2-70b");
    bench->callback([&app, a] { app.action = [a] { return run_bench(*a); }; });
}

}  // namespace helix::cli
