#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "base/file.h"
#include "hub/http_rules.h"
#include "hub/model_name.h"

namespace helix::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestToken = 4096;

fs::path hub_home(const Environment& environment) {
    if (const std::string home = environment("HF_HOME"); !home.empty()) return home;
    const std::string caches = environment("XDG_CACHE_HOME");
    if (!caches.empty()) return fs::path(caches) / "huggingface";
    const std::string home = environment("HOME");
    return home.empty() ? fs::path() : fs::path(home) / ".cache" / "huggingface";
}

base::Result<std::string> read_token(const fs::path& path) {
    TRY(std::string text, base::read_file(path.string(), kLargestToken));
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
        text.pop_back();
    }
    return text;
}

base::Result<std::string> find_token(const Environment& environment,
                                     const std::string& token_file) {
    if (!token_file.empty()) return read_token(token_file);
    if (std::string token = environment("HF_TOKEN"); !token.empty()) return token;
    fs::path path = environment("HF_TOKEN_PATH");
    if (path.empty()) {
        const fs::path home = hub_home(environment);
        if (home.empty()) return std::string();
        path = home / "token";
    }
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return std::string();
    return read_token(path);
}

bool says_yes(std::string word) {
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return word == "1" || word == "on" || word == "yes" || word == "true";
}

base::Result<fs::path> cache_folder(const Environment& environment) {
    for (const char* name : {"HELIX_CACHE", "HF_HUB_CACHE"}) {
        if (const std::string folder = environment(name); !folder.empty()) return fs::path(folder);
    }
    const fs::path home = hub_home(environment);
    if (!home.empty()) return home / "hub";
    return base::invalid("no folder for pulled models: set HELIX_CACHE or HOME");
}

}  // namespace

std::string process_environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

base::Result<Settings> read_settings(const Environment& environment,
                                     const std::string& token_file) {
    Settings settings;
    if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
        while (endpoint.ends_with('/')) endpoint.pop_back();
        if (!is_web_address(endpoint)) {
            return base::invalid("HF_ENDPOINT: '" + endpoint +
                                 "' begins neither with https:// nor with http://");
        }
        settings.endpoint = endpoint;
    }
    settings.offline = says_yes(environment("HF_HUB_OFFLINE"));
    TRY(settings.cache, cache_folder(environment));
    TRY(settings.token, find_token(environment, token_file));
    const bool plain = std::all_of(settings.token.begin(), settings.token.end(),
                                   [](unsigned char c) { return std::isgraph(c) != 0; });
    if (!plain) return base::invalid("the hub's token has blanks or control characters in it");
    if (!settings.token.empty() && !keeps_secrets(settings.endpoint)) {
        return base::Error{
            base::Errc::denied,
            fmt::format("HF_ENDPOINT: the token would go to {} in the clear: use https, or give no "
                        "token",
                        shown_address(settings.endpoint))};
    }
    return settings;
}

}  // namespace helix::hub
