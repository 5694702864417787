#pragma once

#include <string>
#include <vector>

#include "base/result.h"

// Keys of a cluster. The coordinator has one key pair and a list of the workers it lets in; a
// worker's key file names its own pair and the coordinator it trusts. Files are text, mode 0600:
//
//     helix-key coordinator          helix-key worker NAME
//     public <40 characters, Z85>    public ...
//     secret <40 characters, Z85>    secret ...
//                                    coordinator <public key>
//
// The list of workers lies beside the coordinator's file, as FILE.allow: one "NAME PUBLIC" per
// line.

namespace helix::net {

struct KeyPair {
    std::string public_key;  // Z85, 40 characters
    std::string secret_key;
};

struct CoordinatorKey {
    KeyPair pair;
    std::string allow_path;
};

struct WorkerKey {
    std::string name;
    KeyPair pair;
    std::string coordinator_public_key;
};

KeyPair make_key_pair();
bool is_z85_key(std::string_view text);

// Neither overwrites a file.
base::Result<CoordinatorKey> new_coordinator_key(const std::string& path);
// Writes worker_path and appends the worker's public key to the coordinator's list.
base::Result<WorkerKey> new_worker_key(const std::string& coordinator_path, const std::string& name,
                                       const std::string& worker_path);

base::Result<CoordinatorKey> read_coordinator_key(const std::string& path);
base::Result<WorkerKey> read_worker_key(const std::string& path);

struct AllowedWorker {
    std::string name;
    std::string public_key;
};
// An absent list is an empty one.
base::Result<std::vector<AllowedWorker>> read_allow_list(const std::string& path);

// Whether host, as an endpoint names it, is reachable from this machine only.
bool is_loopback(std::string_view host);

// denied, with what to do about it, when host is not loopback and there is no key.
base::Status check_key_needed(std::string_view host, bool have_key, bool insecure);

}  // namespace helix::net
