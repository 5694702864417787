#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/settings.h"

// A model from elsewhere onto this machine.

namespace helix::hub {

struct PullProgress {
    std::string file;
    std::uint64_t done = 0;   // of the whole model
    std::uint64_t total = 0;  // 0: unknown
};

struct PullOptions {
    Settings settings;
    Patience patience;
    Disk disk = real_disk();
    std::function<void(const PullProgress& progress)> progress;
    // Begins a pause, of which users should know when it is long.
    std::function<void(base::Duration pause, const std::string& why)> note;
    std::string sha256;  // of what an address leads to; "": not known before
    std::string key;     // for another Helix that asks for one; "": none
    // Whether a file that came from another Helix has the content with this hash, as the error says
    // it. Must be set for such a pull.
    std::function<base::Status(const std::filesystem::path& file, const std::string& hash)>
        check_model;
};

struct PulledFile {
    std::string path;  // in the repository
    std::uint64_t bytes = 0;
    std::string hash;  // SHA-256, or git's hash of a small file
};

struct Pulled {
    CachedModel model;
    std::vector<PulledFile> files;
    std::uint64_t received = 0;  // bytes over the network
};

// Brings the newest state of a model of the hub into the cache: files that are there already are
// not brought again. Errors: as the hub says it, no such tag, no room on the disk, bytes that are
// not those that were promised; what has arrived stays and is continued by the next call.
base::Result<Pulled> pull(const ModelName& name, const PullOptions& options);
// The same for what an address leads to: a GGUF file, or the first part of one.
base::Result<Pulled> pull_address(const std::string& address, const PullOptions& options);

// The model where --model or the like names it: by its name or address from the cache, without a
// question to anybody, else pulled. Errors list names in the cache that are alike.
base::Result<CachedModel> find_or_pull(const std::string& text, const PullOptions& options);

}  // namespace helix::hub
