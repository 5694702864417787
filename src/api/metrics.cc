#include "api/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "core/protocol/describe.h"

namespace helix::api {
namespace {

constexpr double kTtftBounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
constexpr double kPerTokenBounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                      .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
constexpr double kLatencyBounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                     30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
constexpr double kCountBounds[] = {1, 2, 5, 10, 20};

// The bounds 1, 2, 5, 10, 20, 50, ... up to longest.
std::vector<double> length_bounds(std::int32_t longest) {
    std::vector<double> bounds;
    for (double decade = 1;; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) {
            if (step * decade > std::max(longest, 1)) return bounds;
            bounds.push_back(step * decade);
        }
    }
}

std::string number(double value) {
    return fmt::format("{}", value);
}

constexpr std::string_view kGauge = "gauge";
constexpr std::string_view kCounter = "counter";

void write_requests(PrometheusText& text, const RequestMetrics& m) {
    text.family("vllm:request_success_total", kCounter, "Finished requests by reason.");
    constexpr std::array<std::string_view, kOutcomes> kNames = {"stop", "length", "abort", "error"};
    for (std::size_t i = 0; i < kOutcomes; ++i) {
        text.sample("vllm:request_success_total", static_cast<double>(m.outcomes[i]),
                    metric_label("finished_reason", kNames[i]));
    }
    text.single("vllm:prompt_tokens_total", kCounter, "Prompt tokens taken in.",
                static_cast<double>(m.prompt_tokens_total));
    text.single("vllm:generation_tokens_total", kCounter, "Tokens generated.",
                static_cast<double>(m.generation_tokens_total));
    text.histogram("vllm:time_to_first_token_seconds", "From the request to its first token.",
                   m.ttft);
    text.histogram("vllm:time_per_output_token_seconds", "Between two tokens of one request.",
                   m.time_per_output_token);
    text.histogram("vllm:e2e_request_latency_seconds", "From the request to its end.", m.e2e);
    text.histogram("vllm:request_queue_time_seconds", "From the request to its pipeline.", m.queue);
    text.histogram("vllm:request_inference_time_seconds", "From the pipeline to the end.",
                   m.inference);
    text.histogram("vllm:request_prefill_time_seconds", "From the pipeline to the first token.",
                   m.prefill);
    text.histogram("vllm:request_decode_time_seconds", "From the first token to the last.",
                   m.decode);
    text.histogram("vllm:request_prompt_tokens", "Prompt lengths.", m.prompt_tokens);
    text.histogram("vllm:request_generation_tokens", "Answer lengths.", m.generation_tokens);
    text.histogram("vllm:request_params_max_tokens", "max_tokens asked for.", m.params_max_tokens);
    text.histogram("vllm:request_params_n", "n asked for.", m.params_n);
}

void write_moves(PrometheusText& text, const core::ClusterView& view) {
    text.single("helix_failovers_total", kCounter,
                "Requests that lost a worker and went on elsewhere.",
                static_cast<double>(view.failovers));
    text.single("helix_migrations_running", kGauge, "Requests moving to another pipeline.",
                static_cast<double>(view.migrating));
    constexpr std::string_view kName = "helix_migrations_total";
    text.family(kName, kCounter,
                "Migrations that ended, by what they were begun for: committed, or the phase they "
                "were given up in.");
    for (std::size_t r = 0; r < core::kMigrationReasons; ++r) {
        const auto reason = static_cast<core::MigrationReason>(r);
        for (std::size_t p = 0; p < core::kMigrationPhases; ++p) {
            const auto phase = static_cast<core::MigrationPhase>(p);
            text.sample(kName, static_cast<double>(view.migrations.of(reason, phase)),
                        metric_label("reason", core::name_of(reason)) + "," +
                            metric_label("outcome", core::name_of(phase)));
        }
    }
}

void write_weights(PrometheusText& text, const core::WeightBytes& bytes) {
    constexpr std::string_view kName = "helix_weight_bytes_total";
    text.family(kName, kCounter,
                "Bytes of weights that workers read, by where from: the coordinator, a peer "
                "(another worker), or the worker's own cache.");
    const auto sample = [&](std::string_view from, std::uint64_t value) {
        text.sample(kName, static_cast<double>(value), metric_label("from", from));
    };
    sample("coordinator", bytes.coordinator);
    sample("peer", bytes.peer);
    sample("cache", bytes.cache);
}

void write_cluster(PrometheusText& text, const core::ClusterView& view) {
    double used = 0;
    double total = 0;
    for (const core::WorkerView& worker : view.workers) {
        used += static_cast<double>(worker.used_pages);
        total += static_cast<double>(worker.total_pages);
    }
    text.single("vllm:num_requests_running", kGauge, "Requests on a pipeline.",
                static_cast<double>(view.running));
    text.single("vllm:num_requests_waiting", kGauge, "Requests waiting for a pipeline.",
                static_cast<double>(view.waiting));
    text.single("vllm:num_requests_swapped", kGauge, "Requests with their KV in host memory.",
                static_cast<double>(view.swapped));
    text.single("vllm:kv_cache_usage_perc", kGauge, "KV pages in use, 1 = all.",
                total > 0 ? used / total : 0);
    text.single("vllm:num_preemptions_total", kCounter, "Requests set back to waiting.",
                static_cast<double>(view.preemptions));
    write_moves(text, view);
    write_weights(text, view.weight_bytes);
    text.single("vllm:prefix_cache_queries_total", kCounter,
                "Tokens of prompts, looked up in the prefix cache.",
                static_cast<double>(view.prefix_queried_tokens));
    text.single("vllm:prefix_cache_hits_total", kCounter,
                "Tokens of prompts, found in the prefix cache.",
                static_cast<double>(view.prefix_hit_tokens));
    text.single("vllm:spec_decode_num_drafts_total", kCounter,
                "Times that tokens were drafted ahead.", static_cast<double>(view.drafts));
    text.single("vllm:spec_decode_num_draft_tokens_total", kCounter, "Tokens drafted ahead.",
                static_cast<double>(view.draft_tokens));
    text.single("vllm:spec_decode_num_accepted_tokens_total", kCounter,
                "Tokens drafted ahead that were right.",
                static_cast<double>(view.accepted_draft_tokens));
    text.single("helix_cluster_serving", kGauge, "1 when a placement is in force.",
                view.serving ? 1 : 0);
    text.single("helix_placement_epoch", kGauge, "Number of the placement in force.",
                static_cast<double>(view.epoch));
    text.single("helix_requests_finished_total", kCounter, "Requests the cluster finished.",
                static_cast<double>(view.finished));
    text.single("helix_requests_failed_total", kCounter, "Requests that ended with an error.",
                static_cast<double>(view.failed));
    text.single("helix_requests_rejected_total", kCounter, "Requests refused before acceptance.",
                static_cast<double>(view.rejected));
}

using WorkerValue = double (*)(const core::WorkerView&);

void write_workers(PrometheusText& text, const core::ClusterView& view, std::string_view name,
                   std::string_view type, std::string_view help, WorkerValue value) {
    text.family(name, type, help);
    for (const core::WorkerView& worker : view.workers) {
        text.sample(name, value(worker),
                    metric_label("worker", std::to_string(worker.worker.value)) + "," +
                        metric_label("name", worker.node.name));
    }
}

void write_all_workers(PrometheusText& text, const core::ClusterView& view) {
    using Worker = core::WorkerView;
    write_workers(text, view, "helix_worker_ready", kGauge, "1 when its layers are loaded.",
                  [](const Worker& w) { return w.ready ? 1.0 : 0.0; });
    write_workers(text, view, "helix_worker_layers", kGauge, "Layers it holds.",
                  [](const Worker& w) { return static_cast<double>(w.layers.size()); });
    write_workers(text, view, "helix_worker_kv_pages", kGauge, "KV pages it has.",
                  [](const Worker& w) { return static_cast<double>(w.total_pages); });
    write_workers(text, view, "helix_worker_kv_pages_used", kGauge, "KV pages in use, as reported.",
                  [](const Worker& w) { return static_cast<double>(w.used_pages); });
    write_workers(text, view, "helix_worker_kv_pages_estimated", kGauge,
                  "KV pages in use, as the coordinator estimates.",
                  [](const Worker& w) { return w.estimated_pages; });
    write_workers(text, view, "helix_worker_requests", kGauge, "Requests whose pipeline uses it.",
                  [](const Worker& w) { return static_cast<double>(w.running); });
    write_workers(text, view, "helix_worker_batches_total", kCounter, "Batches it ran.",
                  [](const Worker& w) { return static_cast<double>(w.batches); });
    write_workers(text, view, "helix_worker_rows_total", kCounter,
                  "Rows (token times stage) it ran.",
                  [](const Worker& w) { return static_cast<double>(w.rows); });
    write_workers(text, view, "helix_worker_busy_seconds_total", kCounter, "Time it computed.",
                  [](const Worker& w) { return static_cast<double>(w.busy_ns) * 1e-9; });
    text.family("helix_link_flow_tokens_per_second", kGauge, "Planned flow of each link.");
    for (const spec::LinkFlow& flow : view.flows) {
        text.sample("helix_link_flow_tokens_per_second", flow.tokens_per_s,
                    metric_label("from", std::to_string(flow.from)) + "," +
                        metric_label("to", std::to_string(flow.to)));
    }
}

void write_jobs(PrometheusText& text, const Metrics::Jobs& jobs) {
    const store::JobCounts& counts = jobs.counts;
    text.family("helix_batches", kGauge, "Batches (/v1/batches) by status.");
    for (std::size_t i = 0; i < store::kBatchStatuses; ++i) {
        text.sample("helix_batches", static_cast<double>(counts.batches[i]),
                    metric_label("status", store::to_string(static_cast<store::BatchStatus>(i))));
    }
    text.family("helix_batch_lines_total", kCounter, "Lines of batches that have a result.");
    text.sample("helix_batch_lines_total", static_cast<double>(counts.lines_completed),
                metric_label("outcome", "completed"));
    text.sample("helix_batch_lines_total", static_cast<double>(counts.lines_failed),
                metric_label("outcome", "failed"));
    text.single("helix_batch_lines_running", kGauge, "Lines of batches that run now.",
                static_cast<double>(jobs.lines_running));
    text.single("helix_batch_lines_open", kGauge,
                "Lines of batches without a result, those that run among them.",
                static_cast<double>(counts.lines_open));
}

void write_spans(PrometheusText& text, const OtlpCounts& spans) {
    text.single("helix_trace_spans_exported_total", kCounter, "Spans that the collector took.",
                static_cast<double>(spans.exported));
    text.single("helix_trace_spans_dropped_total", kCounter,
                "Spans that it did not take, or that found no room to wait for it.",
                static_cast<double>(spans.dropped));
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

void Histogram::observe(double value) {
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
    sum_ += value;
    ++count_;
}

std::string metric_label(std::string_view name, std::string_view value) {
    std::string out(name);
    out += "=\"";
    for (const char c : value) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n') {
            out += "\\n";
        } else {
            out += c;
        }
    }
    out += '"';
    return out;
}

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
    const auto found = std::find_if(families_.begin(), families_.end(),
                                    [&](const Family& family) { return family.name == name; });
    current_ = static_cast<std::size_t>(found - families_.begin());
    if (found != families_.end()) return;
    families_.push_back(
        {std::string(name), fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type)});
}

void PrometheusText::sample(std::string_view name, double value, std::string_view more_labels) {
    std::string& out = families_[current_].text;
    out += name;
    out += '{';
    out += labels_;
    if (!more_labels.empty() && !labels_.empty()) out += ',';
    out += more_labels;
    out += "} ";
    out += number(value);
    out += '\n';
}

std::string PrometheusText::take() {
    std::string out;
    for (const Family& family : families_) out += family.text;
    families_.clear();
    return out;
}

void PrometheusText::single(std::string_view name, std::string_view type, std::string_view help,
                            double value) {
    family(name, type, help);
    sample(name, value);
}

void PrometheusText::histogram(std::string_view name, std::string_view help,
                               const Histogram& histogram) {
    family(name, "histogram", help);
    const std::string bucket = std::string(name) + "_bucket";
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
        below += histogram.counts()[i];
        sample(bucket, static_cast<double>(below),
               metric_label("le", number(histogram.bounds()[i])));
    }
    sample(bucket, static_cast<double>(histogram.count()), metric_label("le", "+Inf"));
    sample(std::string(name) + "_sum", histogram.sum());
    sample(std::string(name) + "_count", static_cast<double>(histogram.count()));
}

RequestMetrics::RequestMetrics(std::int32_t context_length)
    : ttft(kTtftBounds),
      time_per_output_token(kPerTokenBounds),
      e2e(kLatencyBounds),
      queue(kLatencyBounds),
      inference(kLatencyBounds),
      prefill(kLatencyBounds),
      decode(kLatencyBounds),
      prompt_tokens(length_bounds(context_length)),
      generation_tokens(length_bounds(context_length)),
      params_max_tokens(length_bounds(context_length)),
      params_n(kCountBounds) {}

namespace {

void write_usage(PrometheusText& text, const std::map<std::string, KeyUsage>& usage) {
    if (usage.empty()) return;
    const auto counter = [&](std::string_view name, std::string_view help,
                             std::uint64_t KeyUsage::*value) {
        text.family(name, kCounter, help);
        for (const auto& [key, used] : usage) {
            text.sample(name, static_cast<double>(used.*value), metric_label("key", key));
        }
    };
    counter("helix_key_requests_total", "Requests that were let in, by key.", &KeyUsage::requests);
    counter("helix_key_requests_refused_total", "Requests over a limit of their key, by key.",
            &KeyUsage::refused);
    counter("helix_key_prompt_tokens_total", "Tokens of prompts, by key.",
            &KeyUsage::prompt_tokens);
    counter("helix_key_output_tokens_total", "Tokens of answers, by key.",
            &KeyUsage::output_tokens);
}

}  // namespace

std::string metrics_text(const Metrics& metrics, std::span<const ModelView> views,
                         const HeldNow& held, const std::map<std::string, KeyUsage>& usage) {
    CHECK(views.size() == metrics.models.size() && !views.empty());
    PrometheusText text;
    const auto labels = [](const ModelView& model) {
        return metric_label("model_name", model.name) + "," + metric_label("engine", "0");
    };
    for (std::size_t i = 0; i < views.size(); ++i) {
        text.set_labels(labels(views[i]));
        write_cluster(text, views[i].view);
        write_requests(text, metrics.models[i]);
        write_all_workers(text, views[i].view);
    }
    text.set_labels(labels(views.front()));
    if (metrics.jobs) write_jobs(text, *metrics.jobs);
    if (metrics.spans) write_spans(text, *metrics.spans);
    text.single("helix_http_connections", kGauge, "Open HTTP connections.",
                static_cast<double>(held.connections));
    text.single("helix_requests_preparing", kGauge, "Requests that are read, or wait for it.",
                static_cast<double>(held.preparing));
    text.single("helix_requests_held", kGauge, "Requests that are not over.",
                static_cast<double>(held.requests));
    text.single("helix_request_bytes", kGauge, "Memory that requests hold which are not over.",
                static_cast<double>(held.request_bytes));
    text.single("helix_http_requests_total", kCounter, "HTTP requests.",
                static_cast<double>(metrics.http_requests));
    text.single("helix_http_errors_total", kCounter, "HTTP requests answered 4xx or 5xx.",
                static_cast<double>(metrics.http_errors));
    write_usage(text, usage);
    return text.take();
}

}  // namespace helix::api
