#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/file_choice.h"
#include "hub/model_name.h"

// The folder where pulled models are kept, laid out as other programs for the same hub lay it out,
// so that each finds what the others have pulled:
//
//     models--OWNER--REPO/blobs/ETAG               the files, by their hashes
//     models--OWNER--REPO/refs/REVISION            the commit that a branch was at
//     models--OWNER--REPO/snapshots/COMMIT/PATH    a link to the blob
//     .locks/models--OWNER--REPO/ETAG.lock         held by whoever pulls the blob
//     urls--HASH/FILE, urls--HASH/source.json      what came from an address, which HASH stands for

namespace helix::hub {

// A model that is there, whole.
struct CachedModel {
    std::string name;            // that finds it again: OWNER/REPO:TAG, or an address
    std::filesystem::path path;  // to open: a file, the first part of several, or a folder
    std::vector<std::filesystem::path> files;
    std::uint64_t bytes = 0;
    std::string commit;  // "" for an address
};

class Cache {
  public:
    explicit Cache(std::filesystem::path root) : root_(std::move(root)) {}
    const std::filesystem::path& root() const { return root_; }

    std::filesystem::path repository(const ModelName& name) const;
    std::filesystem::path blob(const ModelName& name, const std::string& etag) const;
    std::filesystem::path lock(const ModelName& name, const std::string& etag) const;
    std::filesystem::path snapshot(const ModelName& name, const std::string& commit) const;
    // Of an address: its folder, and the lock of a file in it.
    std::filesystem::path address_folder(const std::string& address) const;
    std::filesystem::path address_lock(const std::string& address, const std::string& file) const;

    // Puts the path into the snapshot, as a link to the blob.
    base::Status link(const ModelName& name, const std::string& commit, const std::string& path,
                      const std::string& etag) const;
    base::Status write_ref(const ModelName& name, const std::string& commit) const;

    // What the name means among the files that are there. Error not_found: it is not there, or not
    // whole.
    base::Result<CachedModel> find(const ModelName& name) const;
    base::Result<CachedModel> find_address(const std::string& address) const;
    // All that are whole, by name.
    std::vector<CachedModel> list() const;
    // Removes a model, or with neither tag nor revision all of its repository, halves of downloads
    // included. Returns how many bytes that frees. Error unavailable: it is being pulled.
    base::Result<std::uint64_t> remove(const std::string& name) const;

  private:
    std::optional<std::string> commit_of(const ModelName& name) const;
    base::Result<CachedModel> chosen(const ModelName& name, const std::string& commit,
                                     const FileChoice& choice) const;
    void list_repository(const std::filesystem::path& folder, std::vector<CachedModel>& to) const;
    base::Result<std::uint64_t> remove_folder(const std::filesystem::path& folder) const;
    base::Result<std::uint64_t> remove_files(const ModelName& name) const;

    std::filesystem::path root_;
};

}  // namespace helix::hub
