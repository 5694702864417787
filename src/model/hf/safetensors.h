#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/tensor_type.h"

// Reading safetensors files: eight bytes with the length of a JSON header, the header, and the
// tensors' bytes, without gaps. Format: the safetensors README. Everything is checked before it is
// used; a bad file gives an Error that names the file, the tensor and what was expected.

namespace helix::model {

struct SafeTensor {
    std::string name;
    TensorType type = TensorType::f32;
    // "U8", "I32", "I64" or "F8_E4M3": of what is packed in a way of its own, and has no type; else
    // "".
    std::string_view packed = "";
    std::vector<std::int64_t> shape;  // the last dimension is the contiguous one
    std::uint64_t offset = 0;         // into the data
    std::uint64_t bytes = 0;
};

class SafetensorsFile {
  public:
    // Tensor data is read when it is asked for, so a file that is cut meanwhile gives an error.
    static base::Result<std::shared_ptr<const SafetensorsFile>> open(const std::string& path);
    // A whole file that is already in memory; label takes the place of the path in errors.
    static base::Result<std::shared_ptr<const SafetensorsFile>> from_image(
        std::vector<std::byte> image, std::string label);

    const std::string& label() const { return label_; }
    // The tensors by name. Every one is f32, f16 or bf16, or packed.
    const std::map<std::string, SafeTensor, std::less<>>& tensors() const { return tensors_; }
    const SafeTensor* find(std::string_view name) const;
    // Any thread. Fills `to` with a part of a tensor's bytes, which must lie within it.
    base::Status read(const SafeTensor& tensor, std::uint64_t offset,
                      std::span<std::byte> to) const;
    // Reads all bytes of a tensor.
    base::Result<std::vector<std::byte>> read(const SafeTensor& tensor) const;

  private:
    SafetensorsFile() = default;
    // Parses the header; file_ or image_ must be set.
    base::Status parse();
    base::Status read_at(std::uint64_t offset, std::span<std::byte> to) const;
    base::Status check_layout() const;

    std::string label_;
    std::map<std::string, SafeTensor, std::less<>> tensors_;
    std::uint64_t data_offset_ = 0;  // behind the header
    std::uint64_t data_bytes_ = 0;
    std::unique_ptr<const base::RegularFile> file_;
    std::vector<std::byte> image_;
};

// A tensor of a folder, and its file.
struct TensorSource {
    const SafetensorsFile* file = nullptr;
    const SafeTensor* tensor = nullptr;
};
using TensorSources = std::map<std::string, TensorSource, std::less<>>;  // by their names

}  // namespace helix::model
