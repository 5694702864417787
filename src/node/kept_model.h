#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/backend/backend.h"
#include "model/counted_weights.h"
#include "node/shared_tensors.h"
#include "node/weight_fetcher.h"
#include "node/weight_tally.h"
#include "wire/messages.h"

namespace helix::node {

// What a worker keeps when a session ends: the model's weights, as its engine holds them, so that
// the next session has the same layers at once, whether the same coordinator comes back or one that
// was restarted. KV and requests are not kept. Used by one session at a time.
class KeptModel {
  public:
    explicit KeptModel(const net::Wakeup& loop) : fetcher(loop) {}

    // A session begins. Weights of another model than this one, or for other pages, are given back.
    void begin(const wire::Welcome& welcome);
    // The device was lost: what it held is gone, and it may offer another amount of memory.
    void forget_backend();
    // The session ends, and its engine thread is gone: the KV memory is given back.
    void end();

    WeightFetcher fetcher;
    SharedTensors shared;  // of the model, with other workers
    WeightTally tally;     // the engine thread's
    // Used by the engine thread while there is one; null before that needed them.
    std::shared_ptr<model::CountedWeights> weights;
    std::shared_ptr<engine::Backend> backend;
    // What the device offered before the weights took their part; 0 = not asked yet.
    std::int64_t offered_memory_bytes = 0;

  private:
    std::string of_;  // which model, encoded
};

}  // namespace helix::node
