#include "model/manifest.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/hasher.h"
#include "base/machine.h"
#include "model/local_weights.h"

namespace helix::model {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

base::Hash128 combine(const ModelManifest& manifest) {
    std::vector<std::byte> bytes;
    const auto add = [&](const base::Hash128& hash) {
        for (const std::uint64_t word : {hash.low, hash.high}) {
            for (int shift = 0; shift < 64; shift += 8) {
                bytes.push_back(static_cast<std::byte>(word >> shift));
            }
        }
    };
    add(base::hash128(manifest.header));
    for (const TensorDigest& tensor : manifest.tensors) add(tensor.hash);
    return base::hash128(bytes);
}

// Reads a tensor in pieces where the source can give them, so that no whole tensor is in memory.
base::Result<base::Hash128> hash_tensor(WeightSource& source, const TensorDigest& tensor) {
    base::Hasher128 hasher;
    std::vector<std::byte> piece(std::min<std::uint64_t>(kPieceBytes, tensor.bytes));
    std::uint64_t offset = 0;
    while (offset < tensor.bytes) {
        const auto part = std::span(piece).first(
            static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), tensor.bytes - offset)));
        const auto read = source.read_part(tensor.name, offset, part);
        if (!read) break;
        if (!read->ok()) return read->error();
        hasher.add(part);
        offset += part.size();
    }
    if (offset == tensor.bytes) return hasher.hash();
    TRY(const auto bytes, source.tensor(tensor.name));
    const base::Hash128 hash = base::hash128(bytes);
    source.release(tensor.name);
    return hash;
}

}  // namespace

base::Result<ModelManifest> build_manifest(WeightSource& source, unsigned threads) {
    const GgufFile& file = source.file();
    ModelManifest manifest;
    manifest.header.assign(file.header().begin(), file.header().end());
    for (const TensorInfo& tensor : file.tensors()) {
        manifest.tensors.push_back({tensor.name, tensor.bytes, {}});
    }
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    base::Status status = base::Ok{};
    const auto work = [&] {
        for (std::size_t i = next++; i < manifest.tensors.size(); i = next++) {
            TensorDigest& digest = manifest.tensors[i];
            const auto hash = hash_tensor(source, digest);
            if (!hash.ok()) {
                const std::lock_guard lock(mutex);
                status = hash.error();
                return;
            }
            digest.hash = *hash;
        }
    };
    if (threads == 0) threads = static_cast<unsigned>(std::min(base::usable_threads(), 4));
    std::vector<std::thread> pool;
    for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    if (!status.ok()) return status.error();
    set_model_hash(manifest);
    return manifest;
}

base::Result<ModelManifest> build_manifest(const GgufFile& file, unsigned threads) {
    if (!file.has_data()) {
        return base::invalid(file.label() + ": has no tensor data, nothing to take hashes of");
    }
    // Not owned: the source goes before this returns.
    LocalWeights source(std::shared_ptr<const GgufFile>(std::shared_ptr<void>(), &file));
    return build_manifest(source, threads);
}

base::Result<base::Hash128> hash_model_file(const std::string& path) {
    TRY(const auto file, GgufFile::open(path));
    TRY(const ModelManifest manifest, build_manifest(*file));
    return manifest.model_hash;
}

base::Status check_model(WeightSource& source, const base::Hash128& expected) {
    TRY(const ModelManifest manifest, build_manifest(source));
    return check_model_hash(source, manifest, expected);
}

base::Status check_model_hash(const WeightSource& source, const ModelManifest& manifest,
                              const base::Hash128& expected) {
    const base::Hash128 found = manifest.model_hash;
    if (found == expected) return base::Ok{};
    return base::invalid(fmt::format("{}: model hash {}, expected {}", source.file().label(),
                                     base::to_hex(found), base::to_hex(expected)));
}

void set_model_hash(ModelManifest& manifest) {
    manifest.model_hash = combine(manifest);
}

base::Status check_model_file(const std::string& path, const base::Hash128& expected) {
    TRY(const auto weights, LocalWeights::open(path));
    return check_model(*weights, expected);
}

base::Result<std::shared_ptr<const GgufFile>> open_manifest(const ModelManifest& manifest) {
    TRY(auto file, GgufFile::from_header(manifest.header));
    if (file->tensors().size() != manifest.tensors.size()) {
        return base::invalid(fmt::format("model manifest: {} tensors, its header lists {}",
                                         manifest.tensors.size(), file->tensors().size()));
    }
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
        const TensorInfo& listed = file->tensors()[i];
        const TensorDigest& digest = manifest.tensors[i];
        if (digest.name == listed.name && digest.bytes == listed.bytes) continue;
        return base::invalid(
            fmt::format("model manifest: tensor {} of {} bytes, its header lists {} of {} bytes",
                        digest.name, digest.bytes, listed.name, listed.bytes));
    }
    if (combine(manifest) != manifest.model_hash) {
        return base::invalid(fmt::format("model manifest: the contents give the hash {}, not {}",
                                         base::to_hex(combine(manifest)),
                                         base::to_hex(manifest.model_hash)));
    }
    return file;
}

base::Status check_tensor(const TensorDigest& expected, std::span<const std::byte> bytes) {
    if (bytes.size() != expected.bytes) {
        return base::invalid(fmt::format("tensor {}: {} bytes, expected {}", expected.name,
                                         bytes.size(), expected.bytes));
    }
    const base::Hash128 found = base::hash128(bytes);
    if (found == expected.hash) return base::Ok{};
    return base::invalid(fmt::format("tensor {}: hash {}, expected {}", expected.name,
                                     base::to_hex(found), base::to_hex(expected.hash)));
}

}  // namespace helix::model
