#include "node/wire_weights.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/log.h"
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

std::string temporary_name(const fs::path& path) {
    return fmt::format("{}.{}.part", path.string(), ::getpid());
}

std::vector<std::byte> read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

bool write_file(const fs::path& path, std::span<const std::byte> bytes) {
    const std::string temporary = temporary_name(path);
    {
        std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        if (!file.flush()) return false;
    }
    std::error_code error;
    fs::rename(temporary, path, error);
    return !error;
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

// Memory for one tensor: a file of the cache, or anonymous.
class WireWeights::Mapping {
  public:
    static std::unique_ptr<Mapping> of_file(int fd, std::size_t bytes, bool writable) {
        const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
        return make(::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0), bytes);
    }
    static std::unique_ptr<Mapping> anonymous(std::size_t bytes) {
        return make(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            bytes);
    }
    ~Mapping() { ::munmap(address_, bytes_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::span<std::byte> bytes() const { return {static_cast<std::byte*>(address_), bytes_}; }

  private:
    Mapping(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
    static std::unique_ptr<Mapping> make(void* address, std::size_t bytes) {
        if (address == MAP_FAILED) return nullptr;
        return std::unique_ptr<Mapping>(new Mapping(address, bytes));
    }

    void* address_;
    std::size_t bytes_;
};

fs::path default_cache_dir() {
    // Read before any thread of ours writes the environment; none does.
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
        std::error_code error;
        fs::create_directories(weights->dir_, error);
        if (error) {
            LOG_WARN("{}: {}; received weights are not kept", weights->dir_.string(),
                     error.message());
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
    if (!write_file(dir_ / "header", manifest.header) ||
        !write_file(dir_ / "manifest", std::as_bytes(std::span(encoded)))) {
        LOG_WARN("{}: cannot keep the model's header there", dir_.string());
    }
}

Result<std::span<const std::byte>> WireWeights::tensor(std::string_view name) {
    const auto found = index_.find(name);
    if (found == index_.end()) {
        return Error{Errc::not_found, fmt::format("the model has no tensor {}", name)};
    }
    Held& held = held_[found->second];
    if (held.mapping == nullptr) held.mapping = read_cached_tensor(found->second);
    if (held.mapping == nullptr) {
        auto fetched = fetch_tensor(found->second);
        if (!fetched.ok()) {
            held_.erase(found->second);
            return fetched.error();
        }
        held.mapping = std::move(*fetched);
    }
    ++held.uses;
    return std::span<const std::byte>(held.mapping->bytes());
}

void WireWeights::release(std::string_view name) {
    const auto found = index_.find(name);
    if (found == index_.end()) return;
    const auto held = held_.find(found->second);
    if (held != held_.end() && --held->second.uses == 0) held_.erase(held);
}

std::unique_ptr<WireWeights::Mapping> WireWeights::read_cached_tensor(std::size_t index) const {
    if (dir_.empty()) return nullptr;
    const model::TensorDigest& tensor = manifest_.tensors[index];
    const fs::path path = dir_ / fmt::format("tensor-{}", index);
    std::error_code error;
    if (fs::file_size(path, error) != tensor.bytes || error || tensor.bytes == 0) return nullptr;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return nullptr;
    auto mapping = Mapping::of_file(fd, tensor.bytes, false);
    ::close(fd);
    if (mapping == nullptr) return nullptr;
    const Status good = model::check_tensor(tensor, mapping->bytes());
    if (good.ok()) return mapping;
    LOG_WARN("{}: {}; it is fetched again", path.string(), good.error().message);
    return nullptr;
}

Result<std::unique_ptr<WireWeights::Mapping>> WireWeights::fetch_tensor(std::size_t index) {
    const model::TensorDigest& tensor = manifest_.tensors[index];
    if (tensor.bytes == 0) return base::invalid(tensor.name + " has no bytes");
    std::unique_ptr<Mapping> mapping;
    fs::path path;
    std::string temporary;
    if (!dir_.empty()) {
        path = dir_ / fmt::format("tensor-{}", index);
        temporary = temporary_name(path);
        const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        // Reserved, not only sized: a full disk is seen here and not as a signal while it is
        // written.
        if (fd >= 0 && ::posix_fallocate(fd, 0, static_cast<off_t>(tensor.bytes)) == 0) {
            mapping = Mapping::of_file(fd, tensor.bytes, true);
        }
        if (fd >= 0) ::close(fd);
        if (mapping == nullptr) {
            LOG_WARN("{}: no room to keep weights; {} is not kept", dir_.string(), tensor.name);
            ::unlink(temporary.c_str());
            temporary.clear();
        }
    }
    if (mapping == nullptr) mapping = Mapping::anonymous(tensor.bytes);
    if (mapping == nullptr) return Error{Errc::unavailable, "no memory for " + tensor.name};
    Status good = fetcher_.fetch(static_cast<std::int32_t>(index), mapping->bytes());
    if (good.ok()) good = model::check_tensor(tensor, mapping->bytes());
    if (!good.ok()) {
        if (!temporary.empty()) ::unlink(temporary.c_str());
        return good.error();
    }
    if (!temporary.empty()) {
        std::error_code error;
        fs::rename(temporary, path, error);
        if (error) LOG_WARN("{}: {}", path.string(), error.message());
    }
    report_progress(tensor.name, tensor.bytes);
    return mapping;
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
