#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/mapped_file.h"
#include "model/tensor_type.h"

// Reading safetensors files: eight bytes with the length of a JSON header, the header, and the
// tensors' bytes, without gaps. Format: the safetensors README. Everything is checked before it is
// used; a bad file gives an Error that names the file, the tensor and what was expected.

namespace helix::model {

struct SafeTensor {
    std::string name;
    TensorType type = TensorType::f32;
    std::vector<std::int64_t> shape;  // the last dimension is the contiguous one
    std::uint64_t offset = 0;         // into the data
    std::uint64_t bytes = 0;
};

class SafetensorsFile {
  public:
    // Mapped; tensor data stays valid while the result lives.
    static base::Result<std::shared_ptr<const SafetensorsFile>> open(const std::string& path);
    // A whole file that is already in memory; label takes the place of the path in errors.
    static base::Result<std::shared_ptr<const SafetensorsFile>> from_image(
        std::vector<std::byte> image, std::string label);

    const std::string& label() const { return label_; }
    // By name. Every tensor is f32, f16 or bf16.
    const std::map<std::string, SafeTensor, std::less<>>& tensors() const { return tensors_; }
    const SafeTensor* find(std::string_view name) const;
    std::span<const std::byte> data(const SafeTensor& tensor) const;
    // Gives the memory of a mapped file's tensor back; data() stays valid and is read again.
    void let_go(const SafeTensor& tensor) const;

  private:
    SafetensorsFile() = default;
    base::Status parse(std::span<const std::byte> file);
    base::Status check_layout() const;

    std::string label_;
    std::map<std::string, SafeTensor, std::less<>> tensors_;
    std::span<const std::byte> data_;
    std::unique_ptr<const MappedFile> mapping_;
    std::vector<std::byte> owned_;
};

}  // namespace helix::model
