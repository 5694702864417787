#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "api/api_server.h"
#include "base/result.h"

namespace helix::cli {

// HTTPS at the API's port.
struct TlsArguments {
    std::string certificate;
    std::string key;
    bool given() const { return !certificate.empty(); }
};
void add_tls_options(CLI::App& command, TlsArguments& a);

// Errors name the file, or the option that is missing. The files are read here, so that a mistake
// is found before a model is loaded.
base::Status fill_tls(const TlsArguments& a, api::ApiOptions& options);

// "https" or "http".
const char* scheme_of(const TlsArguments& a);

}  // namespace helix::cli
