#include "cli/tls_option.h"

#include "cli/help_text.h"
#include "net/tls_context.h"

namespace helix::cli {

void add_tls_options(CLI::App& command, TlsArguments& a) {
    const OptionHeading heading(command, "Who may");
    command.add_option("--tls-cert", a.certificate,
                       "HTTPS: a file with the server's certificate and those that it is signed "
                       "with, in PEM form; read anew when it changes [HTTP without TLS]");
    command.add_option("--tls-key", a.key, "the file with the key of that certificate");
}

base::Status fill_tls(const TlsArguments& a, api::ApiOptions& options) {
    if (a.certificate.empty() && a.key.empty()) return base::Ok{};
    if (a.key.empty()) return base::invalid("--tls-cert needs --tls-key FILE beside it");
    if (a.certificate.empty()) return base::invalid("--tls-key needs --tls-cert FILE beside it");
    net::TlsFiles files{a.certificate, a.key};
    const auto tried = net::TlsContext::load(files);
    if (!tried.ok()) {
        return base::Error{tried.error().code, "--tls-cert, --tls-key: " + tried.error().message};
    }
    options.http.tls = std::move(files);
    return base::Ok{};
}

const char* scheme_of(const TlsArguments& a) {
    return a.given() ? "https" : "http";
}

}  // namespace helix::cli
