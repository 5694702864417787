#include "lab/load/bench.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lab/load/bench_load.h"
#include "lab/load/bench_twin.h"
#include "lab/load/load_report.h"
#include "lab/load/request_plan.h"
#include "spec/units.h"

namespace helix::lab {
namespace {

constexpr int kDefaultConcurrency = 8;
constexpr std::size_t kDefaultRequests = 100;
constexpr double kNoEnd_s = 1e9;
constexpr std::size_t kMostRequests = 10'000'000;

base::Status check_options(const BenchQuestion& a) {
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
    TRY(const double seconds, spec::parse_duration(option, text));
    return std::optional(seconds);
}

base::Result<LengthSource> length_source(const BenchQuestion& a) {
    if (!a.lengths.empty()) return LengthSource::read(a.lengths);
    TRY(const LengthRange prompt, parse_length_range("--prompt-tokens", a.prompt_tokens));
    TRY(const LengthRange output, parse_length_range("--output-tokens", a.output_tokens));
    return LengthSource(prompt, output);
}

std::string describe_lengths(const BenchQuestion& a) {
    if (!a.lengths.empty()) return "lengths from " + a.lengths;
    return fmt::format("prompts of {} and answers of {} tokens", a.prompt_tokens, a.output_tokens);
}

base::Result<BenchLoad> make_load(const BenchQuestion& a) {
    TRY_VOID(check_options(a));
    BenchLoad load;
    load.plan.seed = a.seed;
    TRY(const auto warmup, optional_duration("--warmup", a.warmup));
    TRY(const auto duration, optional_duration("--duration", a.duration));
    load.warmup_s = warmup.value_or(0);
    load.duration_s = duration.value_or(0);
    const double send_for_s = duration ? load.warmup_s + load.duration_s : kNoEnd_s;
    const std::size_t count = a.requests > 0 ? a.requests
                              : duration     ? kMostRequests
                                             : kDefaultRequests;
    if (!a.trace.empty()) {
        TRY(load.plan.arrivals, read_arrivals(a.trace));
        std::erase_if(load.plan.arrivals,
                      [&](const LoadRequest& r) { return r.arrival_s >= send_for_s; });
        load.described = fmt::format("{} requests of {}", load.plan.arrivals.size(), a.trace);
        load.json = {{"kind", "trace"}, {"trace", a.trace}};
    } else {
        TRY(const LengthSource lengths, length_source(a));
        load.json["kind"] = a.rate_per_s > 0 ? "open" : "closed";
        if (a.rate_per_s > 0) {
            TRY(const double cv, parse_arrivals(a.arrivals));
            load.plan.arrivals = draw_load({a.rate_per_s, cv}, lengths, count, send_for_s, a.seed);
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

base::Result<TwinSettings> twin_settings(const BenchQuestion& a) {
    TwinSettings settings;
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
base::Result<ApiTarget> api_target(const BenchQuestion& a) {
    ApiTarget target = a.target;
    TRY(const auto timeout, optional_duration("--timeout", a.timeout));
    target.limit = std::chrono::milliseconds(static_cast<std::int64_t>(*timeout * 1e3));
    if (a.endpoint != "completions" && a.endpoint != "chat") {
        return base::invalid("--endpoint: '" + a.endpoint + "' is neither completions nor chat");
    }
    target.endpoint = a.endpoint == "chat" ? LoadEndpoint::chat : LoadEndpoint::completions;
    return target;
}

}  // namespace

base::Result<BenchAnswer> run_bench(const BenchQuestion& a, const BenchHooks& hooks) {
    TRY(BenchLoad load, make_load(a));
    ServiceGoal goal;
    TRY(goal.ttft_s, optional_duration("--slo-ttft", a.slo_ttft));
    TRY(goal.tpot_s, optional_duration("--slo-tpot", a.slo_tpot));
    TRY(const ApiTarget target, api_target(a));
    TRY(const std::unique_ptr<ApiClient> client, ApiClient::connect(target));
    TRY_VOID(check_lengths(*client, a.skip_too_long, load));
    const Measure measure_client = [&](const LoadPlan& plan) {
        return hooks.measure(*client, plan);
    };
    std::optional<Twin> twin;
    if (a.against_simulation) {
        TRY(const TwinSettings settings, twin_settings(a));
        TRY(twin, prepare_twin(settings, *client, measure_client));
    }
    if (!a.json) {
        hooks.announce(fmt::format("{} at {}: {}", client->model(), target.url, load.described));
    }
    const LoadResult result = measure_client(load.plan);
    const LoadReport report = make_report(result, window_of(load, result), goal);
    std::vector<Comparison> comparisons;
    if (twin && !result.interrupted) {
        TRY(comparisons, compare_with_worlds(*twin, load, report, goal));
    }
    if (twin) {
        load.json["link_latency_s"] = twin->options.link_latency_s;
        load.json["answer_delay_s"] = twin->options.answer_delay_s;
    }
    load.json["url"] = target.url;
    load.json["model"] = client->model();
    load.json["endpoint"] = a.endpoint;
    BenchAnswer answer;
    answer.shown = a.json ? report_json(report, goal, load.json.dump(), comparisons) + "\n"
                          : report_text(report, goal);
    if (!a.json && !comparisons.empty()) answer.shown += comparison_text(comparisons);
    answer.all_failed =
        report.counted > 0 && report.failed == report.counted && !report.interrupted;
    return answer;
}

}  // namespace helix::lab
