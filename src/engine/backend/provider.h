#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/backend/backend.h"
#include "engine/backend/token_filter.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "spec/model_spec.h"

namespace helix::engine {

// A model, and what a worker may use of its device for it.
struct BackendRequest {
    spec::ModelSpec model;
    std::int32_t hidden_size = 0;
    std::int32_t vocab_size = 0;
    std::int32_t block_size = 0;    // tokens of a KV page
    std::string kv_type;            // of the KV pages, like "f16"; the spec counts with it
    std::int64_t memory_bytes = 0;  // for weights and KV pages
    std::int64_t swap_bytes = 0;    // of host memory besides, for KV pages that are swapped out
    std::int32_t threads = 0;
    // The model's weights; may block for a transfer of the header.
    std::function<base::Result<std::shared_ptr<model::WeightSource>>()> weights;
    // What requests with a grammar are drawn with; may be empty, and they are errors then.
    std::function<std::shared_ptr<TokenFilter>(std::shared_ptr<model::WeightSource>)> filter;
};

struct DeviceMemory {
    std::int64_t free_bytes = 0;  // now
    std::string bound;            // what says so, like "the machine"
    // That a worker should take for weights and KV pages, unless it is told how much.
    std::int64_t offered_bytes = 0;
    bool of_host = true;  // it is this machine's, which all such devices share
};

// Seconds of one layer.
struct SelfProfile {
    double decode_s_per_layer = 0;         // one sequence
    double decode_batch_s_per_layer = 0;   // eight sequences
    double prefill_s_per_token_layer = 0;  // of a prompt
};

// A kind of device ("cpu", "modelled"): what it has, how fast it is, and the backend that runs a
// model on it. make() and profile() are called on the engine's thread.
class BackendProvider {
  public:
    virtual ~BackendProvider() = default;
    virtual std::string name() const = 0;
    // Tensor parallel, each with threads of its own.
    virtual std::int32_t ranks() const { return 1; }
    // What computes, where it is not this machine's cores: unique on the machine. Like a UUID.
    virtual std::string processors() const { return ""; }
    // The part of what computes that a backend with so many threads takes, 0 as in BackendRequest:
    // above 0, at most 1.
    virtual double core_share(std::int32_t /*threads*/) const { return 1; }
    virtual DeviceMemory memory() const = 0;
    // Whether a device that was lost can be used again: it is opened and proves its arithmetic.
    virtual base::Status prove() const { return base::Ok{}; }
    // invalid: the model cannot be run with so many threads; says why.
    virtual base::Status check(const model::ModelConfig& config, std::int32_t threads) const = 0;
    virtual base::Result<std::unique_ptr<Backend>> make(const BackendRequest& request) = 0;
    // How fast the device is with this model; under a second.
    virtual base::Result<SelfProfile> profile(const BackendRequest& request) = 0;
};

// What the options of a worker say of its backend; each kind reads those that concern it, and its
// errors name the option.
struct BackendOptions {
    int ranks = 1;              // --tp
    std::string cpus = {};      // --cpus: a list of cores to pin threads to; "" = not pinned
    std::string type = {};      // --type: of machine, for modelled
    std::string profiles = {};  // --profiles: folder of measured tables
    std::string profile = {};   // --profile: model of the tables
    double time_scale = 1;      // --time-scale
    // Of vulkan: the index or UUID of each rank's device; empty = the first GPU.
    std::vector<std::string> devices = {};
};

// The memory of this machine, of which four fifths are offered.
DeviceMemory host_memory();

}  // namespace helix::engine
