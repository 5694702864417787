#include "node/wire_weights.h"

#include <cstdlib>
#include <span>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "model/limits.h"
#include "node/clock.h"
#include "wire/codec.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;
namespace fs = std::filesystem;

constexpr base::Duration kProgressEvery = base::from_ms(2000);

// No model's manifest is longer.
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30U;

std::vector<std::byte> read_file(const fs::path& path) {
    const auto text = base::read_file(path.string(), kMaxManifestBytes);
    if (!text.ok()) return {};
    const auto bytes = std::as_bytes(std::span(*text));
    return {bytes.begin(), bytes.end()};
}

Result<model::ModelManifest> to_manifest(wire::Manifest from, std::vector<std::byte> header,
                                         const base::Hash128& hash) {
    if (base::hash128(header) != from.header_hash) {
        return base::invalid("the model's header arrived damaged");
    }
    model::ModelManifest manifest;
    manifest.header = std::move(header);
    manifest.model_hash = hash;
    for (wire::ManifestTensor& tensor : from.tensors) {
        manifest.tensors.push_back({std::move(tensor.name), tensor.bytes, tensor.hash});
    }
    return manifest;
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

wire::Manifest to_wire(const model::ModelManifest& manifest) {
    wire::Manifest out;
    out.header_bytes = manifest.header.size();
    out.header_hash = base::hash128(manifest.header);
    for (const model::TensorDigest& tensor : manifest.tensors) {
        out.tensors.push_back({tensor.name, tensor.bytes, tensor.hash});
    }
    return out;
}

Result<std::unique_ptr<WireWeights>> WireWeights::open(WeightFetcher& fetcher,
                                                       const base::Hash128& model_hash,
                                                       const fs::path& cache_dir) {
    std::unique_ptr<WireWeights> weights(new WireWeights(fetcher));
    if (!cache_dir.empty()) {
        weights->dir_ = cache_dir / base::to_hex(model_hash);
        const Status made = base::make_private_folder(weights->dir_.string());
        if (!made.ok()) {
            LOG_WARN("{}; received weights are not kept", made.error().message);
            weights->dir_.clear();
        }
    }
    Result<model::ModelManifest> manifest = weights->read_cached_manifest(model_hash);
    if (!manifest.ok()) {
        manifest = weights->fetch_manifest(model_hash);
        if (!manifest.ok()) return manifest.error();
    }
    weights->manifest_ = std::move(*manifest);
    TRY(weights->file_, model::open_manifest(weights->manifest_));
    for (std::size_t i = 0; i < weights->manifest_.tensors.size(); ++i) {
        weights->index_[weights->manifest_.tensors[i].name] = i;
    }
    weights->last_progress_ = now();
    return weights;
}

WireWeights::WireWeights(WeightFetcher& fetcher) : fetcher_(fetcher) {}

WireWeights::~WireWeights() = default;

Result<model::ModelManifest> WireWeights::read_cached_manifest(const base::Hash128& hash) const {
    if (dir_.empty()) return Error{Errc::not_found, "no cache"};
    const std::vector<std::byte> encoded = read_file(dir_ / "manifest");
    TRY(wire::Message message, wire::decode(encoded, 0, {}));
    auto* manifest = std::get_if<wire::Manifest>(&message);
    if (manifest == nullptr) return Error{Errc::not_found, "no cached manifest"};
    TRY(model::ModelManifest read,
        to_manifest(std::move(*manifest), read_file(dir_ / "header"), hash));
    TRY_VOID(model::open_manifest(read));
    return read;
}

Result<model::ModelManifest> WireWeights::fetch_manifest(const base::Hash128& hash) {
    TRY(wire::Manifest manifest, fetcher_.manifest());
    if (manifest.header_bytes > model::limits::kMaxHeaderBytes) {
        return base::invalid(fmt::format("the model's header has {} bytes, the limit is {}",
                                         manifest.header_bytes, model::limits::kMaxHeaderBytes));
    }
    std::vector<std::byte> header(manifest.header_bytes);
    TRY_VOID(fetcher_.fetch(wire::kHeaderChunk, header));
    TRY(model::ModelManifest fetched, to_manifest(std::move(manifest), std::move(header), hash));
    TRY_VOID(model::open_manifest(fetched));
    keep_manifest(fetched);
    return fetched;
}

void WireWeights::keep_manifest(const model::ModelManifest& manifest) const {
    if (dir_.empty()) return;
    const std::string encoded = wire::encode(to_wire(manifest));
    Status kept = base::write_private_file((dir_ / "header").string(), manifest.header);
    if (kept.ok()) {
        kept = base::write_private_file((dir_ / "manifest").string(),
                                        std::as_bytes(std::span(encoded)));
    }
    if (!kept.ok()) LOG_WARN("{}; the model's header is not kept", kept.error().message);
}

Result<std::span<const std::byte>> WireWeights::tensor(std::string_view name) {
    const auto found = index_.find(name);
    if (found == index_.end()) {
        return Error{Errc::not_found, fmt::format("the model has no tensor {}", name)};
    }
    const std::size_t index = found->second;
    return held_.use(name, [&] { return read_cached_tensor(index); });
}

void WireWeights::release(std::string_view name) {
    held_.release(name);
}

// Reads the tensor from the cache. What is not there, or is not what it was, is fetched.
Result<std::vector<std::byte>> WireWeights::read_cached_tensor(std::size_t index) {
    if (dir_.empty()) return fetch_tensor(index);
    const model::TensorDigest& tensor = manifest_.tensors[index];
    const auto file = base::RegularFile::open(path_of(index));
    if (!file.ok() || (*file)->bytes() != tensor.bytes) return fetch_tensor(index);
    TRY(auto bytes, base::make_bytes(tensor.bytes, tensor.name));
    Status good = (*file)->read(0, bytes);
    if (good.ok()) good = model::check_tensor(tensor, bytes);
    if (good.ok()) return bytes;
    LOG_WARN("{}: {}; it is fetched again", path_of(index), good.error().message);
    return fetch_tensor(index);
}

Result<std::vector<std::byte>> WireWeights::fetch_tensor(std::size_t index) {
    const model::TensorDigest& tensor = manifest_.tensors[index];
    if (tensor.bytes == 0) return base::invalid(tensor.name + " has no bytes");
    TRY(auto bytes, base::make_bytes(tensor.bytes, tensor.name));
    TRY_VOID(fetcher_.fetch(static_cast<std::int32_t>(index), bytes));
    TRY_VOID(model::check_tensor(tensor, bytes));
    if (!dir_.empty()) {
        const Status kept = base::write_private_file(path_of(index), bytes);
        if (!kept.ok()) LOG_WARN("{}; {} is not kept", kept.error().message, tensor.name);
    }
    report_progress(tensor.name, tensor.bytes);
    return bytes;
}

std::string WireWeights::path_of(std::size_t index) const {
    return (dir_ / fmt::format("tensor-{}", index)).string();
}

void WireWeights::report_progress(const std::string& name, std::uint64_t bytes) {
    received_bytes_ += bytes;
    const base::TimePoint time = now();
    if (time - last_progress_ < kProgressEvery) return;
    last_progress_ = time;
    LOG_INFO("weights: {:.1f} MB received, last {}", static_cast<double>(received_bytes_) / 1e6,
             name);
}

}  // namespace helix::node
