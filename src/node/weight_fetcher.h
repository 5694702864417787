#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/manifest.h"
#include "net/zmq_frame.h"
#include "net/zmq_transport.h"
#include "wire/messages.h"

namespace helix::node {

// Brings pieces of a served model's file over the wire: from the coordinator, or from the worker
// that it names instead. The engine's thread asks and waits; the worker's loop sends the requests
// and hands in the answers. A few pieces are under way at a time, so that no side holds more than
// those.
class WeightFetcher {
  public:
    // How long there may be no word from who is asked.
    struct Patience {
        std::chrono::milliseconds coordinator{60'000};
        std::chrono::milliseconds peer{3'000};
    };
    explicit WeightFetcher(const net::Wakeup& loop) : WeightFetcher(loop, Patience()) {}
    WeightFetcher(const net::Wakeup& loop, Patience patience) : loop_(loop), patience_(patience) {}

    // ---- engine's thread
    base::Result<wire::Manifest> manifest();
    // Fills to with the file's header, from its first byte.
    base::Status fetch_header(std::span<std::byte> to);
    // Fills to with tensors[index], whose content is then checked. A worker that does not give what
    // it should is not asked again for this model, and the coordinator gives it. Returns the name
    // of the worker that it came from; "" = from the coordinator.
    base::Result<std::string> fetch(std::int32_t index, const model::TensorDigest& tensor,
                                    std::span<std::byte> to);
    // Says what there is, before anything that is asked for later.
    void tell_ready(std::vector<std::int32_t> tensors, wire::TensorSource source, bool shared);

    // ---- loop's thread
    std::vector<wire::Message> take_requests();  // to the coordinator
    struct PeerRequest {
        core::Peer peer;
        wire::TensorRequest request;
    };
    std::vector<PeerRequest> take_peer_requests();
    void on_manifest(wire::Manifest manifest);
    void on_chunk(const wire::Chunk& chunk, const net::Frame& bytes);
    // The peer's endpoint can be reached from here.
    void on_holder(wire::TensorHolder holder);
    void on_piece(core::WorkerId from, const wire::TensorPiece& piece, const net::Frame& bytes);
    void on_peer_gone(core::WorkerId peer, const std::string& reason);
    // Ends the present and all later waits with this error, until begin().
    void cancel(std::string reason);
    // Begins anew after cancel(), for the model that the coordinator calls so; nobody may be
    // waiting.
    void begin(core::ModelId model);

  private:
    enum class State { idle, waiting, done, failed, peer_failed };

    void start(std::int32_t index, const base::Hash128& hash, std::span<std::byte> to,
               std::optional<core::WorkerId> failed);
    void request_more();
    void take_piece(std::uint64_t offset, std::uint32_t length, const net::Frame& bytes,
                    State otherwise);
    void fail(State state, std::string error);
    bool is_from(core::WorkerId peer) const;
    base::Status wait_done(std::unique_lock<std::mutex>& lock);

    const net::Wakeup& loop_;
    const Patience patience_;
    std::mutex mutex_;
    std::condition_variable changed_;
    core::ModelId model_;
    std::vector<wire::Message> requests_;
    std::vector<PeerRequest> peer_requests_;
    wire::Manifest manifest_;
    State state_ = State::idle;
    std::string error_;
    bool cancelled_ = false;
    std::uint64_t heard_ = 0;  // rises with every word from who is asked
    // ---- of the present fetch
    std::int32_t tensor_ = 0;
    base::Hash128 hash_;
    std::span<std::byte> to_;
    std::uint64_t asked_ = 0;
    std::uint64_t received_ = 0;
    std::optional<core::WorkerId> failed_;      // who was asked before and did not give it
    std::optional<wire::TensorHolder> holder_;  // who is asked; nothing: the coordinator
    std::set<core::WorkerId> shunned_;  // did not give what they should, and are not asked again
};

}  // namespace helix::node
