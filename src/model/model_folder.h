#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/held_tensors.h"
#include "model/hf/hf_quantised.h"
#include "model/hf/hf_tensors.h"
#include "model/hf/safetensors.h"
#include "model/weight_source.h"

namespace helix::model {

// A model as Hugging Face publishes it: a folder with config.json, tokenizer.json and
// *.safetensors. It is shown as the GGUF file that a converter would write of it (names, row order,
// metadata), so that all that works on a GGUF file works on it: file() is its header, tensor() its
// data.
//
// Tensors are read when they are asked for, and kept until the last release(): queries and keys of
// llama, stacked experts, vectors that are not f32 and what is quantised are made then. A file that
// is cut meanwhile gives an error that names it. Any thread.
class ModelFolder final : public WeightSource {
  public:
    // With quantize matrices become this type (q8_0, q4_0, ...) when they are asked for; without it
    // they stay f32, f16 or bf16. Those that the folder has quantised stay as they are. Errors name
    // the file, the key or tensor, and what was expected.
    static base::Result<std::unique_ptr<ModelFolder>> open(
        const std::string& path, std::optional<TensorType> quantize = std::nullopt);

    const GgufFile& file() const override { return *file_; }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;
    std::optional<base::Status> read_part(std::string_view name, std::uint64_t offset,
                                          std::span<std::byte> to) override;
    void release(std::string_view name) override;

  private:
    struct Tensor {
        HfTensor plan;
        TensorType type = TensorType::f32;
        std::vector<TensorSource> sources;
        std::vector<QuantisedMatrix> quantised;  // in place of sources
        TensorSource scales;                     // of MXFP4
    };

    ModelFolder() = default;
    base::Status open_files(const std::string& path);
    base::Status open_indexed(const std::string& path);
    // Its tensors are called so behind the prefix.
    base::Status open_file(const std::string& path, const std::string& prefix = "");
    base::Status find_tensors(const std::string& path, const HfConfig& config,
                              std::optional<TensorType> quantize);
    base::Status find_sources(const std::string& path, const HfConfig& config,
                              Tensor& tensor) const;
    base::Status check_spare(const HfConfig& config) const;
    base::Result<bool> is_bias_of_zeros(std::string_view name) const;
    // The tensor of this name, which must have this shape and, for `bytes`, the dtype U8.
    base::Result<TensorSource> find_source(const std::string& path, const std::string& name,
                                           const std::vector<std::int64_t>& shape,
                                           bool bytes) const;
    static base::Result<std::vector<std::byte>> make_mxfp4(const Tensor& tensor);
    static base::Result<std::vector<std::byte>> make_quantised(const Tensor& tensor);
    static bool is_as_it_is(const Tensor& tensor);
    static base::Result<std::vector<std::byte>> make(const Tensor& tensor);
    base::Result<const Tensor*> find(std::string_view name) const;

    std::vector<std::shared_ptr<const SafetensorsFile>> files_;
    TensorSources sources_;
    std::map<std::string, Tensor, std::less<>> tensors_;  // by ours
    std::map<std::string, std::vector<float>, std::less<>> rope_factors_;
    std::shared_ptr<const GgufFile> file_;
    HeldTensors held_;
};

}  // namespace helix::model
