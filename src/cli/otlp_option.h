#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "api/tracing/tracer.h"
#include "base/result.h"

// Where `helix serve` sends traces of requests.

namespace helix::cli {

struct OtlpArguments {
    std::string endpoint;  // "" = nowhere; without the option OTEL_EXPORTER_OTLP_ENDPOINT says it
    double sample = 1;
};
void add_otlp_options(CLI::App& command, OtlpArguments& a);

// Nothing without an endpoint. The error names the option and what was given.
base::Result<std::optional<api::TracingOptions>> tracing_options(const OtlpArguments& a);

}  // namespace helix::cli
