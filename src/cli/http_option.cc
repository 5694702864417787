#include "cli/http_option.h"

#include <cstdint>
#include <random>

#include <fmt/format.h>

#include "cli/help_text.h"
#include "net/addresses.h"

namespace helix::cli {

void add_listen_option(CLI::App& command, HttpArguments& a) {
    command.add_option("--listen", a.listen, "HOST:PORT of the API")->capture_default_str();
}

void add_memory_options(CLI::App& command, HttpArguments& a) {
    command
        .add_option("--request-memory", a.request_memory,
                    "that all requests may take of this process, from their arrival to their end; "
                    "more get 429")
        ->capture_default_str();
    command
        .add_option("--body-memory", a.body_memory,
                    "of the bodies of all requests that arrive or wait to be read; more get 429")
        ->capture_default_str();
    command.add_option("--connections", a.connections,
                       "of HTTP clients at once; more get 503 [half of the files that may be "
                       "open, at most 4096]");
}

base::Result<HostPort> listen_address(const std::string& what, const std::string& text) {
    TRY(HostPort address, parse_host_port(what, text));
    auto number = net::resolve_listen_host(address.host);
    if (!number.ok()) return base::invalid(what + ": " + number.error().message);
    address.host = *number;
    return address;
}

base::Result<api::ApiOptions> api_options(const HttpArguments& a, const HostPort& http) {
    api::ApiOptions options;
    TRY_VOID(fill_tls(a.tls, options));
    TRY(options.tracing, tracing_options(a.otlp));
    TRY_VOID(fill_access(a.access, AccessEnvironment::read(), http.host, options));
    // Whoever names the host here may also call it so.
    TRY(const HostPort named, parse_host_port("--listen", a.listen));
    options.access.host_names.push_back(named.host);
    TRY(options.limits.max_request_bytes, parse_size("--request-memory", a.request_memory));
    options.http.address = http.host;
    options.http.port = http.port;
    TRY(const std::int64_t bodies, parse_size("--body-memory", a.body_memory));
    options.http.max_bodies_bytes = static_cast<std::size_t>(bodies);
    if (a.connections < 0) return base::invalid("--connections: expected at least 1");
    options.http.max_connections = static_cast<std::size_t>(a.connections);
    std::random_device device;
    options.seed = (static_cast<std::uint64_t>(device()) << 32U) | device();
    return options;
}

std::string api_urls(const HttpArguments& a, const std::string& host, std::uint16_t port) {
    std::string urls;
    for (const std::string& address : net::reachable_addresses(host)) {
        urls += fmt::format("{}{}://{}:{}/v1", urls.empty() ? "" : ", ", scheme_of(a.tls),
                            net::url_host(address), port);
    }
    return urls;
}

}  // namespace helix::cli
