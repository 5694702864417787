#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

// Writing GGUF v3: a GgufBuilder collects what comes before the data, a GgufOutput streams the
// data.
//
//     GgufBuilder builder;
//     builder.set("general.architecture", "llama");
//     builder.add_tensor("token_embd.weight", TensorType::q8_0, {hidden, vocab});
//     TRY(auto out, GgufOutput::create(path, builder));
//     TRY_VOID(out->append(bytes));  // as often as needed, the tensors in the order they were
//     added TRY_VOID(out->finish());

namespace helix::model {

// Every kind of value the format has, stored with exactly this type.
using GgufValue =
    std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                 std::int32_t, float, bool, std::string, std::uint64_t, std::int64_t, double,
                 std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                 std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                 std::vector<float>, std::vector<bool>, std::vector<std::string>,
                 std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;

// A value of any kind as a header has it, its type first (RawEntry).
using RawGgufValue = std::vector<std::byte>;

class GgufBuilder {
  public:
    // alignment is a power of two of at least 8.
    explicit GgufBuilder(std::uint32_t alignment = 32);
    // Keys are written in the order they are set, each once.
    void set(std::string key, GgufValue value);
    void set_raw(std::string key, RawGgufValue value);
    // The shape has 1 to 4 positive dimensions, of which the first is a multiple of the type's
    // block size.
    void add_tensor(std::string name, TensorType type, std::vector<std::int64_t> shape);

    const std::vector<TensorInfo>& tensors() const { return tensors_; }
    std::uint32_t alignment() const { return alignment_; }
    // Everything before the tensor data, padded to the alignment.
    std::vector<std::byte> header() const;
    // Bytes of the tensor data, the padding between tensors included.
    std::uint64_t data_bytes() const;

  private:
    std::uint32_t alignment_;
    std::vector<std::pair<std::string, std::variant<GgufValue, RawGgufValue>>> metadata_;
    std::vector<TensorInfo> tensors_;
};

// A file being written. It appears under its path when finish() succeeds; until then it is path +
// ".part", which is removed when this goes away unfinished.
class GgufOutput {
  public:
    static base::Result<std::unique_ptr<GgufOutput>> create(const std::string& path,
                                                            const GgufBuilder& builder);
    ~GgufOutput();
    GgufOutput(const GgufOutput&) = delete;
    GgufOutput& operator=(const GgufOutput&) = delete;

    // Appends the next bytes of the tensor data. They must not go beyond the end of the tensor that
    // is being written. A full tensor is padded, and the next call begins the next one.
    base::Status append(std::span<const std::byte> bytes);
    // Finishes the file. All tensors must be complete.
    base::Status finish();

  private:
    GgufOutput() = default;
    base::Error failed(const char* doing) const;
    base::Status write_all(std::span<const std::byte> bytes);

    std::string path_;
    std::string part_path_;
    int descriptor_ = -1;
    std::uint64_t alignment_ = 0;
    std::vector<std::uint64_t> tensor_bytes_;
    std::size_t tensor_ = 0;     // being written
    std::uint64_t written_ = 0;  // bytes of it
};

}  // namespace helix::model
