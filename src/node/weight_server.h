#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/protocol/cluster_view.h"
#include "core/weights/tensor_holders.h"
#include "node/served_model.h"

namespace helix::node {

// The coordinator's side of weights: answers workers that ask for parts of the model, or sends them
// to the workers that core::TensorHolders names. Without sockets: what is to be sent is taken from
// it.
class WeightServer {
  public:
    struct Send {
        core::WorkerId to;
        WeightAnswer answer;
    };
    // A worker that is here, as another one has to know it.
    struct Peer {
        core::Peer peer;
        std::string name;
    };
    using FindPeer = std::function<std::optional<Peer>(core::WorkerId)>;
    // model must outlive this.
    WeightServer(const ServedModel& model, FindPeer find) : model_(model), find_(std::move(find)) {}

    void on_manifest_request(core::WorkerId worker);
    void on_chunk_request(base::TimePoint now, core::WorkerId worker,
                          const wire::ChunkRequest& request);
    // Error invalid: the model has no such tensors.
    base::Status on_ready(base::TimePoint now, core::WorkerId worker,
                          const wire::TensorsReady& ready);
    void on_links(std::span<const spec::LinkSpec> links) { holders_.on_links(links); }
    void on_lost(base::TimePoint now, core::WorkerId worker);
    void on_tick(base::TimePoint now);

    std::vector<Send> take_sends();
    const core::WeightBytes& bytes() const { return bytes_; }

  private:
    struct Held {
        std::vector<wire::ChunkRequest> requests;
        base::TimePoint told;  // that it has to wait
    };
    void tell(base::TimePoint now, core::WorkerId worker, std::int32_t tensor,
              const core::TensorHolders::Answer& answer);
    void serve(core::WorkerId worker, const wire::ChunkRequest& request);
    void settle(base::TimePoint now);

    const ServedModel& model_;
    FindPeer find_;
    core::TensorHolders holders_;
    std::map<core::WorkerId, Held> held_;  // of workers that wait
    std::vector<Send> sends_;
    core::WeightBytes bytes_;
};

}  // namespace helix::node
