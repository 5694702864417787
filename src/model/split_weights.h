#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/held_tensors.h"
#include "model/weight_source.h"

namespace helix::model {

// A GGUF model in several files, NAME-00001-of-0000N.gguf to NAME-0000N-of-0000N.gguf, each with a
// part of the tensors; the first has the metadata. It is shown as the one file that it was split
// from, with the tensors in the order of the parts: file() is its header. Any thread.
class SplitWeights final : public WeightSource {
  public:
    // True for a file that says it is one of several.
    static bool is_part(const GgufFile& file);
    // first: the first part, opened by its path; the others lie beside it. Errors name the part:
    // it is missing, or is part of another model.
    static base::Result<std::unique_ptr<SplitWeights>> open(std::shared_ptr<const GgufFile> first);

    const GgufFile& file() const override { return *file_; }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;
    std::optional<base::Status> read_part(std::string_view name, std::uint64_t offset,
                                          std::span<std::byte> to) override;
    void release(std::string_view name) override;
    base::Result<std::vector<base::FileStamp>> stamps() const override;

  private:
    struct Place {
        std::shared_ptr<const GgufFile> part;
        const TensorInfo* info = nullptr;
    };
    SplitWeights() = default;
    base::Status open_parts(std::shared_ptr<const GgufFile> first);
    base::Status join();
    base::Result<Place> find(std::string_view name) const;

    std::vector<std::shared_ptr<const GgufFile>> parts_;
    std::map<std::string, Place, std::less<>> tensors_;
    std::shared_ptr<const GgufFile> file_;
    HeldTensors held_;
};

}  // namespace helix::model
