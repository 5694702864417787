#include "node/wire_weights.h"

#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "node/clock.h"
#include "node/wire_manifest.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

constexpr base::Duration kProgressEvery = base::from_ms(2000);

}  // namespace

Result<std::unique_ptr<WireWeights>> WireWeights::open(KeptModel& through,
                                                       const base::Hash128& model_hash,
                                                       const std::filesystem::path& cache_dir,
                                                       const CacheLimit& limit) {
    std::unique_ptr<WireWeights> weights(new WireWeights(through, TensorCache(cache_dir), limit));
    Result<model::ModelManifest> manifest = weights->cache_.read_manifest(model_hash);
    if (!manifest.ok()) {
        manifest = weights->fetch_manifest(model_hash);
        if (!manifest.ok()) return manifest.error();
    }
    weights->manifest_ = std::move(*manifest);
    TRY(weights->file_, model::open_manifest(weights->manifest_));
    for (std::size_t i = 0; i < weights->manifest_.tensors.size(); ++i) {
        weights->index_[weights->manifest_.tensors[i].name] = i;
    }
    through.shared.use(weights->cache_);
    weights->use_model();
    weights->offer_cached();
    weights->last_progress_ = now();
    return weights;
}

WireWeights::WireWeights(KeptModel& through, const TensorCache& cache, const CacheLimit& limit)
    : through_(through), cache_(cache), room_(cache, limit) {}

WireWeights::~WireWeights() = default;

Result<model::ModelManifest> WireWeights::fetch_manifest(const base::Hash128& hash) {
    TRY(model::ModelManifest fetched, node::fetch_manifest(through_.fetcher, hash));
    if (!cache_.present()) return fetched;
    Status kept = room_.make(fetched.header.size());
    if (kept.ok()) kept = cache_.keep_manifest(fetched);
    if (!kept.ok()) LOG_WARN("{}; the model's header is not kept", kept.error().message);
    return fetched;
}

// No process removes what this one has in the cache.
void WireWeights::use_model() {
    if (!cache_.present()) return;
    auto used = cache_.use(manifest_.model_hash);
    if (used.ok()) {
        in_use_ = std::move(*used);
    } else {
        LOG_WARN("{}; others may remove what it has in the cache", used.error().message);
    }
}

// Says what lies in the cache, by its size, without reading it: who gets it from here checks it.
// Also says whether it is worth waiting for what this worker gets.
void WireWeights::offer_cached() {
    std::vector<std::int32_t> there;
    for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
        if (!cache_.has(manifest_.tensors[i])) continue;
        there.push_back(static_cast<std::int32_t>(i));
        through_.shared.add(there.back(), manifest_.tensors[i]);
    }
    through_.fetcher.tell_ready(std::move(there), wire::TensorSource::earlier, cache_.present());
}

Result<std::span<const std::byte>> WireWeights::tensor(std::string_view name) {
    const auto found = index_.find(name);
    if (found == index_.end()) {
        return Error{Errc::not_found, fmt::format("the model has no tensor {}", name)};
    }
    const std::size_t index = found->second;
    return held_.use(name, [&] { return read_tensor(index); });
}

void WireWeights::release(std::string_view name) {
    held_.release(name);
}

// Reads the tensor from the cache. What is not there, or is not what it was, is fetched.
Result<std::vector<std::byte>> WireWeights::read_tensor(std::size_t index) {
    auto cached = cache_.read(manifest_.tensors[index]);
    if (cached.ok()) {
        on_ready(index, wire::TensorSource::cache, "the cache", true);
        return cached;
    }
    if (cached.error().code != Errc::not_found) {
        LOG_WARN("{}; it is fetched again", cached.error().message);
    }
    return fetch_tensor(index);
}

Result<std::vector<std::byte>> WireWeights::fetch_tensor(std::size_t index) {
    const model::TensorDigest& tensor = manifest_.tensors[index];
    if (tensor.bytes == 0) return base::invalid(tensor.name + " has no bytes");
    TRY(auto bytes, base::make_bytes(tensor.bytes, tensor.name));
    TRY(const std::string peer,
        through_.fetcher.fetch(static_cast<std::int32_t>(index), tensor, bytes));
    const bool is_kept = cache_.present() && keep(tensor, bytes);
    const auto source = peer.empty() ? wire::TensorSource::coordinator : wire::TensorSource::peer;
    on_ready(index, source, peer.empty() ? "the coordinator" : peer, is_kept);
    report_progress(tensor.name, tensor.bytes);
    return bytes;
}

bool WireWeights::keep(const model::TensorDigest& tensor, std::span<const std::byte> bytes) {
    Status kept = room_.make(bytes.size());
    if (kept.ok()) {
        kept = cache_.keep(tensor.hash, bytes);
    } else if (kept.error().code == Errc::too_large && std::exchange(said_full_, true)) {
        return false;  // it is said once
    }
    if (!kept.ok()) LOG_WARN("{}; {} is not kept", kept.error().message, tensor.name);
    return kept.ok();
}

void WireWeights::on_ready(std::size_t index, wire::TensorSource source, const std::string& from,
                           bool kept) {
    const model::TensorDigest& tensor = manifest_.tensors[index];
    const auto number = static_cast<std::int32_t>(index);
    through_.tally.add(from, tensor.bytes);
    if (kept) through_.shared.add(number, tensor);
    through_.fetcher.tell_ready({number}, source, kept);
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
