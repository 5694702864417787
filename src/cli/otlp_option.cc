#include "cli/otlp_option.h"

#include <fmt/format.h>

#include "cli/help_text.h"
#include "net/http_client.h"

namespace helix::cli {

void add_otlp_options(CLI::App& command, OtlpArguments& a) {
    const OptionHeading heading(command, "Traces");
    command
        .add_option("--otlp-endpoint", a.endpoint,
                    "http(s)://HOST:PORT of an OpenTelemetry collector that gets a trace of each "
                    "request, by OTLP over HTTP at /v1/traces [none]")
        ->envname("OTEL_EXPORTER_OTLP_ENDPOINT");
    command
        .add_option("--otlp-sample", a.sample,
                    "the share of requests that are traced, from 0 to 1; those with a traceparent "
                    "follow its sampled bit")
        ->capture_default_str();
}

base::Result<std::optional<api::TracingOptions>> tracing_options(const OtlpArguments& a) {
    if (!(a.sample >= 0 && a.sample <= 1)) {
        return base::invalid(fmt::format("--otlp-sample: expected 0 to 1, got {}", a.sample));
    }
    if (a.endpoint.empty()) return std::optional<api::TracingOptions>();
    const auto target = net::parse_http_url(a.endpoint);
    if (!target.ok()) return base::invalid("--otlp-endpoint: " + target.error().message);
    api::TracingOptions options;
    options.otlp.endpoint = a.endpoint;
    options.sample = a.sample;
    return std::optional(std::move(options));
}

}  // namespace helix::cli
