#include "node/weight_server.h"

#include <utility>

#include <fmt/format.h>

namespace helix::node {

using core::TensorHolders;

namespace {

// Workers have eight pieces under way.
constexpr std::size_t kMostHeld = 64;
// Often enough for a worker that waits to know that it is not forgotten.
constexpr base::Duration kTellAgain = base::from_ms(5000);

}  // namespace

void WeightServer::on_manifest_request(core::WorkerId worker) {
    sends_.push_back({worker, answer_manifest(model_)});
}

void WeightServer::serve(core::WorkerId worker, const wire::ChunkRequest& request) {
    sends_.push_back({worker, answer_chunk(model_, request)});
}

void WeightServer::on_chunk_request(base::TimePoint now, core::WorkerId worker,
                                    const wire::ChunkRequest& request) {
    if (request.tensor == wire::kHeaderChunk) return serve(worker, request);
    if (request.offset == 0) {
        held_.erase(worker);
        const auto answer = holders_.ask(now, worker, request.tensor, request.failed_peer);
        held_[worker].requests.push_back(request);
        tell(now, worker, request.tensor, answer);
        return settle(now);
    }
    const auto source = holders_.ask_more(now, worker, request.tensor);
    if (!source.has_value() || *source == TensorHolders::Source::coordinator) {
        return serve(worker, request);
    }
    if (*source == TensorHolders::Source::peer) return;  // it was sent there meanwhile
    std::vector<wire::ChunkRequest>& requests = held_[worker].requests;
    if (requests.size() < kMostHeld) requests.push_back(request);
}

void WeightServer::tell(base::TimePoint now, core::WorkerId worker, std::int32_t tensor,
                        const TensorHolders::Answer& answer) {
    if (answer.source == TensorHolders::Source::wait) {
        held_[worker].told = now;
        sends_.push_back({worker, {wire::TensorHolder{tensor, {}, ""}, {}}});
        return;
    }
    const Held held = std::exchange(held_[worker], {});
    held_.erase(worker);
    if (answer.source == TensorHolders::Source::peer) {
        if (const std::optional<Peer> there = find_(answer.peer)) {
            sends_.push_back({worker, {wire::TensorHolder{tensor, there->peer, there->name}, {}}});
            return;
        }
        holders_.ask(now, worker, tensor, answer.peer);
    }
    for (const wire::ChunkRequest& request : held.requests) serve(worker, request);
}

base::Status WeightServer::on_ready(base::TimePoint now, core::WorkerId worker,
                                    const wire::TensorsReady& ready) {
    const std::size_t count = model_.manifest == nullptr ? 0 : model_.manifest->tensors.size();
    std::uint64_t bytes = 0;
    for (const std::int32_t tensor : ready.tensors) {
        const auto index = static_cast<std::size_t>(tensor);
        if (index >= count) {
            return base::invalid(fmt::format("the model has no tensor number {}", tensor));
        }
        bytes += model_.manifest->tensors[index].bytes;
    }
    switch (ready.source) {
        case wire::TensorSource::coordinator:
            bytes_.coordinator += bytes;
            break;
        case wire::TensorSource::peer:
            bytes_.peer += bytes;
            break;
        case wire::TensorSource::cache:
            bytes_.cache += bytes;
            break;
        case wire::TensorSource::earlier:
            break;
    }
    holders_.on_ready(worker, ready.tensors, ready.shared);
    settle(now);
    return base::Ok{};
}

void WeightServer::on_lost(base::TimePoint now, core::WorkerId worker) {
    held_.erase(worker);
    holders_.on_lost(worker);
    settle(now);
}

void WeightServer::on_tick(base::TimePoint now) {
    settle(now);
    for (auto& [worker, held] : held_) {
        if (now - held.told < kTellAgain) continue;
        held.told = now;
        const std::int32_t tensor = held.requests.front().tensor;
        sends_.push_back({worker, {wire::TensorHolder{tensor, {}, ""}, {}}});
    }
}

void WeightServer::settle(base::TimePoint now) {
    for (const TensorHolders::Told& told : holders_.settle(now)) {
        tell(now, told.worker, told.tensor, told.answer);
    }
}

std::vector<WeightServer::Send> WeightServer::take_sends() {
    return std::exchange(sends_, {});
}

}  // namespace helix::node
