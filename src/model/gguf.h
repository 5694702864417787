#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/tensor_type.h"

// Reading GGUF v2 and v3. Every offset and length is checked against the file before it is used; a
// bad file gives an Error that names the file, the field and what was expected, and so does one
// whose header takes more memory than limits::kMaxHeaderBytes. Format: ggml's docs/gguf.md.

namespace helix::model {

// A metadata value. Signed integers are widened to int64, unsigned ones to uint64, floats to
// double; an array of integers is one of int64.
using MetaArray = std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
                               std::vector<std::string>>;
using MetaValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, MetaArray>;

// A metadata entry as it lies in a header: its value with its type before it, whatever it is. A
// MetaValue does not say which of the types of numbers it came from; what is written again from
// these bytes is what was read.
struct RawEntry {
    std::string key;
    std::span<const std::byte> value;  // of the file's header
};

struct TensorInfo {
    std::string name;
    TensorType type = TensorType::f32;
    std::vector<std::int64_t>
        shape;                 // ggml order: shape[0] is the contiguous dimension (row length)
    std::uint64_t offset = 0;  // into the tensor data section
    std::uint64_t bytes = 0;

    std::int64_t row_length() const { return shape.empty() ? 0 : shape[0]; }
    std::int64_t rows() const;  // product of the other dimensions
};

// An open file (or an image of one in memory). The header is kept; tensor data is read when it is
// asked for, so a file that is cut or replaced meanwhile gives an error.
class GgufFile {
  public:
    static base::Result<std::shared_ptr<const GgufFile>> open(const std::string& path);
    // header has the bytes up to the tensor data, as header() of the original gives them. The
    // tensors of such a file have no data. A worker that receives weights over the wire starts from
    // this.
    static base::Result<std::shared_ptr<const GgufFile>> from_header(
        std::vector<std::byte> header, std::string label = "model header");
    // A whole file that is already in memory; label takes the place of the path in errors.
    static base::Result<std::shared_ptr<const GgufFile>> from_image(std::vector<std::byte> image,
                                                                    std::string label);
    GgufFile(const GgufFile&) = delete;
    GgufFile& operator=(const GgufFile&) = delete;

    // The path it was opened by, or what stands for it in errors.
    const std::string& label() const { return label_; }
    std::uint32_t version() const { return version_; }
    std::uint64_t alignment() const { return alignment_; }
    // False when this was made from a header alone.
    bool has_data() const { return !header_only_; }

    const std::map<std::string, MetaValue, std::less<>>& metadata() const { return metadata_; }
    const MetaValue* find(std::string_view key) const;
    // All of it once more as bytes, in the file's order; as long as this lives.
    std::vector<RawEntry> raw_metadata() const;
    // Typed look-ups: not_found when absent, invalid when of another kind or out of range.
    base::Result<std::int64_t> get_int(std::string_view key) const;
    base::Result<double> get_float(std::string_view key) const;
    base::Result<std::string> get_string(std::string_view key) const;
    base::Result<bool> get_bool(std::string_view key) const;

    const std::vector<TensorInfo>& tensors() const { return tensors_; }
    const TensorInfo* find_tensor(std::string_view name) const;
    // Any thread. Fills `to` with a part of a tensor's bytes, which must lie within it. Error
    // invalid when this was made from a header alone.
    base::Status read(const TensorInfo& tensor, std::uint64_t offset,
                      std::span<std::byte> to) const;
    // Reads all bytes of a tensor.
    base::Result<std::vector<std::byte>> read(const TensorInfo& tensor) const;
    // Everything before the tensor data section.
    std::span<const std::byte> header() const;
    // Of the file that tensors are read from, as it is now. Error not_found: there is none.
    base::Result<base::FileStamp> stamp() const;

  private:
    GgufFile() = default;
    friend class GgufParser;
    struct EntryPlace {
        std::string_view key;  // of metadata_
        std::size_t begin = 0;
        std::size_t end = 0;
    };

    std::string label_;
    std::uint32_t version_ = 0;
    std::uint64_t alignment_ = 32;
    bool header_only_ = false;
    std::map<std::string, MetaValue, std::less<>> metadata_;
    std::vector<EntryPlace> entries_;  // where the values lie in bytes_
    std::vector<TensorInfo> tensors_;
    std::map<std::string, std::size_t, std::less<>> tensor_index_;
    std::vector<std::byte> bytes_;  // all of an image or a header; of a file only the header
    std::unique_ptr<const base::RegularFile> file_;
    std::size_t data_offset_ = 0;
};

}  // namespace helix::model
