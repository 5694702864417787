#include "node/weight_fetcher.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

constexpr std::uint64_t kPieceBytes = 1U << 20U;
constexpr std::uint64_t kUnderWayBytes = 8 * kPieceBytes;
constexpr std::chrono::seconds kStalled(60);  // without a piece

}  // namespace

Status WeightFetcher::wait_done(std::unique_lock<std::mutex>& lock) {
    std::uint64_t seen = received_;
    while (state_ == State::waiting && !cancelled_) {
        const bool woken = changed_.wait_for(lock, kStalled, [&] {
            return state_ != State::waiting || cancelled_ || received_ != seen;
        });
        if (!woken)
            return Error{Errc::unavailable, "the coordinator has sent no weights for a minute"};
        seen = received_;
    }
    if (cancelled_ || state_ == State::failed) return Error{Errc::unavailable, error_};
    return Ok{};
}

Result<wire::Manifest> WeightFetcher::manifest() {
    std::unique_lock lock(mutex_);
    state_ = State::waiting;
    requests_.emplace_back(wire::ManifestRequest{model_});
    loop_.wake();
    TRY_VOID(wait_done(lock));
    state_ = State::idle;
    return std::exchange(manifest_, {});
}

Status WeightFetcher::fetch(std::int32_t tensor, std::span<std::byte> to) {
    std::unique_lock lock(mutex_);
    if (to.empty()) return Ok{};
    state_ = State::waiting;
    tensor_ = tensor;
    to_ = to;
    asked_ = 0;
    received_ = 0;
    request_more();
    const Status done = wait_done(lock);
    to_ = {};
    state_ = State::idle;
    return done;
}

void WeightFetcher::request_more() {
    while (asked_ < to_.size() && asked_ - received_ < kUnderWayBytes) {
        const std::uint64_t length = std::min<std::uint64_t>(kPieceBytes, to_.size() - asked_);
        requests_.emplace_back(
            wire::ChunkRequest{model_, tensor_, asked_, static_cast<std::uint32_t>(length)});
        asked_ += length;
    }
    loop_.wake();
}

std::vector<wire::Message> WeightFetcher::take_requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
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
    if (state_ != State::waiting || chunk.tensor != tensor_)
        return;  // it answers a fetch that was given up
    if (!chunk.error.empty()) {
        error_ = chunk.error;
        state_ = State::failed;
    } else if (chunk.offset != received_ || chunk.length > to_.size() - received_ ||
               chunk.length == 0) {
        error_ = fmt::format("a piece of weights at {} of {} bytes, expected one at {} of {}",
                             chunk.offset, chunk.length, received_, to_.size());
        state_ = State::failed;
    } else {
        std::memcpy(to_.data() + received_, bytes.bytes.data(), chunk.length);
        received_ += chunk.length;
        if (received_ == to_.size()) state_ = State::done;
        request_more();
    }
    changed_.notify_all();
}

void WeightFetcher::begin(core::ModelId model) {
    const std::lock_guard lock(mutex_);
    model_ = model;
    cancelled_ = false;
    state_ = State::idle;
    requests_.clear();
}

void WeightFetcher::cancel(std::string reason) {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    error_ = std::move(reason);
    changed_.notify_all();
}

}  // namespace helix::node
