#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/download.h"
#include "hub/model_name.h"
#include "hub/settings.h"
#include "hub/small_answer.h"

// What a hub says about its models.

namespace helix::hub {

struct RemoteFile {
    std::string path;  // safe
    std::uint64_t bytes = 0;
    std::string etag;    // the hash by which the hub names the content
    bool large = false;  // etag is its SHA-256; else git's hash
    bool operator==(const RemoteFile&) const = default;
};

// A page of the list of files, as the hub writes it. Folders are left out. Errors name where: no
// list, a path that leaves its folder, a hash that is none.
base::Result<std::vector<RemoteFile>> read_file_list(const std::string& json,
                                                     const std::string& where);

class HubClient {
  public:
    HubClient(const Settings& settings, const World& world) : settings_(settings), world_(world) {}

    // The commit that the name's revision is at now. Errors say what the hub refuses, and why.
    base::Result<std::string> commit_of(const ModelName& name);
    // All files of a commit.
    base::Result<std::vector<RemoteFile>> files_of(const ModelName& name,
                                                   const std::string& commit);
    // Where the bytes of a file are now. Error io: there it is not the file of the list.
    base::Result<FileAddress> address_of(const ModelName& name, const std::string& commit,
                                         const RemoteFile& file);

  private:
    // The answer after redirects.
    base::Result<SmallAnswer> ask(std::string address, const std::string& what, bool head_only);
    base::Result<SmallAnswer> send(const std::string& address, bool head_only);
    // The endpoint's token for addresses of the endpoint, "" for all others.
    std::string token_for(const std::string& address) const;

    const Settings& settings_;
    const World& world_;
};

}  // namespace helix::hub
