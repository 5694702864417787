#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/weight_source.h"

namespace helix::model {

// The bytes of the one GGUF file that holds a model, wherever its weights come from: a file,
// several files, or a folder of safetensors. The file exists nowhere; each part of it is read, or
// made, when it is asked for. Two images of one model have the same bytes. Used by one thread at a
// time; the weights may be shared if any thread may use them.
class GgufImage {
  public:
    explicit GgufImage(std::shared_ptr<WeightSource> weights);
    ~GgufImage();
    GgufImage(const GgufImage&) = delete;
    GgufImage& operator=(const GgufImage&) = delete;

    std::uint64_t bytes() const { return bytes_; }
    // Fills `to` with the bytes from this offset on, which must lie within the image. Errors are
    // those of the weights.
    base::Status read(std::uint64_t offset, std::span<std::byte> to);

  private:
    struct Piece {
        std::uint64_t begin = 0;  // in the image
        std::uint64_t end = 0;
        const TensorInfo* tensor = nullptr;  // null: the header
    };
    base::Status read_tensor(std::string_view name, std::uint64_t offset, std::span<std::byte> to);
    void let_go();

    std::shared_ptr<WeightSource> weights_;
    std::vector<Piece> pieces_;  // in order; between them are zeros
    std::uint64_t bytes_ = 0;
    std::string held_;  // a tensor that had to be made, which the next read may want again
    std::span<const std::byte> held_bytes_;
};

}  // namespace helix::model
