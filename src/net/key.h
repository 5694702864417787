#pragma once

#include <string>
#include <string_view>
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
// line. A key lets in the worker of that name only. Files that others than their owner may write
// are refused.

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

// Names of workers are printed, are parts of paths and words of lists: 1 to 64 letters, digits,
// dots, dashes and underscores.
bool is_worker_name(std::string_view name);
base::Status check_worker_name(const std::string& name);
// A key is made for one name, or for all that begin with PREFIX ("PREFIX*"): machines that a script
// starts share it, each under a name of its own.
base::Status check_key_name(const std::string& name);
bool is_key_for(std::string_view key_name, std::string_view worker);

// Makes a key pair and its file. Neither this nor new_worker_key() overwrites a file.
base::Result<CoordinatorKey> new_coordinator_key(const std::string& path);
// Appends the public key of a new worker's key to the coordinator's list and writes no other file:
// key_file_text() is what the worker's file has to be.
base::Result<WorkerKey> list_new_worker(const std::string& coordinator_path,
                                        const std::string& name);
// The same for a key that the worker made itself. The name is a worker's, and no prefix. Error
// invalid, too, when the public key is none, or is one that is used already.
base::Status list_worker(const std::string& coordinator_path, const std::string& name,
                         const std::string& public_key);
std::string key_file_text(const WorkerKey& key);
// A few digits by which people and files tell keys apart.
std::string key_fingerprint(const std::string& public_key);
// Writes worker_path and appends the worker's public key to the coordinator's list.
base::Result<WorkerKey> new_worker_key(const std::string& coordinator_path, const std::string& name,
                                       const std::string& worker_path);

// Takes the worker off the coordinator's list. Error not_found when it is not there.
base::Status revoke_worker_key(const std::string& coordinator_path, const std::string& name);

base::Result<CoordinatorKey> read_coordinator_key(const std::string& path);
base::Result<WorkerKey> read_worker_key(const std::string& path);

struct AllowedWorker {
    std::string name;
    std::string public_key;
};
// Reads the list; an absent one counts as empty.
base::Result<std::vector<AllowedWorker>> read_allow_list(const std::string& path);

// Whether host, as an endpoint names it, is reachable from this machine only.
bool is_loopback(std::string_view host);

// Error denied, with what to do about it, when host is not loopback and there is no key.
base::Status check_key_needed(std::string_view host, bool have_key, bool insecure);

}  // namespace helix::net
