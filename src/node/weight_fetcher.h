#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "net/zmq_frame.h"
#include "net/zmq_transport.h"
#include "wire/messages.h"

namespace helix::node {

// Brings pieces of a served model's file over the wire. The engine's thread asks and waits; the
// worker's loop sends the requests and hands in the answers. A few pieces are under way at a time,
// so that neither side holds more than those.
class WeightFetcher {
  public:
    explicit WeightFetcher(const net::Wakeup& loop) : loop_(loop) {}

    // ---- engine's thread
    base::Result<wire::Manifest> manifest();
    // Fills to with tensors[tensor] (kHeaderChunk: the header), from its first byte.
    base::Status fetch(std::int32_t tensor, std::span<std::byte> to);

    // ---- loop's thread
    std::vector<wire::Message> take_requests();
    void on_manifest(wire::Manifest manifest);
    void on_chunk(const wire::Chunk& chunk, const net::Frame& bytes);
    // Ends the present and all later waits with this error, until begin().
    void cancel(std::string reason);
    // Begins anew after cancel(), for the model that the coordinator calls so; nobody may be
    // waiting.
    void begin(core::ModelId model);

  private:
    enum class State { idle, waiting, done, failed };

    void request_more();
    base::Status wait_done(std::unique_lock<std::mutex>& lock);

    const net::Wakeup& loop_;
    std::mutex mutex_;
    std::condition_variable changed_;
    core::ModelId model_;
    std::vector<wire::Message> requests_;
    wire::Manifest manifest_;
    State state_ = State::idle;
    std::string error_;
    bool cancelled_ = false;
    std::int32_t tensor_ = 0;
    std::span<std::byte> to_;
    std::uint64_t asked_ = 0;
    std::uint64_t received_ = 0;
};

}  // namespace helix::node
