#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"

// Which hub, with which token, and where what was pulled is kept: by the environment variables that
// other programs for the same hub read, too.

namespace helix::hub {

struct Settings {
    std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT, without a slash at its end
    std::string token;                                // "": none. Only the endpoint gets it
    std::filesystem::path cache;
    bool offline = false;  // HF_HUB_OFFLINE: 1, on, yes or true
};

// The value of an environment variable, "" when it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string process_environment(const char* name);

// The token is in token_file, else in HF_TOKEN, else in the file HF_TOKEN_PATH or $HF_HOME/token,
// where there is one. The cache is HELIX_CACHE, else HF_HUB_CACHE, else $HF_HOME/hub, else
// ~/.cache/huggingface/hub. Errors: a token_file that cannot be read, a token that is none, a token
// that would go over the network in the clear, no folder for a cache.
base::Result<Settings> read_settings(const Environment& environment,
                                     const std::string& token_file = {});

}  // namespace helix::hub
