#include "node/weight_fetcher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

constexpr std::uint64_t kPieceBytes = 1U << 20U;
constexpr std::uint64_t kUnderWayBytes = 8 * kPieceBytes;
// A coordinator that names one bad holder after the other for one tensor makes no sense.
constexpr int kMostTries = 8;

}  // namespace

Status WeightFetcher::wait_done(std::unique_lock<std::mutex>& lock) {
    while (state_ == State::waiting && !cancelled_) {
        const std::uint64_t seen = heard_;
        const std::chrono::milliseconds patience =
            holder_.has_value() ? patience_.peer : patience_.coordinator;
        const bool woken = changed_.wait_for(lock, patience, [&] {
            return state_ != State::waiting || cancelled_ || heard_ != seen;
        });
        if (woken) continue;
        if (!holder_.has_value()) {
            return Error{Errc::unavailable, "the coordinator has sent no weights for a minute"};
        }
        fail(State::peer_failed, fmt::format("nothing came for {} ms", patience.count()));
    }
    if (cancelled_) return Error{Errc::unavailable, error_};
    if (state_ != State::done) return Error{Errc::unavailable, error_};
    return Ok{};
}

Result<wire::Manifest> WeightFetcher::manifest() {
    std::unique_lock lock(mutex_);
    state_ = State::waiting;
    tensor_ = wire::kHeaderChunk;  // a Chunk of it says why there is no manifest
    holder_.reset();
    to_ = {};
    requests_.emplace_back(wire::ManifestRequest{model_});
    loop_.wake();
    TRY_VOID(wait_done(lock));
    state_ = State::idle;
    return std::exchange(manifest_, {});
}

void WeightFetcher::start(std::int32_t index, const base::Hash128& hash, std::span<std::byte> to,
                          std::optional<core::WorkerId> failed) {
    state_ = State::waiting;
    tensor_ = index;
    hash_ = hash;
    to_ = to;
    asked_ = 0;
    received_ = 0;
    failed_ = failed;
    holder_.reset();
    request_more();
}

Status WeightFetcher::fetch_header(std::span<std::byte> to) {
    std::unique_lock lock(mutex_);
    if (to.empty()) return Ok{};
    start(wire::kHeaderChunk, {}, to, {});
    const Status done = wait_done(lock);
    to_ = {};
    state_ = State::idle;
    return done;
}

Result<std::string> WeightFetcher::fetch(std::int32_t index, const model::TensorDigest& tensor,
                                         std::span<std::byte> to) {
    std::unique_lock lock(mutex_);
    std::optional<core::WorkerId> failed;
    for (int tries = 0; tries < kMostTries; ++tries) {
        start(index, tensor.hash, to, failed);
        Status done = wait_done(lock);
        to_ = {};
        const State ended = std::exchange(state_, State::idle);
        const std::optional<wire::TensorHolder> holder = std::exchange(holder_, {});
        if (done.ok()) {
            lock.unlock();
            done = model::check_tensor(tensor, to);
            lock.lock();
            if (done.ok()) return holder.has_value() ? holder->name : "";
        } else if (ended != State::peer_failed || cancelled_) {
            return done.error();
        }
        if (!holder.has_value()) return done.error();
        LOG_WARN("worker \"{}\" was asked for {} and did not give it: {}; it is asked for no more",
                 holder->name, tensor.name, done.error().message);
        failed = holder->peer->worker;
        shunned_.insert(*failed);
    }
    return Error{Errc::unavailable,
                 fmt::format("{}: {} workers did not give it", tensor.name, kMostTries)};
}

void WeightFetcher::request_more() {
    while (asked_ < to_.size() && asked_ - received_ < kUnderWayBytes) {
        const auto length =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(kPieceBytes, to_.size() - asked_));
        if (holder_.has_value()) {
            peer_requests_.push_back({*holder_->peer, {hash_, asked_, length}});
        } else {
            requests_.emplace_back(wire::ChunkRequest{model_, tensor_, asked_, length, failed_});
        }
        asked_ += length;
    }
    loop_.wake();
}

void WeightFetcher::tell_ready(std::vector<std::int32_t> tensors, wire::TensorSource source,
                               bool shared) {
    const std::lock_guard lock(mutex_);
    requests_.emplace_back(wire::TensorsReady{model_, std::move(tensors), source, shared});
    loop_.wake();
}

std::vector<wire::Message> WeightFetcher::take_requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
}

std::vector<WeightFetcher::PeerRequest> WeightFetcher::take_peer_requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(peer_requests_, {});
}

void WeightFetcher::on_manifest(wire::Manifest manifest) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::waiting) return;
    manifest_ = std::move(manifest);
    state_ = State::done;
    changed_.notify_all();
}

void WeightFetcher::on_chunk(const wire::Chunk& chunk, const net::Frame& bytes) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::waiting || chunk.tensor != tensor_ || holder_.has_value())
        return;  // it answers a fetch that was given up
    if (!chunk.error.empty()) return fail(State::failed, chunk.error);
    take_piece(chunk.offset, chunk.length, bytes, State::failed);
}

void WeightFetcher::on_holder(wire::TensorHolder holder) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::waiting || holder.tensor != tensor_ || holder_.has_value()) return;
    ++heard_;
    changed_.notify_all();
    if (!holder.peer.has_value()) return;
    const bool shunned = shunned_.contains(holder.peer->worker);
    holder_ = std::move(holder);
    if (shunned) return fail(State::peer_failed, "it has failed before");
    if (received_ > 0) return fail(State::peer_failed, "it was named too late");
    asked_ = 0;
    request_more();
}

bool WeightFetcher::is_from(core::WorkerId peer) const {
    return state_ == State::waiting && holder_.has_value() && holder_->peer->worker == peer;
}

void WeightFetcher::on_piece(core::WorkerId from, const wire::TensorPiece& piece,
                             const net::Frame& bytes) {
    const std::lock_guard lock(mutex_);
    if (!is_from(from) || piece.hash != hash_) return;
    if (!piece.error.empty()) return fail(State::peer_failed, piece.error);
    take_piece(piece.offset, piece.length, bytes, State::peer_failed);
}

void WeightFetcher::on_peer_gone(core::WorkerId peer, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (is_from(peer)) fail(State::peer_failed, reason);
}

void WeightFetcher::take_piece(std::uint64_t offset, std::uint32_t length, const net::Frame& bytes,
                               State otherwise) {
    if (offset != received_ || length > to_.size() - received_ || length == 0) {
        return fail(otherwise,
                    fmt::format("a piece of weights at {} of {} bytes, expected one at {} of {}",
                                offset, length, received_, to_.size()));
    }
    std::memcpy(to_.data() + received_, bytes.bytes.data(), length);
    received_ += length;
    ++heard_;
    if (received_ == to_.size()) state_ = State::done;
    request_more();
    changed_.notify_all();
}

void WeightFetcher::fail(State state, std::string error) {
    state_ = state;
    error_ = std::move(error);
    changed_.notify_all();
}

void WeightFetcher::begin(core::ModelId model) {
    const std::lock_guard lock(mutex_);
    model_ = model;
    cancelled_ = false;
    state_ = State::idle;
    requests_.clear();
    peer_requests_.clear();
    shunned_.clear();
}

void WeightFetcher::cancel(std::string reason) {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    error_ = std::move(reason);
    changed_.notify_all();
}

}  // namespace helix::node
