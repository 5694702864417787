#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"

namespace helix::spec {

// A rising curve through measured points: straight lines between them, the last one continued
// beyond.
class TimeCurve {
  public:
    // x is strictly rising and has at least two points.
    TimeCurve(std::vector<double> x, std::vector<double> y);
    double at(double x) const;
    double measured_up_to() const { return x_.back(); }
    const std::vector<double>& x() const { return x_; }
    const std::vector<double>& y() const { return y_; }

  private:
    std::vector<double> x_;
    std::vector<double> y_;
};

// Tokens of KV in each layer that a machine is taken to have room for where it holds more layers
// than its table covers.
inline constexpr std::int64_t kLeastKvBeyondTables = 4096;

// Measured tables of one model on machine types, as data/paper/profiles has them: seconds of one
// layer against the prompt tokens of a batch and against its number of decoding sequences, and what
// each type can hold.
class ProfileTables final : public CostModel {
  public:
    struct HeldLayers {                  // of a machine that holds j layers
        double kv_tokens_per_layer = 0;  // context whose KV fits
        double prompt_max_tokens = 0;    // tokens of the largest batch of prompts
        double decode_max_tokens = 0;    // sequences of the largest batch of decodes
    };
    struct Machine {
        TimeCurve prompt_s;
        TimeCurve decode_s;
        std::int32_t max_layers = 0;
        std::vector<HeldLayers> held;  // [j], 0 <= j <= max_layers

        // Tokens x layers whose KV a machine with so many layers (1 or more) can keep. Beyond the
        // table each layer more takes as much as the last one in it did, but kLeastKvBeyondTables
        // stay.
        std::int64_t kv_token_layers(std::int32_t layers) const;
    };

    // Reads directory/models.json, <model>_limits.csv and <model>_<type>_{prompt,decode}_time.csv
    // of every type in the limits.
    static base::Result<ProfileTables> read(const std::string& directory, const std::string& model);

    // The node's type must be known; check() says whether it is.
    double layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override;
    base::Status check(const ClusterSpec& cluster) const;

    // KV bytes, FLOPs and context are not in the files; they are those of the known model of this
    // name (model_shape.h), else 0.
    const ModelSpec& model() const { return model_; }
    const std::map<std::string, Machine>& machines() const { return machines_; }

  private:
    ModelSpec model_;
    std::map<std::string, Machine> machines_;
};

// T_j of each machine type, [j] from 0 (T_0 = 0), for one mix of machines: by the published rule
// T_j depends on the whole mix. Reads directory/<model>_node_throughput.csv.
using TypeThroughput = std::map<std::string, std::vector<double>>;
base::Result<TypeThroughput> read_node_throughput(const std::string& directory,
                                                  const std::string& model, const std::string& mix);

}  // namespace helix::spec
