#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "api/api_server.h"
#include "base/result.h"

// Who may use the HTTP port: the options of `helix serve`, and the keys of commands that ask it.

namespace helix::cli {

struct AccessArguments {
    std::vector<std::string> api_keys;
    std::vector<std::string> api_key_files;
    std::vector<std::string> admin_key_files;
    std::vector<std::string> host_names;
    std::vector<std::string> cors_origins;
    std::string access_log;
    bool open = false;
};
void add_access_options(CLI::App& command, AccessArguments& a);

// The environment, as far as it says who may do what.
struct AccessEnvironment {
    std::string api_key;    // HELIX_API_KEY
    std::string admin_key;  // HELIX_ADMIN_KEY
    static AccessEnvironment read();
};

// listen: the address that the port is opened on, as a number. denied, naming the options, when
// others reach it and nothing asks them for a key.
base::Status fill_access(const AccessArguments& a, const AccessEnvironment& environment,
                         const std::string& listen, api::ApiOptions& options);

// What a command sends: the admin key where it has one, else the API key.
struct CallerKeys {
    std::string api_key;
    std::string admin_key_file;
};
void add_caller_keys(CLI::App& command, CallerKeys& keys);
base::Result<std::string> key_to_send(const CallerKeys& keys, const AccessEnvironment& environment);

}  // namespace helix::cli
