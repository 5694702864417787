#include "node/cache_room.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "model/model_config.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;
namespace fs = std::filesystem;

// A process looks at the folder again when it has kept as much as this.
constexpr std::uint64_t kCountAgainBytes = std::uint64_t{256} << 20U;
// Removed beyond what is needed, so that not every tensor that is kept looks for others.
constexpr std::uint64_t kMostSlackBytes = kCountAgainBytes;
// No tensor takes as long to be written: who began has died.
constexpr std::chrono::hours kPartIsLeftOver{1};

double megabytes(std::uint64_t bytes) {
    return static_cast<double>(bytes) * 1e-6;
}

std::uint64_t total(const std::vector<TensorCache::File>& files) {
    std::uint64_t bytes = 0;
    for (const TensorCache::File& file : files) bytes += file.bytes;
    return bytes;
}

// Whether a process uses the model; the lock, when none does.
Result<std::unique_ptr<base::FileLock>> lock_unused(const TensorCache& cache,
                                                    const base::Hash128& model) {
    return base::FileLock::try_take(cache.lock_of(model));
}

// The names of the files of all models in use. Error: it is not known what one of these has.
Result<std::set<std::string>> names_in_use(const TensorCache& cache) {
    std::set<std::string> names;
    for (const base::Hash128& model : cache.models()) {
        TRY(const auto unused, lock_unused(cache, model));
        if (unused != nullptr) continue;
        TRY(const model::ModelManifest manifest, cache.read_manifest(model));
        for (const model::TensorDigest& tensor : manifest.tensors) {
            names.insert(base::to_hex(tensor.hash));
        }
    }
    return names;
}

// Those that may be removed, the longest unused first.
std::vector<TensorCache::File> removable(std::vector<TensorCache::File> files,
                                         const std::set<std::string>& in_use) {
    const auto now = fs::file_time_type::clock::now();
    std::erase_if(files, [&](const TensorCache::File& file) {
        if (file.path.extension() == ".part") return now - file.used < kPartIsLeftOver;
        return in_use.contains(file.path.filename().string());
    });
    std::ranges::sort(files, [](const TensorCache::File& a, const TensorCache::File& b) {
        return std::tie(a.used, a.path) < std::tie(b.used, b.path);
    });
    return files;
}

bool remove_file(const fs::path& path) {
    std::error_code error;
    if (fs::remove(path, error) || !error) return true;  // another process may have removed it
    LOG_WARN("{}: cannot remove it: {}", path.string(), error.message());
    return false;
}

// Forgets a model that nobody uses, if `forgets` says so of its manifest.
template <typename Forgets>
Status forget_models(const TensorCache& cache, const Forgets& forgets) {
    for (const base::Hash128& model : cache.models()) {
        TRY(const auto lock, lock_unused(cache, model));
        if (lock == nullptr || !forgets(model)) continue;
        std::error_code error;
        fs::remove_all(cache.manifest_folder(model), error);
        if (error) {
            return Error{Errc::io,
                         fmt::format("{}: cannot remove it: {}",
                                     cache.manifest_folder(model).string(), error.message())};
        }
    }
    return base::Ok{};
}

}  // namespace

Result<DiskSpace> disk_space(const fs::path& folder) {
    struct statvfs status = {};
    if (::statvfs(folder.c_str(), &status) != 0) {
        return Error{Errc::io, fmt::format("{}: cannot ask for free space: {}", folder.string(),
                                           std::strerror(errno))};
    }
    const std::uint64_t block = status.f_frsize;
    return DiskSpace{status.f_blocks * block, status.f_bavail * block};
}

std::uint64_t CacheRoom::count() {
    counted_ = total(cache_.files());
    kept_ = 0;
    return *counted_;
}

// By how much the limit is exceeded with so much more.
Result<std::uint64_t> CacheRoom::excess(std::uint64_t more) {
    const auto beyond = [](std::uint64_t bytes, std::uint64_t limit) {
        return bytes > limit ? bytes - limit : 0;
    };
    if (!limit_.bytes.has_value()) {
        TRY(const DiskSpace disk, disk_(cache_.folder()));
        return beyond(more + std::min(disk.bytes / 10, kMostLeftFreeBytes), disk.free_bytes);
    }
    if (!counted_.has_value() || kept_ >= kCountAgainBytes) count();
    std::uint64_t bytes = *counted_ + kept_;
    if (kept_ > 0 && bytes + more > *limit_.bytes) bytes = count();
    return beyond(bytes + more, *limit_.bytes);
}

std::uint64_t CacheRoom::slack() const {
    return std::min(kMostSlackBytes, limit_.bytes.value_or(kMostSlackBytes * 16) / 16);
}

Status CacheRoom::make(std::uint64_t bytes) {
    TRY(const std::uint64_t too_much, excess(bytes));
    if (too_much > 0) TRY_VOID(remove(too_much));
    kept_ += bytes;
    return base::Ok{};
}

Status CacheRoom::remove(std::uint64_t too_much) {
    TRY(const std::set<std::string> in_use, names_in_use(cache_));
    const std::vector<TensorCache::File> files = cache_.files();
    const std::vector<TensorCache::File> old = removable(files, in_use);
    if (total(old) < too_much) {
        const std::string limit =
            limit_.bytes.has_value()
                ? fmt::format("may hold {:.1f} MB of tensors", megabytes(*limit_.bytes))
                : "leaves a tenth of the disk free";
        return Error{Errc::too_large, fmt::format("the cache {} {}, and {:.1f} MB of what it has "
                                                  "is in use",
                                                  cache_.folder().string(), limit,
                                                  megabytes(total(files) - total(old)))};
    }
    std::uint64_t removed = 0;
    for (const TensorCache::File& file : old) {
        if (removed >= too_much + slack()) break;
        if (!remove_file(file.path)) continue;
        removed += file.bytes;
    }
    LOG_INFO("removed {:.1f} MB of weights that no process uses from {}", megabytes(removed),
             cache_.folder().string());
    counted_ = total(files) - removed;
    kept_ = 0;
    // A manifest without any tensor is of no use, either.
    TRY_VOID(forget_models(cache_, [&](const base::Hash128& model) {
        const auto manifest = cache_.read_manifest(model);
        if (!manifest.ok()) return false;
        const auto has = [&](const model::TensorDigest& tensor) { return cache_.has(tensor); };
        return std::ranges::none_of(manifest->tensors, has);
    }));
    if (removed >= too_much) return base::Ok{};
    return Error{Errc::io, cache_.folder().string() + ": not all that should be could be removed"};
}

std::vector<ReceivedModel> received_models(const TensorCache& cache) {
    std::vector<ReceivedModel> models;
    for (const base::Hash128& model : cache.models()) {
        const auto manifest = cache.read_manifest(model);
        if (!manifest.ok()) continue;
        const auto file = model::open_manifest(*manifest);
        if (!file.ok()) continue;
        const auto unused = lock_unused(cache, model);
        ReceivedModel found{base::to_hex(model), model::model_name(**file), 0, 0,
                            unused.ok() && *unused == nullptr};
        for (const model::TensorDigest& tensor : manifest->tensors) {
            found.model_bytes += tensor.bytes;
            if (cache.has(tensor)) found.bytes += tensor.bytes;
        }
        models.push_back(std::move(found));
    }
    return models;
}

Result<std::uint64_t> remove_unused(const TensorCache& cache) {
    TRY(const std::set<std::string> in_use, names_in_use(cache));
    std::uint64_t removed = 0;
    for (const TensorCache::File& file : removable(cache.files(), in_use)) {
        if (remove_file(file.path)) removed += file.bytes;
    }
    TRY_VOID(forget_models(cache, [](const base::Hash128&) { return true; }));
    return removed;
}

}  // namespace helix::node
