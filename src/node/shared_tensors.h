#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "net/zmq_frame.h"
#include "node/tensor_cache.h"
#include "wire/messages.h"

namespace helix::node {

// The tensors of the served model that this worker has checked and that lie in its cache, for other
// workers that ask for them by their content. The engine's thread says what there is; the worker's
// loop answers, piece by piece, and reads no more than is taken.
class SharedTensors {
  public:
    // ---- any thread
    // Another model: nothing is shared until it is added.
    void clear();
    void use(const TensorCache& cache);
    void add(std::int32_t index, const model::TensorDigest& tensor);
    std::vector<std::int32_t> indices() const;  // in the model's manifest

    // ---- the loop's thread
    // Too many requests that wait are refused with the next answers.
    void ask(std::string connection, const wire::TensorRequest& request);
    struct Answer {
        std::string connection;
        wire::TensorPiece piece;
        net::Frame data;  // the raw frame
    };
    // What is to be sent now: one piece, so that the loop never waits long for the disk, and what
    // is refused.
    std::vector<Answer> take_answers();
    // Whether more can be answered at once.
    bool is_behind() const;

    static constexpr std::size_t kMostWaiting = 256;
    // Of pieces that were read and did not leave yet.
    static constexpr std::int64_t kMostUnderWayBytes = std::int64_t{32} << 20;

  private:
    struct Tensor {
        std::int32_t index = 0;
        std::uint64_t bytes = 0;
    };
    using Key = std::pair<std::uint64_t, std::uint64_t>;
    Answer answer(std::string connection, const wire::TensorRequest& request);

    mutable std::mutex mutex_;
    TensorCache cache_;
    std::map<Key, Tensor> tensors_;  // by the two halves of their hash
    // The rest is the loop's, but for the count, which goes down where a frame ends.
    std::deque<std::pair<std::string, wire::TensorRequest>> waiting_;
    std::vector<Answer> refused_;
    std::shared_ptr<std::atomic<std::int64_t>> under_way_bytes_ =
        std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace helix::node
