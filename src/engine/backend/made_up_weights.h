#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/weight_source.h"

namespace helix::engine {

// Tensors of a model's shape whose every byte is the same: a harmless number in each format (f32
// 0.011, f16 1.06, bf16 0.011, small quants), so that no arithmetic meets NaNs or denormals. What
// a device's speed is measured with before there are weights.
class MadeUpWeights final : public model::WeightSource {
  public:
    explicit MadeUpWeights(std::shared_ptr<model::WeightSource> shape) : shape_(std::move(shape)) {}

    const model::GgufFile& file() const override { return shape_->file(); }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;

  private:
    std::shared_ptr<model::WeightSource> shape_;
    std::map<std::string, std::vector<std::byte>> made_;
};

}  // namespace helix::engine
