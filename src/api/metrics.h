#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/key_quotas.h"
#include "api/tracing/otlp_exporter.h"
#include "core/coordinator/coordinator.h"
#include "store/job_store.h"

// What /metrics shows: vLLM's names, so that dashboards and routers made for it work here, and
// names of our own for the rest.

namespace helix::api {

class Histogram {
  public:
    // bounds must rise; values above the last are counted, too.
    explicit Histogram(std::span<const double> bounds);
    void observe(double value);

    const std::vector<double>& bounds() const { return bounds_; }
    const std::vector<std::uint64_t>& counts() const { return counts_; }  // one more than bounds
    double sum() const { return sum_; }
    std::uint64_t count() const { return count_; }

  private:
    std::vector<double> bounds_;
    std::vector<std::uint64_t> counts_;
    double sum_ = 0;
    std::uint64_t count_ = 0;
};

// Writes Prometheus' text format 0.0.4. A family that is begun again goes on where it is, since all
// its samples must be together.
class PrometheusText {
  public:
    // labels are a="b",c="d" without braces; every sample from now on gets them.
    void set_labels(std::string labels) { labels_ = std::move(labels); }
    void family(std::string_view name, std::string_view type, std::string_view help);
    void sample(std::string_view name, double value, std::string_view more_labels = {});
    void single(std::string_view name, std::string_view type, std::string_view help, double value);
    void histogram(std::string_view name, std::string_view help, const Histogram& histogram);
    std::string take();

  private:
    struct Family {
        std::string name;
        std::string text;
    };
    std::string labels_;
    std::vector<Family> families_;
    std::size_t current_ = 0;  // of families_
};

// A label name="value" with the value escaped.
std::string metric_label(std::string_view name, std::string_view value);

enum class Outcome { stop, length, abort, error };
constexpr std::size_t kOutcomes = 4;

// What is counted of the requests to one model. Histograms are in seconds unless the name says
// otherwise.
struct RequestMetrics {
    explicit RequestMetrics(std::int32_t context_length);

    Histogram ttft;
    Histogram time_per_output_token;
    Histogram e2e;
    Histogram queue;
    Histogram inference;
    Histogram prefill;
    Histogram decode;
    Histogram prompt_tokens;      // lengths
    Histogram generation_tokens;  // lengths
    Histogram params_max_tokens;
    Histogram params_n;
    std::uint64_t prompt_tokens_total = 0;
    std::uint64_t generation_tokens_total = 0;
    std::array<std::uint64_t, kOutcomes> outcomes{};
};

// What is counted on the server's thread.
struct Metrics {
    std::vector<RequestMetrics> models;  // in the order of the registry
    std::uint64_t http_requests = 0;
    std::uint64_t http_errors = 0;  // answered 4xx or 5xx
    // Counts of files and batches, where these are kept; at most a moment old.
    struct Jobs {
        store::JobCounts counts;
        std::int64_t lines_running = 0;
    };
    std::optional<Jobs> jobs;
    std::optional<OtlpCounts> spans;  // where traces are sent to a collector
};

// What the API holds now.
struct HeldNow {
    std::size_t connections = 0;
    std::size_t preparing = 0;       // requests that are read, or wait for it
    std::int64_t requests = 0;       // all that are not over
    std::int64_t request_bytes = 0;  // memory that those hold
};

// A model's name, and what its service shows.
struct ModelView {
    std::string_view name;
    core::ClusterView view;
};

// views has a model for each of metrics.models. What is counted of the server as a whole has the
// labels of the first; usage is by the labels of keys.
std::string metrics_text(const Metrics& metrics, std::span<const ModelView> views,
                         const HeldNow& held, const std::map<std::string, KeyUsage>& usage);

}  // namespace helix::api
