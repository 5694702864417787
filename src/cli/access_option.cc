#include "cli/access_option.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "cli/help_text.h"
#include "net/key.h"

namespace helix::cli {

AccessEnvironment AccessEnvironment::read() {
    const auto value = [](const char* name) {
        const char* text = std::getenv(name);
        return text == nullptr ? std::string() : std::string(text);
    };
    return {value("HELIX_API_KEY"), value("HELIX_ADMIN_KEY")};
}

void add_access_options(CLI::App& command, AccessArguments& a) {
    const OptionHeading heading(command, "Who may");
    command.add_option("--api-key-file", a.api_key_files,
                       "clients must send one of the keys in this file: \"KEY\" or \"NAME KEY\" a "
                       "line, and behind it requests_per_minute=N, tokens_per_minute=N, "
                       "concurrent_requests=N, role=view (may look and nothing else); read anew "
                       "when it changes; HELIX_API_KEY sets one, "
                       "too");
    command.add_option("--api-key", a.api_keys,
                       "clients must send one of these; everybody on this machine can see them "
                       "(ps): better a file");
    command.add_option("--admin-key-file", a.admin_key_files,
                       "who drains, removes or moves must send one of the keys in this file; "
                       "HELIX_ADMIN_KEY sets one, too [only callers on this machine may]");
    command.add_flag("--open", a.open,
                     "anyone who reaches a --listen address of the network may use it, without a "
                     "key");
    command.add_option("--host-name", a.host_names,
                       "another name under which clients reach the API [addresses, localhost, "
                       "this machine's name]");
    command.add_option("--cors-origin", a.cors_origins,
                       "web pages of this origin (https://chat.example.org) may use /v1 [none]");
    command.add_option("--access-log", a.access_log,
                       "a file that gets a JSON object a line for each request, or - for standard "
                       "output [none]");
}

base::Status fill_access(const AccessArguments& a, const AccessEnvironment& environment,
                         const std::string& listen, api::ApiOptions& options) {
    if (!a.api_keys.empty()) {
        LOG_WARN(
            "--api-key can be read by everybody on this machine (ps); --api-key-file FILE or "
            "HELIX_API_KEY cannot");
    }
    options.api_keys = a.api_keys;
    if (!environment.api_key.empty()) options.api_keys.push_back(environment.api_key);
    options.access.api_key_files = a.api_key_files;
    options.access.admin_key_files = a.admin_key_files;
    if (!environment.admin_key.empty()) options.access.admin_keys = {environment.admin_key};
    options.access.host_names = a.host_names;
    options.access.cors_origins = a.cors_origins;
    options.access.log = a.access_log;
    const bool keys = !options.api_keys.empty() || !a.api_key_files.empty();
    if (keys || a.open || net::is_loopback(listen)) return base::Ok{};
    return base::Error{
        base::Errc::denied,
        fmt::format("--listen: {} can be reached from other machines, and nothing asks them for a "
                    "key: give --api-key-file FILE (a key a line) or HELIX_API_KEY, or say with "
                    "--open that anyone may use it",
                    listen)};
}

void add_caller_keys(CLI::App& command, CallerKeys& keys) {
    command.add_option("--api-key", keys.api_key, "if the server wants one [HELIX_API_KEY]");
    command.add_option("--admin-key-file", keys.admin_key_file,
                       "a file with the server's admin key, if it has one [HELIX_ADMIN_KEY]");
}

base::Result<std::string> key_to_send(const CallerKeys& keys,
                                      const AccessEnvironment& environment) {
    if (!keys.admin_key_file.empty()) {
        std::ifstream file(keys.admin_key_file);
        if (!file) {
            return base::Error{base::Errc::io,
                               "--admin-key-file: cannot read " + keys.admin_key_file};
        }
        std::string line;
        while (std::getline(file, line)) {
            std::istringstream words(line);
            std::string word;
            if (!(words >> word) || word.front() == '#') continue;
            words >> word;  // a line may have a name before its key
            return word;
        }
        return base::invalid("--admin-key-file: " + keys.admin_key_file + " holds no key");
    }
    if (!environment.admin_key.empty()) return environment.admin_key;
    return keys.api_key.empty() ? environment.api_key : keys.api_key;
}

}  // namespace helix::cli
