#include "node/tensor_cache.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/hex.h"
#include "base/log.h"
#include "node/wire_manifest.h"
#include "wire/codec.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;
namespace fs = std::filesystem;

// No model's manifest is longer.
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30U;

std::vector<std::byte> read_file(const fs::path& path) {
    const auto text = base::read_file(path.string(), kMaxManifestBytes);
    if (!text.ok()) return {};
    const auto bytes = std::as_bytes(std::span(*text));
    return {bytes.begin(), bytes.end()};
}

// Opens a tensor's file. Error not_found: it is not there, or is not as long.
Result<std::unique_ptr<const base::RegularFile>> open_tensor(const fs::path& path,
                                                             std::uint64_t bytes) {
    TRY(auto file, base::RegularFile::open(path.string()));
    if (file->bytes() == bytes) return file;
    return Error{Errc::not_found,
                 fmt::format("{} has {} bytes, not {}", path.string(), file->bytes(), bytes)};
}

// Where the time cannot be set, the file is only removed sooner.
void note_use(const fs::path& path) {
    std::error_code ignored;
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

}  // namespace

fs::path default_cache_dir() {
    // No thread of ours ever writes the environment, so it is safe to read.
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
        return fs::path(cache) / "helix";
    }
    const char* home = std::getenv("HOME");
    if (home == nullptr || *home != '/') return {};
    return fs::path(home) / ".cache" / "helix";
}

model::DigestCache digests_in(const fs::path& cache_dir) {
    return cache_dir.empty() ? model::DigestCache() : model::DigestCache(cache_dir / "digests");
}

TensorCache::TensorCache(fs::path dir) : dir_(std::move(dir)) {
    if (dir_.empty()) return;
    const Status made = base::make_private_folder((dir_ / "tensors").string());
    if (made.ok()) return;
    LOG_WARN("{}; received weights are not kept", made.error().message);
    dir_.clear();
}

fs::path TensorCache::path_of(const base::Hash128& hash) const {
    const std::string name = base::to_hex(hash);
    return dir_ / "tensors" / name.substr(0, 2) / name;
}

fs::path TensorCache::manifest_folder(const base::Hash128& model_hash) const {
    return dir_ / "manifests" / base::to_hex(model_hash);
}

fs::path TensorCache::lock_of(const base::Hash128& model_hash) const {
    return manifest_folder(model_hash) / "in-use";
}

bool TensorCache::has(const model::TensorDigest& tensor) const {
    std::error_code error;
    if (!present()) return false;
    const std::uint64_t bytes = fs::file_size(path_of(tensor.hash), error);
    return !error && bytes == tensor.bytes;
}

Result<std::vector<std::byte>> TensorCache::read(const model::TensorDigest& tensor) const {
    if (!present()) return Error{Errc::not_found, "no cache"};
    TRY(const auto file, open_tensor(path_of(tensor.hash), tensor.bytes));
    TRY(auto bytes, base::make_bytes(tensor.bytes, tensor.name));
    TRY_VOID(file->read(0, bytes));
    const Status good = model::check_tensor(tensor, bytes);
    if (good.ok()) {
        note_use(file->path());
        return bytes;
    }
    return base::invalid(fmt::format("{}: {}", file->path(), good.error().message));
}

Status TensorCache::read_part(const base::Hash128& hash, std::uint64_t bytes, std::uint64_t offset,
                              std::span<std::byte> to) const {
    if (!present()) return Error{Errc::not_found, "no cache"};
    TRY(const auto file, open_tensor(path_of(hash), bytes));
    if (offset == 0) note_use(file->path());
    return file->read(offset, to);
}

Status TensorCache::keep(const base::Hash128& hash, std::span<const std::byte> bytes) const {
    if (!present()) return Error{Errc::not_found, "no cache"};
    const fs::path path = path_of(hash);
    TRY_VOID(base::make_private_folder(path.parent_path().string()));
    return base::write_private_file(path.string(), bytes);
}

Result<model::ModelManifest> TensorCache::read_manifest(const base::Hash128& model_hash) const {
    if (!present()) return Error{Errc::not_found, "no cache"};
    const fs::path folder = manifest_folder(model_hash);
    const std::vector<std::byte> encoded = read_file(folder / "manifest");
    TRY(wire::Message message, wire::decode(encoded, 0, {}));
    auto* manifest = std::get_if<wire::Manifest>(&message);
    if (manifest == nullptr) return Error{Errc::not_found, "no cached manifest"};
    TRY(model::ModelManifest read,
        from_wire(std::move(*manifest), read_file(folder / "header"), model_hash));
    TRY_VOID(model::open_manifest(read));
    return read;
}

Result<std::unique_ptr<base::FileLock>> TensorCache::use(const base::Hash128& model_hash) const {
    if (!present()) return Error{Errc::not_found, "no cache"};
    TRY_VOID(base::make_private_folder(manifest_folder(model_hash).string()));
    return base::FileLock::share(lock_of(model_hash));
}

std::vector<TensorCache::File> TensorCache::files() const {
    std::vector<File> files;
    if (!present()) return files;
    for (const fs::path& folder : base::folder_entries(dir_ / "tensors")) {
        for (const fs::path& path : base::folder_entries(folder)) {
            std::error_code error;
            File file{path, 0, {}};
            if (!fs::is_regular_file(fs::symlink_status(path, error)) || error) continue;
            file.bytes = fs::file_size(path, error);
            if (error) continue;  // it was removed meanwhile
            file.used = fs::last_write_time(path, error);
            if (!error) files.push_back(std::move(file));
        }
    }
    return files;
}

std::vector<base::Hash128> TensorCache::models() const {
    std::vector<base::Hash128> models;
    if (!present()) return models;
    for (const fs::path& folder : base::folder_entries(dir_ / "manifests")) {
        if (const auto hash = base::hash_from_hex(folder.filename().string())) {
            models.push_back(*hash);
        }
    }
    return models;
}

Status TensorCache::keep_manifest(const model::ModelManifest& manifest) const {
    if (!present()) return base::Ok{};
    const fs::path folder = manifest_folder(manifest.model_hash);
    TRY_VOID(base::make_private_folder(folder.string()));
    const std::string encoded = wire::encode(to_wire(manifest));
    TRY_VOID(base::write_private_file((folder / "header").string(), manifest.header));
    return base::write_private_file((folder / "manifest").string(),
                                    std::as_bytes(std::span(encoded)));
}

}  // namespace helix::node
