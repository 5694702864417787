#include "model/digest_cache.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/hex.h"
#include "base/log.h"

namespace helix::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20U;  // of one entry
constexpr std::size_t kMostEntries = 64;

bool are_before(const std::vector<base::FileStamp>& stamps, std::int64_t calendar_ns) {
    return std::ranges::all_of(stamps, [&](const base::FileStamp& stamp) {
        return std::max(stamp.written_ns, stamp.changed_ns) <= calendar_ns;
    });
}

base::Hash128 hash_of(std::string_view text) {
    return base::hash128(std::as_bytes(std::span(text)));
}

// What an entry begins with: for which files it is.
std::string heading(const WeightSource& source, const std::vector<base::FileStamp>& stamps) {
    std::string text =
        fmt::format("digests 1 {}\n", base::to_hex(base::hash128(source.file().header())));
    for (const base::FileStamp& stamp : stamps) {
        text += fmt::format("{} {} {} {} {}\n", stamp.device, stamp.inode, stamp.bytes,
                            stamp.written_ns, stamp.changed_ns);
    }
    return text;
}

}  // namespace

fs::path DigestCache::path_of(const WeightSource& source,
                              const std::vector<base::FileStamp>& stamps) const {
    std::string what = base::to_hex(base::hash128(source.file().header()));
    for (const base::FileStamp& stamp : stamps) {
        what += fmt::format(" {} {}", stamp.device, stamp.inode);
    }
    return folder_ / base::to_hex(hash_of(what));
}

// An entry is its heading, a line for each tensor, and the hash of all of that. What is anything
// else is as if it were not there.
std::optional<ModelManifest> DigestCache::find(const WeightSource& source,
                                               const std::vector<base::FileStamp>& stamps) const {
    const auto read = base::read_file(path_of(source, stamps).string(), kMostBytes);
    if (!read.ok()) return std::nullopt;
    const std::string head = heading(source, stamps);
    if (!read->starts_with(head)) return std::nullopt;
    std::istringstream lines(read->substr(head.size()));
    std::string line;
    ModelManifest manifest;
    const GgufFile& file = source.file();
    manifest.header.assign(file.header().begin(), file.header().end());
    for (const TensorInfo& tensor : file.tensors()) {
        const auto hash = std::getline(lines, line) ? base::hash_from_hex(line) : std::nullopt;
        if (!hash.has_value()) return std::nullopt;
        manifest.tensors.push_back({tensor.name, tensor.bytes, *hash});
    }
    const auto end = static_cast<std::size_t>(lines.tellg());
    const std::string all = read->substr(0, head.size() + end);
    if (!std::getline(lines, line) || line != base::to_hex(hash_of(all))) return std::nullopt;
    set_model_hash(manifest);
    return manifest;
}

void DigestCache::keep(const WeightSource& source, const std::vector<base::FileStamp>& stamps,
                       const ModelManifest& manifest) const {
    std::string text = heading(source, stamps);
    for (const TensorDigest& tensor : manifest.tensors) text += base::to_hex(tensor.hash) + "\n";
    text += base::to_hex(hash_of(text)) + "\n";
    base::Status kept = base::make_private_folder(folder_.string());
    if (kept.ok()) {
        make_room();
        kept = base::write_private_file(path_of(source, stamps).string(),
                                        std::as_bytes(std::span(text)));
    }
    if (!kept.ok()) {
        LOG_DEBUG("digests of {} are not kept: {}", source.file().label(), kept.error().message);
    }
}

// The entries that were written first go.
void DigestCache::make_room() const {
    std::vector<std::pair<fs::file_time_type, fs::path>> entries;
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
        std::error_code none;
        const auto written = fs::last_write_time(it->path(), none);
        if (!none) entries.emplace_back(written, it->path());
    }
    if (entries.size() < kMostEntries) return;
    std::ranges::sort(entries);
    for (std::size_t i = 0; i <= entries.size() - kMostEntries; ++i) {
        fs::remove(entries[i].second, error);
    }
}

base::Result<ModelManifest> DigestCache::manifest(WeightSource& source) const {
    const auto before = source.stamps();
    if (folder_.empty() || !before.ok()) return build_manifest(source);
    if (auto found = find(source, *before)) return std::move(*found);
    const bool settled = are_before(*before, base::calendar_ns() - settled_after_.ns);
    TRY(ModelManifest built, build_manifest(source));
    const auto after = source.stamps();
    if (settled && after.ok() && *after == *before) keep(source, *before, built);
    return built;
}

base::Status DigestCache::check(WeightSource& source, const base::Hash128& expected) const {
    TRY(const ModelManifest found, manifest(source));
    return check_model_hash(source, found, expected);
}

}  // namespace helix::model
