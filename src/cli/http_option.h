#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "api/api_server.h"
#include "base/result.h"
#include "cli/access_option.h"
#include "cli/otlp_option.h"
#include "cli/size_option.h"
#include "cli/tls_option.h"

// The API's port, of `helix serve` and `helix gateway`: where it is, who may use it, and what its
// clients may take.

namespace helix::cli {

struct HttpArguments {
    std::string listen = "127.0.0.1:8080";
    AccessArguments access;
    TlsArguments tls;
    OtlpArguments otlp;
    std::string request_memory = "1GiB";
    std::string body_memory = "256MiB";
    int connections = 0;
};
void add_listen_option(CLI::App& command, HttpArguments& a);
// --request-memory, --body-memory, --connections.
void add_memory_options(CLI::App& command, HttpArguments& a);

// HOST:PORT with the host as a number; what names the option.
base::Result<HostPort> listen_address(const std::string& what, const std::string& text);

// Of the API's options what needs no model, so that mistakes are told before one is opened. http is
// the address that the port is opened on.
base::Result<api::ApiOptions> api_options(const HttpArguments& a, const HostPort& http);

// "http://10.0.0.7:8080/v1" for each address that other machines can use, with commas between.
std::string api_urls(const HttpArguments& a, const std::string& host, std::uint16_t port);

}  // namespace helix::cli
