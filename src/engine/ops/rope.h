#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/ops/memory.h"
#include "model/model_config.h"

namespace helix::engine::ops {

// The heads that one projection of a row consists of.
struct ProjectedHeads {
    Buffer& x;  // [rows, n_heads, head_dim]
    int n_heads = 0;
    const Buffer* bias = nullptr;  // [n_heads, head_dim]; null: none
    const Buffer* norm =
        nullptr;  // [head_dim], the weights of an RMS norm of each head; null: none
    bool rotate = true;
};

// Rotary position embedding, and what comes before it: for each head of each row, adds the bias,
// norms the head, and rotates its first rope_dim elements; pair i by angle i of the row.
struct Rope {
    std::span<const ProjectedHeads> heads;
    const Buffer& angles;  // [rows, rope_dim], as RopeTable makes them
    std::int64_t rows = 0;
    int head_dim = 0;
    int rope_dim = 0;
    model::RopePairs pairs = model::RopePairs::adjacent;
    float epsilon = 0;  // of the norms
};

// The angles of positions. Computed in double, by the host, so that all devices rotate by the same
// angles.
class RopeTable {
  public:
    enum class Layers {
        usual,
        windowed,     // of the layers with a window, where the model's rotate by another base
        temperature,  // which do not rotate, but multiply queries by a factor of the position
    };
    explicit RopeTable(const model::ModelConfig& config, Layers layers = Layers::usual);
    // Of one position: to[2i], to[2i + 1] = cos, sin of
    //     position * rope_scale * rope_base^(-2i / rope_dim) / rope_factors[i]
    // times rope_magnitude. With a temperature: of 0, times it, see ModelConfig. to has rope_dim()
    // elements.
    void fill(std::int32_t position, std::span<float> to) const;
    std::int64_t rope_dim() const { return 2 * std::ssize(pairs_); }

  private:
    struct Pair {
        double turn;    // rope_base^(-2i / rope_dim)
        double factor;  // 1: none
    };
    double magnitude_of(std::int32_t position) const;

    double scale_;
    double magnitude_;
    double temperature_length_ = 0;  // 0: there is no temperature
    double temperature_scale_ = 0;
    std::vector<Pair> pairs_;
};

}  // namespace helix::engine::ops
