#pragma once

#include <memory>
#include <string>
#include <utility>

#include "model/weight_source.h"

namespace helix::model {

// Weights from a mapped file.
class LocalWeights final : public WeightSource {
  public:
    static base::Result<std::unique_ptr<LocalWeights>> open(const std::string& path);
    // file has data.
    explicit LocalWeights(std::shared_ptr<const GgufFile> file);

    const GgufFile& file() const override { return *file_; }
    // not_found when the file has no such tensor.
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;
    // The bytes stay valid, also for others who use them.
    void release(std::string_view name) override;

  private:
    std::shared_ptr<const GgufFile> file_;
};

}  // namespace helix::model
