#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/held_tensors.h"
#include "model/weight_source.h"

namespace helix::model {

// Weights from a file, which are read when they are asked for and kept while they are in use. A
// file that is cut meanwhile gives an error that names it. For any thread.
class LocalWeights final : public WeightSource {
  public:
    static base::Result<std::unique_ptr<LocalWeights>> open(const std::string& path);
    // file must have data.
    explicit LocalWeights(std::shared_ptr<const GgufFile> file);

    const GgufFile& file() const override { return *file_; }
    // Error not_found when the file has no such tensor.
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;
    std::optional<base::Status> read_part(std::string_view name, std::uint64_t offset,
                                          std::span<std::byte> to) override;
    void release(std::string_view name) override;
    base::Result<std::vector<base::FileStamp>> stamps() const override;

  private:
    base::Result<const TensorInfo*> find(std::string_view name) const;

    std::shared_ptr<const GgufFile> file_;
    HeldTensors held_;
};

}  // namespace helix::model
