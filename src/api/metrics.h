#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Writes Prometheus' text format 0.0.4.
class PrometheusText {
  public:
    // labels are a="b",c="d" without braces; every sample gets them.
    explicit PrometheusText(std::string labels) : labels_(std::move(labels)) {}
    void family(std::string_view name, std::string_view type, std::string_view help);
    void sample(std::string_view name, double value, std::string_view more_labels = {});
    void single(std::string_view name, std::string_view type, std::string_view help, double value);
    void histogram(std::string_view name, std::string_view help, const Histogram& histogram);
    std::string take() { return std::move(out_); }

  private:
    std::string labels_;
    std::string out_;
};

// A label name="value" with the value escaped.
std::string metric_label(std::string_view name, std::string_view value);

enum class Outcome { stop, length, abort, error };
constexpr std::size_t kOutcomes = 4;

// What is counted on the server's thread. Histograms are in seconds unless the name says otherwise.
struct Metrics {
    explicit Metrics(std::int32_t context_length);

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
    std::uint64_t http_requests = 0;
    std::uint64_t http_errors = 0;  // answered 4xx or 5xx
    // Counts of files and batches, where these are kept; at most a moment old.
    struct Jobs {
        store::JobCounts counts;
        std::int64_t lines_running = 0;
    };
    std::optional<Jobs> jobs;
};

// What the API holds now.
struct HeldNow {
    std::size_t connections = 0;
    std::size_t preparing = 0;       // requests that are read, or wait for it
    std::int64_t requests = 0;       // all that are not over
    std::int64_t request_bytes = 0;  // memory that those hold
};

std::string metrics_text(const Metrics& metrics, const core::ClusterView& view,
                         std::string_view model, const HeldNow& held);

}  // namespace helix::api
