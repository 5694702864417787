#include "model/model_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/machine.h"
#include "model/hf/hf_config.h"
#include "model/hf/hf_encoder.h"
#include "model/hf/hf_pooling.h"
#include "model/hf/hf_tokenizer.h"
#include "model/limits.h"
#include "model/model_config.h"
#include "model/quant/mxfp4.h"
#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::int64_t kElementsPerThread = 1 << 18;  // fewer are not worth a thread

std::size_t size_of(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// The row of the source that becomes row `row`: within each head, row 2i is row i and row 2i + 1 is
// row i + half.
std::int64_t source_row(std::int64_t row, std::int64_t head_rows) {
    const std::int64_t in_head = row % head_rows;
    return row - in_head + in_head / 2 + (in_head % 2) * (head_rows / 2);
}

// Rows of one source tensor, converted and in their new order.
struct RowMaker {
    TensorType from, to;
    std::span<const std::byte> data;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t head_rows;  // 0: the order stays
    // Of every source_rows rows of the source these matrix_rows are ours.
    std::int64_t source_rows, matrix_rows, first_row, row_step;
    float added;  // to every element
    // Rows are columns of the source's matrices, of which each has source_rows; head_rows is 0.
    bool transposed;
    std::byte* out;

    std::size_t bytes_of_row(TensorType type) const {
        const TensorTypeInfo& info = *tensor_type_info(type);
        return size_of(cols / info.block_size * info.block_bytes);
    }

    // Of so many rows at once, which lie together in the source.
    static constexpr std::int64_t kColumns = 32;

    void make_from_columns(std::int64_t begin, std::int64_t end) const {
        std::vector<float> values(size_of(kColumns * cols));
        const std::size_t element = size_of(tensor_type_info(from)->block_bytes);
        float read[kColumns];
        for (std::int64_t row = begin; row < end;) {
            const std::int64_t column = row % matrix_rows;
            const std::int64_t n = std::min({kColumns, end - row, matrix_rows - column});
            for (std::int64_t c = 0; c < cols; ++c) {
                const std::int64_t at =
                    (row / matrix_rows * cols + c) * source_rows + first_row + column;
                dequantize_row(from, data.subspan(size_of(at) * element, size_of(n) * element),
                               read);
                for (std::int64_t i = 0; i < n; ++i) values[size_of(i * cols + c)] = read[i];
            }
            for (std::int64_t i = 0; i < n; ++i, ++row) {
                quantize_row(to, std::span(values).subspan(size_of(i * cols), size_of(cols)),
                             out + size_of(row) * bytes_of_row(to));
            }
        }
    }

    void make(std::int64_t begin, std::int64_t end) const {
        if (transposed) return make_from_columns(begin, end);
        std::vector<float> values(size_of(cols));
        const std::size_t in_bytes = bytes_of_row(from);
        const std::size_t out_bytes = bytes_of_row(to);
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t chosen =
                row / matrix_rows * source_rows + first_row + row % matrix_rows * row_step;
            const std::int64_t source = head_rows > 0 ? source_row(row, head_rows) : chosen;
            const auto in = data.subspan(size_of(source) * in_bytes, in_bytes);
            std::byte* to_row = out + size_of(row) * out_bytes;
            if (from == to && added == 0) {
                std::memcpy(to_row, in.data(), in_bytes);
            } else {
                dequantize_row(from, in, values.data());
                if (added != 0) {
                    for (float& value : values) value += added;
                }
                quantize_row(to, values, to_row);
            }
        }
    }
};

// Makes all rows; make() takes some of them, on any thread.
void make_rows(std::int64_t rows, std::int64_t cols,
               const std::function<void(std::int64_t begin, std::int64_t end)>& make) {
    const std::int64_t most = std::min(base::usable_threads(), 16);
    const std::int64_t threads =
        std::clamp<std::int64_t>(rows * cols / kElementsPerThread, 1, most);
    const std::int64_t each = (rows + threads - 1) / threads;
    std::vector<std::thread> pool;
    for (std::int64_t begin = each; begin < rows; begin += each) {
        pool.emplace_back(
            [&make, begin, each, rows] { make(begin, std::min(begin + each, rows)); });
    }
    make(0, std::min(each, rows));
    for (std::thread& thread : pool) thread.join();
}

std::vector<std::string> safetensors_in(const std::string& path) {
    std::vector<std::string> files;
    std::error_code error;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        if (entry->path().extension() == ".safetensors") files.push_back(entry->path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

base::Result<std::unique_ptr<ModelFolder>> ModelFolder::open(const std::string& path,
                                                             std::optional<TensorType> quantize) {
    std::unique_ptr<ModelFolder> folder(new ModelFolder());
    GgufBuilder builder;
    const std::string config_file = path + "/config.json";
    TRY(const std::string text, spec::read_text_file(config_file));
    TRY(HfConfig config, read_hf_config(text, config_file, builder));
    TRY_VOID(read_hf_pooling(path, config, builder));
    const fs::path plain = fs::path(path).lexically_normal();
    builder.set("general.name",
                (plain.has_filename() ? plain : plain.parent_path()).filename().string());
    TRY_VOID(read_hf_tokenizer(path, config, builder));
    TRY_VOID(folder->open_files(path));
    for (const HfDense& dense : config.dense_layers) {
        TRY_VOID(folder->open_file(fmt::format("{}/{}/model.safetensors", path, dense.folder),
                                   dense_source(dense.folder, "")));
    }
    see_encoder_tensors([&](const std::string& name) { return folder->sources_.contains(name); },
                        config);
    TRY_VOID(folder->find_tensors(path, config, quantize));
    TRY_VOID(folder->check_spare(config));
    folder->rope_factors_ = config.rope_factors;
    for (const HfTensor& tensor : hf_tensors(config)) {
        const Tensor& found = folder->tensors_.at(tensor.name);
        builder.add_tensor(tensor.name, found.type, tensor.shape);
    }
    for (const auto& [name, factors] : config.rope_factors)
        builder.add_tensor(name, TensorType::f32, {std::ssize(factors)});
    TRY(folder->file_, GgufFile::from_header(builder.header(), path));
    return folder;
}

base::Status ModelFolder::open_files(const std::string& path) {
    std::error_code ignored;
    if (fs::exists(path + "/" + kIndex, ignored)) return open_indexed(path);
    const std::vector<std::string> names = safetensors_in(path);
    if (names.empty()) return base::invalid(path + ": no *.safetensors file in it");
    for (const std::string& name : names) TRY_VOID(open_file(name));
    return base::Ok{};
}

// The index says which file holds which tensor.
base::Status ModelFolder::open_indexed(const std::string& path) {
    const std::string index = path + "/" + kIndex;
    TRY(const std::string text, spec::read_text_file(index));
    TRY(const nlohmann::json document, spec::parse_json(text, index));
    TRY(const spec::JsonPlace map, spec::JsonPlace(document, index).member("weight_map"));
    TRY_VOID(map.expect_object());
    std::set<std::string> names;
    for (const auto& [tensor, file] : map.value().items()) {
        TRY(const std::string name, map.child(tensor).text());
        if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
            return map.child(tensor).error("the name of a file in the same folder");
        }
        names.insert(name);
    }
    if (std::ssize(names) > limits::kMaxShards) {
        return map.complaint(
            fmt::format("names {} files, the limit is {}", names.size(), limits::kMaxShards));
    }
    for (const std::string& name : names) TRY_VOID(open_file(path + "/" + name));
    for (const auto& [tensor, file] : map.value().items()) {
        const auto found = sources_.find(tensor);
        const std::string expected = path + "/" + file.get<std::string>();
        if (found == sources_.end() || found->second.file->label() != expected) {
            return base::invalid(fmt::format("{}: tensor {}: missing, {} places it there", expected,
                                             tensor, kIndex));
        }
    }
    return base::Ok{};
}

base::Status ModelFolder::open_file(const std::string& path, const std::string& prefix) {
    TRY(auto file, SafetensorsFile::open(path));
    if (std::ssize(sources_) + std::ssize(file->tensors()) > limits::kMaxTensors) {
        return base::invalid(
            fmt::format("{}: with its {} tensors the model has more than {}, the "
                        "limit",
                        path, file->tensors().size(), limits::kMaxTensors));
    }
    for (const auto& [name, tensor] : file->tensors()) {
        const auto [known, is_new] =
            sources_.emplace(prefix + name, TensorSource{file.get(), &tensor});
        if (!is_new) {
            return base::invalid(
                fmt::format("{}: tensor {}: also in {}", path, name, known->second.file->label()));
        }
    }
    files_.push_back(std::move(file));
    return base::Ok{};
}

// A tensor that would be left unused (a bias, an adapter) changes what the model computes.
base::Status ModelFolder::check_spare(const HfConfig& config) const {
    std::set<std::string_view> used;
    for (const auto& [name, tensor] : tensors_) {
        if (tensor.quantised.empty())
            used.insert(tensor.plan.sources.begin(), tensor.plan.sources.end());
        if (tensor.scales.tensor != nullptr) used.insert(tensor.scales.tensor->name);
        for (const QuantisedMatrix& matrix : tensor.quantised) {
            for (const SafeTensor* part : matrix.parts()) used.insert(part->name);
        }
    }
    const HfQuantMethod method = config.quantisation.method;
    for (const auto& [name, source] : sources_) {
        if (used.contains(name) || is_spare_hf_tensor(config, name)) continue;
        const bool compressed = method == HfQuantMethod::compressed;
        if ((compressed || method == HfQuantMethod::fp8) && is_scale_of_activations(name)) continue;
        if (compressed && name.ends_with(".weight_shape")) continue;  // it is config.json's
        TRY(const bool is_bias, is_bias_of_zeros(name));
        if (is_bias) continue;
        return base::invalid(fmt::format("{}: tensor {}: not part of a {} model of {} layers",
                                         source.file->label(), name, config.architecture,
                                         config.n_layers));
    }
    return base::Ok{};
}

// GPTQ's programs give a quantised module a bias, whether the model has one or not.
base::Result<bool> ModelFolder::is_bias_of_zeros(std::string_view name) const {
    constexpr std::string_view kEnding = ".bias";
    if (!name.ends_with(kEnding)) return false;
    const std::string module(name.substr(0, name.size() - kEnding.size()));
    if (!sources_.contains(module + ".qweight")) return false;
    const TensorSource& source = sources_.find(name)->second;
    if (source.tensor->bytes > std::uint64_t{4} * limits::kMaxVocabulary) return false;
    TRY(const std::vector<std::byte> bytes, source.file->read(*source.tensor));
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

base::Result<TensorSource> ModelFolder::find_source(const std::string& path,
                                                    const std::string& name,
                                                    const std::vector<std::int64_t>& shape,
                                                    bool bytes) const {
    const auto found = sources_.find(name);
    if (found == sources_.end())
        return base::invalid(fmt::format("{}: tensor {}: missing", path, name));
    const TensorSource& source = found->second;
    const auto wrong = [&](const std::string& text) {
        return base::invalid(fmt::format("{}: tensor {}: {}", source.file->label(), name, text));
    };
    if (source.tensor->packed != (bytes ? "U8" : "")) {
        return wrong(bytes ? std::string("expected the dtype U8")
                           : fmt::format("dtype {} is not supported, expected F32, F16 or BF16",
                                         source.tensor->packed));
    }
    if (source.tensor->shape != shape) {
        return wrong(fmt::format("shape [{}], expected [{}] by config.json",
                                 fmt::join(source.tensor->shape, ", "), fmt::join(shape, ", ")));
    }
    return source;
}

base::Status ModelFolder::find_tensors(const std::string& path, const HfConfig& config,
                                       std::optional<TensorType> quantize) {
    for (HfTensor& plan : hf_tensors(config)) {
        Tensor tensor;
        tensor.plan = std::move(plan);
        TRY_VOID(find_sources(path, config, tensor));
        const HfTensor& found = tensor.plan;
        tensor.type = found.keep_float        ? TensorType::f32
                      : !found.scales.empty() ? TensorType::mxfp4
                      : !tensor.quantised.empty()
                          ? tensor.quantised.front().type
                          : quantize.value_or(tensor.sources.front().tensor->type);
        const TensorTypeInfo& type = *tensor_type_info(tensor.type);
        if (found.shape.front() % type.block_size != 0) {
            return base::invalid(fmt::format(
                "{}: tensor {}: rows of {} elements, {} needs a multiple of {}", path,
                found.sources.front(), found.shape.front(), type.name, type.block_size));
        }
        std::string name = found.name;
        tensors_.emplace(std::move(name), std::move(tensor));
    }
    return base::Ok{};
}

// Of a tensor's plan: all from one kind of matrices.
base::Status ModelFolder::find_sources(const std::string& path, const HfConfig& config,
                                       Tensor& tensor) const {
    const HfTensor& plan = tensor.plan;
    const bool packed = !plan.scales.empty();
    const bool is_matrix = plan.source_shape.size() == 2 && !packed && !plan.of_elements;
    for (const std::string& name : plan.sources) {
        std::optional<QuantisedMatrix> matrix;
        if (is_matrix) {
            TRY(matrix, find_quantised(sources_, config.quantisation, path, name,
                                       plan.source_shape[0], plan.source_shape[1]));
        }
        const auto another = [&](const TensorSource& source) {
            return base::invalid(fmt::format("{}: tensor {}: another dtype than {}",
                                             source.file->label(), source.tensor->name,
                                             plan.sources.front()));
        };
        if (matrix) {
            if (!tensor.sources.empty() ||
                (!tensor.quantised.empty() && tensor.quantised.front().type != matrix->type))
                return another(matrix->weight);
            tensor.quantised.push_back(*matrix);
            continue;
        }
        TRY(const TensorSource source, find_source(path, name, plan.source_shape, packed));
        if (!tensor.quantised.empty() ||
            (!tensor.sources.empty() && source.tensor->type != tensor.sources.front().tensor->type))
            return another(source);
        tensor.sources.push_back(source);
    }
    if (!packed) return base::Ok{};
    std::vector<std::int64_t> of_scales = plan.source_shape;
    of_scales.pop_back();
    TRY(tensor.scales, find_source(path, plan.scales, of_scales, true));
    return base::Ok{};
}

// Whether the source's own bytes are the tensor.
bool ModelFolder::is_as_it_is(const Tensor& tensor) {
    const HfTensor& plan = tensor.plan;
    const bool all_rows =
        std::accumulate(plan.source_shape.begin(), plan.source_shape.end(), std::int64_t{1},
                        std::multiplies<>()) ==
        std::accumulate(plan.shape.begin(), plan.shape.end(), std::int64_t{1}, std::multiplies<>());
    return plan.scales.empty() && tensor.sources.size() == 1 && all_rows &&
           plan.interleave_heads == 0 && !plan.add_one && !plan.transposed &&
           tensor.sources.front().tensor->type == tensor.type;
}

// The blocks of our rows. In ours a byte has elements i and i + 16, in theirs 2i and 2i + 1.
base::Result<std::vector<std::byte>> ModelFolder::make_mxfp4(const Tensor& tensor) {
    const HfTensor& plan = tensor.plan;
    const TensorSource& source = tensor.sources.front();
    TRY(const std::vector<std::byte> packed, source.file->read(*source.tensor));
    TRY(const std::vector<std::byte> scales, tensor.scales.file->read(*tensor.scales.tensor));
    const std::int64_t blocks = plan.source_shape[2];  // of a row
    const std::int64_t rows = plan.shape[1] * plan.shape[2];
    const std::size_t bytes = sizeof(quant::BlockMxfp4);
    TRY(auto made, base::make_bytes(size_of(rows * blocks) * bytes, "tensor " + plan.name));
    const auto element = [&](std::int64_t block, std::size_t i) {
        const auto two = std::to_integer<unsigned>(packed[size_of(block) * 16 + i / 2]);
        return i % 2 == 0 ? two & 15U : two >> 4U;
    };
    const auto make_row = [&](std::int64_t row) {
        const std::int64_t from = row / plan.shape[1] * plan.source_shape[1] + plan.first_row +
                                  row % plan.shape[1] * plan.row_step;
        for (std::int64_t b = 0; b < blocks; ++b) {
            std::byte* to = made.data() + size_of(row * blocks + b) * bytes;
            to[0] = scales[size_of(from * blocks + b)];
            for (std::size_t i = 0; i < 16; ++i) {
                to[1 + i] = static_cast<std::byte>(element(from * blocks + b, i) |
                                                   element(from * blocks + b, i + 16) << 4U);
            }
        }
    };
    make_rows(rows, plan.shape[0], [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) make_row(row);
    });
    return made;
}

base::Result<std::vector<std::byte>> ModelFolder::make_quantised(const Tensor& tensor) {
    const HfTensor& plan = tensor.plan;
    const std::int64_t cols = plan.shape.front();
    const std::int64_t rows = plan.shape.size() > 1 ? plan.shape[1] : 1;  // of each matrix
    const std::int64_t head_rows = plan.interleave_heads > 0 ? rows / plan.interleave_heads : 0;
    const auto bytes_of_row = [cols](TensorType type) {
        const TensorTypeInfo& info = *tensor_type_info(type);
        return size_of(cols / info.block_size * info.block_bytes);
    };
    const std::size_t row_bytes = bytes_of_row(tensor.type);
    const std::size_t each = size_of(rows) * row_bytes;
    TRY(auto bytes, base::make_bytes(each * tensor.quantised.size(), "tensor " + plan.name));
    std::byte* out = bytes.data();
    for (const QuantisedMatrix& matrix : tensor.quantised) {
        TRY(const QuantisedRows from, QuantisedRows::read(matrix));
        const auto make_some = [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::byte> blocks(bytes_of_row(matrix.type));
            std::vector<float> values(size_of(cols));
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t source = head_rows > 0 ? source_row(row, head_rows)
                                                          : plan.first_row + row * plan.row_step;
                std::byte* to = out + size_of(row) * row_bytes;
                if (matrix.type == tensor.type) {
                    from.make(source, to);
                    continue;
                }
                from.make(source, blocks.data());
                dequantize_row(matrix.type, blocks, values.data());
                quantize_row(tensor.type, values, to);
            }
        };
        make_rows(rows, cols, make_some);
        out += each;
    }
    return bytes;
}

base::Result<std::vector<std::byte>> ModelFolder::make(const Tensor& tensor) {
    if (is_as_it_is(tensor)) {
        const TensorSource& source = tensor.sources.front();
        return source.file->read(*source.tensor);
    }
    if (!tensor.quantised.empty()) return make_quantised(tensor);
    if (!tensor.plan.scales.empty()) return make_mxfp4(tensor);
    const HfTensor& plan = tensor.plan;
    const std::int64_t cols = plan.of_elements ? 1 : plan.shape.front();
    std::int64_t all_rows = plan.of_elements ? plan.shape.front() : 1;  // of our tensor
    for (std::size_t i = 1; i < plan.shape.size(); ++i) all_rows *= plan.shape[i];
    const std::int64_t rows = all_rows / std::ssize(tensor.sources);
    const std::size_t dims = plan.source_shape.size();
    std::int64_t matrix_rows = plan.shape.size() > 1 ? plan.shape[1] : 1;
    std::int64_t source_rows = dims > 1 ? plan.source_shape[dims - 2] : 1;
    if (plan.of_elements) matrix_rows = plan.shape.front();
    if (plan.of_elements || plan.transposed) source_rows = plan.source_shape.back();
    const std::int64_t head_rows = plan.interleave_heads > 0 ? rows / plan.interleave_heads : 0;
    const TensorTypeInfo& type = *tensor_type_info(tensor.type);
    const std::size_t each = size_of(rows * (cols / type.block_size) * type.block_bytes);
    TRY(auto bytes, base::make_bytes(each * tensor.sources.size(), "tensor " + plan.name));
    for (std::size_t i = 0; i < tensor.sources.size(); ++i) {
        const TensorSource& source = tensor.sources[i];
        TRY(const std::vector<std::byte> data, source.file->read(*source.tensor));
        const RowMaker maker{source.tensor->type,
                             tensor.type,
                             data,
                             rows,
                             cols,
                             head_rows,
                             source_rows,
                             matrix_rows,
                             plan.first_row,
                             plan.row_step,
                             plan.add_one ? 1.0F : 0.0F,
                             plan.transposed,
                             bytes.data() + i * each};
        make_rows(rows, cols,
                  [&](std::int64_t begin, std::int64_t end) { maker.make(begin, end); });
    }
    return bytes;
}

base::Result<const ModelFolder::Tensor*> ModelFolder::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return &found->second;
    return base::Error{base::Errc::not_found,
                       fmt::format("{}: tensor {}: missing", file_->label(), name)};
}

base::Result<std::span<const std::byte>> ModelFolder::tensor(std::string_view name) {
    if (const auto made = rope_factors_.find(name); made != rope_factors_.end())
        return std::as_bytes(std::span<const float>(made->second));
    TRY(const Tensor* tensor, find(name));
    return held_.use(name, [&] { return make(*tensor); });
}

std::optional<base::Status> ModelFolder::read_part(std::string_view name, std::uint64_t offset,
                                                   std::span<std::byte> to) {
    const auto tensor = find(name);
    if (!tensor.ok() || !is_as_it_is(**tensor)) return std::nullopt;
    const TensorSource& source = (*tensor)->sources.front();
    return source.file->read(*source.tensor, offset, to);
}

void ModelFolder::release(std::string_view name) {
    held_.release(name);
}

}  // namespace helix::model
