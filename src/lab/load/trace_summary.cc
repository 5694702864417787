#include "lab/load/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sim/report/distribution.h"

namespace helix::lab {
namespace {

struct TraceColumn {
    const char* name;
    sim::Distribution values;
};

struct TraceSummary {
    std::size_t requests = 0;
    bool timed = false;
    double duration_s = 0;  // from the first to the last arrival
    double gap_mean_s = 0;
    double gap_cv = 0;
    TraceColumn prompt{"prompt_tokens", sim::Distribution{}};
    TraceColumn output{"output_tokens", sim::Distribution{}};

    double requests_per_s() const { return gap_mean_s > 0 ? 1 / gap_mean_s : 0; }
};

TraceSummary summarise_trace(const sim::Trace& trace) {
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

std::string summary_text(const TraceSummary& s) {
    std::string text = fmt::format("requests       {}\n", s.requests);
    if (s.timed) {
        text += fmt::format("duration       {:.3f} s\n", s.duration_s);
        text += fmt::format("rate           {:.4g} requests/s, gaps vary by {:.2f} (1 = Poisson)\n",
                            s.requests_per_s(), s.gap_cv);
    }
    for (const TraceColumn* c : {&s.prompt, &s.output}) {
        text +=
            fmt::format("{:<14} mean {:.1f}, least {}, p50 {}, p95 {}, p99 {}, greatest {}\n",
                        c->name, c->values.mean(), c->values.least(), c->values.quantile(0.5),
                        c->values.quantile(0.95), c->values.quantile(0.99), c->values.greatest());
    }
    return text;
}

std::string summary_json(const TraceSummary& s) {
    std::string text = fmt::format("{{\"requests\": {}, ", s.requests);
    if (s.timed) {
        text += fmt::format("\"duration_s\": {}, \"requests_per_s\": {}, \"gap_cv\": {}, ",
                            s.duration_s, s.requests_per_s(), s.gap_cv);
    }
    for (const TraceColumn* c : {&s.prompt, &s.output}) {
        text += fmt::format(
            "\"{}\": {{\"mean\": {}, \"min\": {}, \"p50\": {}, \"p95\": {}, \"p99\": {}, "
            "\"max\": {}}}{}",
            c->name, c->values.mean(), c->values.least(), c->values.quantile(0.5),
            c->values.quantile(0.95), c->values.quantile(0.99), c->values.greatest(),
            c == &s.prompt ? ", " : "}\n");
    }
    return text;
}

}  // namespace

std::string describe_trace(const sim::Trace& trace, bool json) {
    const TraceSummary summary = summarise_trace(trace);
    return json ? summary_json(summary) : summary_text(summary);
}

}  // namespace helix::lab
