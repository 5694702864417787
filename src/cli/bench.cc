// helix bench --url http://HOST:PORT

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "lab/load/api_client.h"
#include "lab/load/bench_load.h"
#include "lab/load/bench_twin.h"
#include "lab/load/load_report.h"
#include "lab/load/load_run.h"
#include "lab/load/request_plan.h"
#include "net/open_files.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

struct BenchArguments {
    lab::ApiTarget target;
    std::string endpoint = "completions";
    std::size_t requests = 0;
    std::string duration;
    std::string warmup;
    int concurrency = 0;
    double rate_per_s = 0;
    std::string arrivals = "poisson";
    std::string trace;
    std::string prompt_tokens = "256";
    std::string output_tokens = "128";
    std::string lengths;
    bool skip_too_long = false;
    std::string slo_ttft;
    std::string slo_tpot;
    std::string timeout = "10min";
    std::uint64_t seed = 1;
    bool against_simulation = false;
    std::string profiles;
    std::string profile;
    double time_scale = 1;
    std::string link_latency;
    std::string answer_delay;
    std::string link_bandwidth = "2GB/s";
    int block_size = 16;
    bool json = false;
};

constexpr int kDefaultConcurrency = 8;
constexpr std::size_t kDefaultRequests = 100;
constexpr double kForever_s = 1e9;
constexpr std::size_t kMostRequests = 10'000'000;

base::Status check_options(const BenchArguments& a) {
    const int kinds =
        (a.concurrency != 0 ? 1 : 0) + (a.rate_per_s != 0 ? 1 : 0) + (a.trace.empty() ? 0 : 1);
    if (kinds > 1) return base::invalid("give one of --concurrency, --rate and --trace");
    if (a.concurrency < 0) return base::invalid("--concurrency: expected a number above 0");
    if (!(a.rate_per_s >= 0 && a.rate_per_s <= 1e6)) {
        return base::invalid("--rate: expected requests per second, above 0");
    }
    if (!a.trace.empty() && (!a.lengths.empty() || a.requests != 0)) {
        return base::invalid("--trace: the file has the requests; no --lengths, no --requests");
    }
    if (a.requests > kMostRequests) {
        return base::invalid(fmt::format("--requests: expected 1 to {}", kMostRequests));
    }
    if (!a.against_simulation) return base::Ok{};
    if (a.rate_per_s == 0 && a.trace.empty()) {
        return base::invalid("--against-simulation: needs --rate or --trace");
    }
    if (a.profiles.empty() || a.profile.empty()) {
        return base::invalid(
            "--against-simulation: needs --profiles DIR and --profile MODEL, which "
            "say how fast the workers' types are");
    }
    if (!(a.time_scale > 0)) return base::invalid("--time-scale: expected a number above 0");
    if (a.block_size < 1) return base::invalid("--block-size: expected a number above 0");
    return base::Ok{};
}

base::Result<std::optional<double>> optional_duration(const char* option, const std::string& text) {
    if (text.empty()) return std::optional<double>();
    const auto seconds = spec::parse_duration(text);
    if (!seconds.ok()) return base::invalid(fmt::format("{}: {}", option, seconds.error().message));
    return std::optional(*seconds);
}

base::Result<lab::LengthSource> length_source(const BenchArguments& a) {
    if (!a.lengths.empty()) return lab::LengthSource::read(a.lengths);
    TRY(const lab::LengthRange prompt, lab::parse_length_range("--prompt-tokens", a.prompt_tokens));
    TRY(const lab::LengthRange output, lab::parse_length_range("--output-tokens", a.output_tokens));
    return lab::LengthSource(prompt, output);
}

std::string describe_lengths(const BenchArguments& a) {
    if (!a.lengths.empty()) return "lengths from " + a.lengths;
    return fmt::format("prompts of {} and answers of {} tokens", a.prompt_tokens, a.output_tokens);
}

base::Result<lab::BenchLoad> make_load(const BenchArguments& a) {
    TRY_VOID(check_options(a));
    lab::BenchLoad load;
    load.plan.seed = a.seed;
    TRY(const auto warmup, optional_duration("--warmup", a.warmup));
    TRY(const auto duration, optional_duration("--duration", a.duration));
    load.warmup_s = warmup.value_or(0);
    load.duration_s = duration.value_or(0);
    const double send_for_s = duration ? load.warmup_s + load.duration_s : kForever_s;
    const std::size_t count = a.requests > 0 ? a.requests
                              : duration     ? kMostRequests
                                             : kDefaultRequests;
    if (!a.trace.empty()) {
        TRY(load.plan.arrivals, lab::read_arrivals(a.trace));
        std::erase_if(load.plan.arrivals,
                      [&](const lab::LoadRequest& r) { return r.arrival_s >= send_for_s; });
        load.described = fmt::format("{} requests of {}", load.plan.arrivals.size(), a.trace);
        load.json = {{"kind", "trace"}, {"trace", a.trace}};
    } else {
        TRY(const lab::LengthSource lengths, length_source(a));
        load.json["kind"] = a.rate_per_s > 0 ? "open" : "closed";
        if (a.rate_per_s > 0) {
            TRY(const double cv, lab::parse_arrivals(a.arrivals));
            load.plan.arrivals =
                lab::draw_load({a.rate_per_s, cv}, lengths, count, send_for_s, a.seed);
            load.described = fmt::format("{} requests/s ({}), {}", a.rate_per_s, a.arrivals,
                                         describe_lengths(a));
            load.json["rate_per_s"] = a.rate_per_s;
            load.json["arrivals"] = a.arrivals;
        } else {
            load.plan.concurrency = a.concurrency > 0 ? a.concurrency : kDefaultConcurrency;
            load.plan.lengths = lengths;
            load.plan.count = count;
            load.plan.duration_s = send_for_s;
            load.described =
                fmt::format("{} at a time, {}", load.plan.concurrency, describe_lengths(a));
            load.json["concurrency"] = load.plan.concurrency;
        }
        if (a.lengths.empty()) {
            load.json["prompt_tokens"] = a.prompt_tokens;
            load.json["output_tokens"] = a.output_tokens;
        } else {
            load.json["lengths"] = a.lengths;
        }
    }
    load.json["seed"] = a.seed;
    return load;
}

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

base::Result<lab::TwinSettings> twin_settings(const BenchArguments& a) {
    lab::TwinSettings settings;
    settings.profiles = a.profiles;
    settings.model = a.profile;
    settings.block_size = a.block_size;
    settings.time_scale = a.time_scale;
    TRY(settings.link_bytes_per_s, spec::parse_bandwidth(a.link_bandwidth));
    TRY(settings.link_latency_s, optional_duration("--link-latency", a.link_latency));
    TRY(const auto delay, optional_duration("--answer-delay", a.answer_delay));
    settings.answer_delay_s = delay.value_or(0);
    return settings;
}

// A copy, whose limit and endpoint are set from their words.
base::Result<lab::ApiTarget> api_target(const BenchArguments& a) {
    lab::ApiTarget target = a.target;
    TRY(const auto timeout, optional_duration("--timeout", a.timeout));
    target.limit = std::chrono::milliseconds(static_cast<std::int64_t>(*timeout * 1e3));
    if (a.endpoint != "completions" && a.endpoint != "chat") {
        return base::invalid("--endpoint: '" + a.endpoint + "' is neither completions nor chat");
    }
    target.endpoint =
        a.endpoint == "chat" ? lab::LoadEndpoint::chat : lab::LoadEndpoint::completions;
    return target;
}

base::Status run_bench(const BenchArguments& a) {
    TRY(lab::BenchLoad load, make_load(a));
    lab::ServiceGoal goal;
    TRY(goal.ttft_s, optional_duration("--slo-ttft", a.slo_ttft));
    TRY(goal.tpot_s, optional_duration("--slo-tpot", a.slo_tpot));
    TRY(const lab::ApiTarget target, api_target(a));
    net::raise_open_file_limit();
    TRY(const std::unique_ptr<lab::ApiClient> client, lab::ApiClient::connect(target));
    TRY_VOID(lab::check_lengths(*client, a.skip_too_long, load));
    const lab::Measure measure_client = [&client](const lab::LoadPlan& plan) {
        return measure(*client, plan);
    };
    std::optional<lab::Twin> twin;
    if (a.against_simulation) {
        TRY(const lab::TwinSettings settings, twin_settings(a));
        TRY(twin, lab::prepare_twin(settings, *client, measure_client));
    }
    if (!a.json) {
        std::fputs(
            fmt::format("{} at {}: {}\n", client->model(), target.url, load.described).c_str(),
            stdout);
        std::fflush(stdout);
    }
    const lab::LoadResult result = measure_client(load.plan);
    const lab::LoadReport report = lab::make_report(result, lab::window_of(load, result), goal);
    std::vector<lab::Comparison> comparisons;
    if (twin && !result.interrupted) {
        TRY(comparisons, lab::compare_with_worlds(*twin, load, report, goal));
    }
    if (twin) {
        load.json["link_latency_s"] = twin->options.link_latency_s;
        load.json["answer_delay_s"] = twin->options.answer_delay_s;
    }
    load.json["url"] = target.url;
    load.json["model"] = client->model();
    load.json["endpoint"] = a.endpoint;
    std::string shown = a.json
                            ? lab::report_json(report, goal, load.json.dump(), comparisons) + "\n"
                            : lab::report_text(report, goal);
    if (!a.json && !comparisons.empty()) shown += lab::comparison_text(comparisons);
    std::fputs(shown.c_str(), stdout);
    if (report.counted > 0 && report.failed == report.counted && !report.interrupted) {
        return base::Error{base::Errc::unavailable, "every request failed"};
    }
    return base::Ok{};
}

void add_simulation_options(CLI::App& bench, BenchArguments& a) {
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
    auto a = std::make_shared<BenchArguments>();
    bench->add_option("--url", a->target.url, "of the server")->capture_default_str();
    bench->add_option("--served-model", a->target.model, "[the first that it names]");
    bench->add_option("--api-key", a->target.api_key, "if it wants one")->envname("HELIX_API_KEY");
    bench->add_option("--endpoint", a->endpoint, "completions (prompts as token ids), or chat")
        ->capture_default_str();
    bench->add_option("--concurrency", a->concurrency,
                      "so many clients, each with one request at a time [8]");
    bench->add_option("--rate", a->rate_per_s,
                      "requests per second, sent when due whatever became of earlier ones");
    bench
        ->add_option("--arrivals", a->arrivals,
                     "with --rate: even, poisson, or gamma:CV (bursts, CV of the gaps)")
        ->capture_default_str();
    bench->add_option("--trace", a->trace,
                      "a CSV of arrival_s,prompt_tokens,output_tokens, or an Azure LLM trace");
    bench->add_option("--requests", a->requests, "how many [100, or what --duration allows]");
    bench->add_option("--duration", a->duration,
                      "measure for so long, like 60s; then what is under way is awaited");
    bench->add_option("--warmup", a->warmup, "load before that, not counted, like 10s");
    bench->add_option("--prompt-tokens", a->prompt_tokens, "512, or any of a range: 100-1000")
        ->capture_default_str();
    bench->add_option("--output-tokens", a->output_tokens, "512, or any of a range: 100-1000")
        ->capture_default_str();
    bench->add_option("--lengths", a->lengths,
                      "a CSV of prompt_tokens,output_tokens to draw requests from");
    bench->add_flag("--skip-too-long", a->skip_too_long,
                    "leave out requests beyond the model's context");
    bench->add_option("--slo-ttft", a->slo_ttft, "goodput counts first tokens within, like 2s");
    bench->add_option("--slo-tpot", a->slo_tpot, "... and mean times per token within, like 80ms");
    bench->add_option("--timeout", a->timeout, "of one request")->capture_default_str();
    bench->add_option("--seed", a->seed, "equal seeds give equal loads")->capture_default_str();
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
