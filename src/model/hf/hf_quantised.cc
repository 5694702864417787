#include "model/hf/hf_quantised.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.h"
#include "model/quant/codes.h"
#include "model/quant/fp8.h"
#include "model/quant/half.h"
#include "model/quant/int4.h"
#include "model/quant/q8_0.h"

namespace helix::model {
namespace {

using Layout = QuantisedMatrix::Layout;
using Shape = std::vector<std::int64_t>;

constexpr std::string_view kWordDtype = "I32";
constexpr std::string_view kFp8Dtype = "F8_E4M3";
constexpr std::int64_t kFp8Columns = 64;   // of a block of ours
constexpr std::int64_t kInt4Columns = 32;  // of the others

base::Error wrong_tensor(const TensorSource& source, const std::string& text) {
    return base::invalid(
        fmt::format("{}: tensor {}: {}", source.file->label(), source.tensor->name, text));
}

base::Status expect_shape(const TensorSource& source, const Shape& shape) {
    if (source.tensor->shape == shape) return base::Ok{};
    return wrong_tensor(
        source, fmt::format("shape [{}], expected [{}]", fmt::join(source.tensor->shape, ", "),
                            fmt::join(shape, ", ")));
}

base::Status expect_dtype(const TensorSource& source, std::string_view dtype) {
    if (source.tensor->packed == dtype) return base::Ok{};
    return wrong_tensor(source, fmt::format("expected the dtype {}", dtype));
}

base::Status expect_words(const TensorSource& source, const Shape& shape) {
    TRY_VOID(expect_dtype(source, kWordDtype));
    return expect_shape(source, shape);
}

// The slot of a word in which AWQ has row `row`.
constexpr std::int64_t awq_slot(std::int64_t row) {
    return row % 8 / 2 + row % 2 * 4;
}

std::uint32_t word_at(const std::vector<std::byte>& words, std::int64_t index) {
    return quant::load_u32(words.data() + 4 * index);
}

// bits of a word, in the slot of this number.
unsigned slot_of(std::uint32_t word, std::int64_t slot, std::int64_t bits) {
    return word >> static_cast<unsigned>(slot * bits) & ((1U << static_cast<unsigned>(bits)) - 1U);
}

float float_at(const std::vector<std::byte>& data, TensorType type, std::int64_t index) {
    float value = 0;
    const auto bytes = base::size_of(tensor_type_info(type)->block_bytes);
    dequantize_row(type, std::span(data).subspan(base::size_of(index) * bytes, bytes), &value);
    return value;
}

// Finds the tensors of one module.
class ModuleFinder {
  public:
    ModuleFinder(const TensorSources& sources, const HfQuantisation& quantisation,
                 const std::string& path, std::string_view module)
        : sources_(sources), quantisation_(quantisation), path_(path), module_(module) {}

    base::Result<std::optional<QuantisedMatrix>> find(std::int64_t rows, std::int64_t cols) {
        matrix_.rows = rows;
        matrix_.cols = cols;
        const HfQuantMethod method = quantisation_.method;
        if (method == HfQuantMethod::none) return nothing();
        if (method == HfQuantMethod::gptq || method == HfQuantMethod::awq) {
            if (!has("qweight")) return nothing();
            TRY_VOID(find_words(method == HfQuantMethod::gptq ? Layout::gptq : Layout::awq));
        } else if (method == HfQuantMethod::compressed && has("weight_packed")) {
            TRY_VOID(find_packed());
        } else if (has("weight") && get("weight").tensor->packed == kFp8Dtype) {
            TRY_VOID(find_fp8());
        } else {
            return nothing();
        }
        if (matrix_.layout != Layout::fp8 && has("weight"))
            return wrong_tensor(get("weight"), "the module is quantised, too");
        if (quantisation_.may_be_ordered && matrix_.order.tensor != nullptr)
            TRY_VOID(check_quantised_order(matrix_));
        return std::optional(matrix_);
    }

    // Columns lie in their groups in ascending order.
    static base::Status check_quantised_order(const QuantisedMatrix& matrix) {
        TRY(const std::vector<std::byte> order, matrix.order.file->read(*matrix.order.tensor));
        for (std::int64_t c = 0; c < matrix.cols; ++c) {
            if (word_at(order, c) == static_cast<std::uint32_t>(c / matrix.scale_cols)) continue;
            return wrong_tensor(matrix.order,
                                "columns are in groups out of order (desc_act, actorder), which "
                                "is not supported");
        }
        return base::Ok{};
    }

  private:
    static std::optional<QuantisedMatrix> nothing() { return std::nullopt; }
    std::string name_of(const char* part) const { return fmt::format("{}.{}", module_, part); }
    bool has(const char* part) const { return sources_.contains(name_of(part)); }
    const TensorSource& get(const char* part) const { return sources_.find(name_of(part))->second; }
    base::Result<TensorSource> need(const char* part) const {
        if (has(part)) return get(part);
        return base::invalid(fmt::format("{}: tensor {}: missing", path_, name_of(part)));
    }

    base::Status find_fp8() {
        matrix_.layout = Layout::fp8;
        matrix_.type = TensorType::fp8;
        matrix_.weight = get("weight");
        TRY_VOID(expect_shape(matrix_.weight, {matrix_.rows, matrix_.cols}));
        if (matrix_.cols % kFp8Columns != 0) {
            return wrong_tensor(matrix_.weight, fmt::format("rows of {}, expected a multiple of {}",
                                                            matrix_.cols, kFp8Columns));
        }
        const bool inverse = has("weight_scale_inv");
        if (inverse && has("weight_scale"))
            return wrong_tensor(get("weight_scale"), "there is a weight_scale_inv, too");
        TRY(matrix_.scales, need(inverse ? "weight_scale_inv" : "weight_scale"));
        TRY_VOID(expect_dtype(matrix_.scales, ""));
        return find_fp8_blocks();
    }

    base::Status find_fp8_blocks() {
        const Shape& shape = matrix_.scales.tensor->shape;
        const std::int64_t rows = matrix_.rows;
        matrix_.scale_cols = matrix_.cols;
        if (shape.empty() || shape == Shape{1} || shape == Shape{1, 1}) {
            matrix_.scale_rows = rows;
            return base::Ok{};
        }
        if (shape == Shape{rows} || shape == Shape{rows, 1}) return base::Ok{};
        if (quantisation_.block_rows == 0) return expect_shape(matrix_.scales, {rows, 1});
        matrix_.scale_rows = quantisation_.block_rows;
        matrix_.scale_cols = quantisation_.block_cols;
        return expect_shape(matrix_.scales, {(rows - 1) / matrix_.scale_rows + 1,
                                             (matrix_.cols - 1) / matrix_.scale_cols + 1});
    }

    // GPTQ and AWQ.
    base::Status find_words(Layout layout) {
        const bool eight = quantisation_.bits == 8;
        matrix_.layout = layout;
        matrix_.type = eight ? TensorType::q8_0 : TensorType::int4;
        matrix_.zeros_less_one = quantisation_.zeros_less_one;
        TRY(matrix_.weight, need("qweight"));
        TRY(matrix_.zeros, need("qzeros"));
        TRY(matrix_.scales, need("scales"));
        TRY_VOID(expect_halves());
        if (eight && matrix_.scales.tensor->type != TensorType::f16)
            return wrong_tensor(matrix_.scales, "expected F16, with weights of eight bits");
        const std::int64_t in_word = 32 / quantisation_.bits;
        TRY_VOID(expect_multiple(matrix_.rows, in_word));
        TRY_VOID(expect_multiple(matrix_.cols, in_word));
        const bool gptq = layout == Layout::gptq;
        const Shape weights = gptq ? Shape{matrix_.cols / in_word, matrix_.rows}
                                   : Shape{matrix_.cols, matrix_.rows / in_word};
        TRY_VOID(expect_words(matrix_.weight, weights));
        TRY(const std::int64_t groups, find_groups(0));
        TRY_VOID(expect_shape(matrix_.scales, {groups, matrix_.rows}));
        TRY_VOID(expect_words(matrix_.zeros, {groups, matrix_.rows / in_word}));
        if (!gptq || !has("g_idx")) return base::Ok{};
        matrix_.order = get("g_idx");
        return expect_words(matrix_.order, {matrix_.cols});
    }

    // compressed-tensors.
    base::Status find_packed() {
        matrix_.layout = Layout::packed;
        matrix_.type = TensorType::int4;
        TRY(matrix_.weight, need("weight_packed"));
        TRY(matrix_.scales, need("weight_scale"));
        TRY_VOID(expect_halves());
        TRY_VOID(expect_multiple(matrix_.cols, 8));
        TRY_VOID(expect_words(matrix_.weight, {matrix_.rows, matrix_.cols / 8}));
        TRY(const std::int64_t groups, find_groups(1));
        TRY_VOID(expect_shape(matrix_.scales, {matrix_.rows, groups}));
        if (has("weight_zero_point")) {
            matrix_.zeros = get("weight_zero_point");
            TRY_VOID(expect_words(matrix_.zeros, {(matrix_.rows - 1) / 8 + 1, groups}));
        }
        if (!has("weight_g_idx")) return base::Ok{};
        matrix_.order = get("weight_g_idx");
        return expect_words(matrix_.order, {matrix_.cols});
    }

    base::Status expect_halves() const {
        const SafeTensor& scales = *matrix_.scales.tensor;
        if (scales.packed.empty() && scales.type != TensorType::f32) return base::Ok{};
        return wrong_tensor(matrix_.scales, "expected the dtype F16 or BF16");
    }

    base::Status expect_multiple(std::int64_t size, std::int64_t of) const {
        if (size % of == 0) return base::Ok{};
        return wrong_tensor(matrix_.weight,
                            fmt::format("a matrix of {} x {}, expected multiples of {}",
                                        matrix_.rows, matrix_.cols, of));
    }

    // How many groups of columns the scales are of, by their dimension of this number; each is
    // whole blocks of ours.
    base::Result<std::int64_t> find_groups(std::size_t dimension) {
        const Shape& shape = matrix_.scales.tensor->shape;
        const std::int64_t groups = shape.size() == 2 ? shape[dimension] : 0;
        if (groups < 1 || matrix_.cols % groups != 0 || matrix_.cols / groups % kInt4Columns != 0) {
            return wrong_tensor(
                matrix_.scales,
                fmt::format("shape [{}], expected groups of a multiple of {} of the {} columns",
                            fmt::join(shape, ", "), kInt4Columns, matrix_.cols));
        }
        matrix_.scale_cols = matrix_.cols / groups;
        const std::int64_t size = quantisation_.group_size;
        if (size != 0 && matrix_.scale_cols != (size < 0 ? matrix_.cols : size)) {
            return wrong_tensor(matrix_.scales,
                                fmt::format("shape [{}], expected groups of {} of the {} columns",
                                            fmt::join(shape, ", "), size, matrix_.cols));
        }
        return groups;
    }

    const TensorSources& sources_;
    const HfQuantisation& quantisation_;
    const std::string& path_;
    std::string_view module_;
    QuantisedMatrix matrix_;
};

// Whether one of the bytes is what E4M3 has for no number.
bool has_no_number(const std::vector<std::byte>& bytes) {
    bool any = false;
    for (const std::byte b : bytes) any |= (b & std::byte{0x7f}) == std::byte{0x7f};
    return any;
}

}  // namespace

std::vector<const SafeTensor*> QuantisedMatrix::parts() const {
    std::vector<const SafeTensor*> all = {weight.tensor, scales.tensor};
    if (zeros.tensor != nullptr) all.push_back(zeros.tensor);
    if (order.tensor != nullptr) all.push_back(order.tensor);
    return all;
}

base::Result<std::optional<QuantisedMatrix>> find_quantised(const TensorSources& sources,
                                                            const HfQuantisation& quantisation,
                                                            const std::string& path,
                                                            std::string_view name,
                                                            std::int64_t rows, std::int64_t cols) {
    constexpr std::string_view kEnding = ".weight";
    if (!name.ends_with(kEnding)) return std::optional<QuantisedMatrix>();
    name.remove_suffix(kEnding.size());
    return ModuleFinder(sources, quantisation, path, name).find(rows, cols);
}

bool is_scale_of_activations(std::string_view name) {
    constexpr std::string_view kEndings[] = {".input_scale", ".activation_scale", ".output_scale",
                                             ".q_scale",     ".k_scale",          ".v_scale",
                                             ".kv_scale"};
    return std::any_of(std::begin(kEndings), std::end(kEndings),
                       [&](std::string_view ending) { return name.ends_with(ending); });
}

base::Result<QuantisedRows> QuantisedRows::read(const QuantisedMatrix& matrix) {
    QuantisedRows rows(matrix);
    if (matrix.order.tensor != nullptr) TRY_VOID(ModuleFinder::check_quantised_order(matrix));
    TRY(rows.weights_, matrix.weight.file->read(*matrix.weight.tensor));
    TRY(rows.scales_, matrix.scales.file->read(*matrix.scales.tensor));
    if (matrix.zeros.tensor != nullptr) {
        TRY(rows.zeros_, matrix.zeros.file->read(*matrix.zeros.tensor));
    }
    if (matrix.type == TensorType::fp8 && has_no_number(rows.weights_))
        return wrong_tensor(matrix.weight, "a weight is no number");
    if (matrix.type == TensorType::q8_0) TRY_VOID(rows.check_zeros());
    return rows;
}

// Those of eight bits are signed numbers, raised by 128.
base::Status QuantisedRows::check_zeros() const {
    const std::int64_t groups = matrix_.cols / matrix_.scale_cols;
    for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t row = 0; row < matrix_.rows; ++row) {
            if (zero_of(row, g) == 128) continue;
            return wrong_tensor(matrix_.zeros,
                                fmt::format("a zero of {}, expected 128 of weights of eight bits",
                                            zero_of(row, g)));
        }
    }
    return base::Ok{};
}

std::int64_t QuantisedRows::scale_index(std::int64_t row, std::int64_t col) const {
    const std::int64_t group = col / matrix_.scale_cols;
    if (matrix_.layout == Layout::gptq || matrix_.layout == Layout::awq)
        return group * matrix_.rows + row;
    const std::int64_t groups = (matrix_.cols - 1) / matrix_.scale_cols + 1;
    return row / matrix_.scale_rows * groups + group;
}

unsigned QuantisedRows::zero_of(std::int64_t row, std::int64_t group) const {
    if (zeros_.empty()) return 8;
    const std::int64_t bits = matrix_.type == TensorType::q8_0 ? 8 : 4;
    const std::int64_t in_word = 32 / bits;
    const std::int64_t groups = matrix_.cols / matrix_.scale_cols;
    if (matrix_.layout == Layout::packed)
        return slot_of(word_at(zeros_, row / in_word * groups + group), row % in_word, bits);
    const std::uint32_t word = word_at(zeros_, group * (matrix_.rows / in_word) + row / in_word);
    if (matrix_.layout == Layout::awq) return slot_of(word, awq_slot(row), bits);
    const unsigned stored = slot_of(word, row % in_word, bits);
    // One more than the greatest begins again: no zero is greater than a weight's number.
    const unsigned greatest = (1U << static_cast<unsigned>(bits)) - 1U;
    return matrix_.zeros_less_one ? (stored + 1) & greatest : stored;
}

void QuantisedRows::make(std::int64_t row, std::byte* out) const {
    if (matrix_.type == TensorType::fp8) return make_fp8(row, out);
    if (matrix_.type == TensorType::q8_0) return make_q8_0(row, out);
    make_int4(row, out);
}

void QuantisedRows::make_fp8(std::int64_t row, std::byte* out) const {
    const std::byte* from = weights_.data() + row * matrix_.cols;
    for (std::int64_t col = 0; col < matrix_.cols; col += kFp8Columns) {
        quant::BlockFp8 block;
        block.scale = 256 * float_at(scales_, matrix_.scales.tensor->type, scale_index(row, col));
        std::memcpy(block.q, from + col, kFp8Columns);
        std::memcpy(out, &block, sizeof block);
        out += sizeof block;
    }
}

// Columns [col, col + 32).
void QuantisedRows::read_nibbles(std::int64_t row, std::int64_t col,
                                 std::array<std::uint8_t, 32>& to) const {
    for (std::int64_t i = 0; i < kInt4Columns; ++i) {
        const std::int64_t c = col + i;
        unsigned nibble = 0;
        if (matrix_.layout == Layout::awq) {
            nibble = slot_of(word_at(weights_, c * (matrix_.rows / 8) + row / 8), awq_slot(row), 4);
        } else {
            const std::int64_t word = matrix_.layout == Layout::gptq ? c / 8 * matrix_.rows + row
                                                                     : (row * matrix_.cols + c) / 8;
            nibble = slot_of(word_at(weights_, word), c % 8, 4);
        }
        to[base::at(i)] = static_cast<std::uint8_t>(nibble);
    }
}

void QuantisedRows::make_int4(std::int64_t row, std::byte* out) const {
    const bool bfloats = matrix_.scales.tensor->type == TensorType::bf16;
    for (std::int64_t col = 0; col < matrix_.cols; col += kInt4Columns) {
        quant::BlockInt4 block;
        std::memcpy(block.scale, scales_.data() + 2 * scale_index(row, col), 2);
        block.zero = static_cast<std::uint8_t>(zero_of(row, col / matrix_.scale_cols) |
                                               (bfloats ? quant::kBfloatScale : 0U));
        std::array<std::uint8_t, 32> nibbles;
        read_nibbles(row, col, nibbles);
        for (std::size_t i = 0; i < 16; ++i)
            block.q[i] = static_cast<std::uint8_t>(nibbles[i] | nibbles[i + 16] << 4U);
        std::memcpy(out, &block, sizeof block);
        out += sizeof block;
    }
}

// GPTQ of eight bits.
void QuantisedRows::make_q8_0(std::int64_t row, std::byte* out) const {
    for (std::int64_t col = 0; col < matrix_.cols; col += kInt4Columns) {
        quant::BlockQ8_0 block;
        std::memcpy(&block.scale, scales_.data() + 2 * scale_index(row, col), 2);
        for (std::int64_t i = 0; i < kInt4Columns; ++i) {
            const std::int64_t c = col + i;
            const unsigned raised =
                slot_of(word_at(weights_, c / 4 * matrix_.rows + row), c % 4, 8);
            block.q[i] = static_cast<std::int8_t>(static_cast<int>(raised) - 128);
        }
        std::memcpy(out, &block, sizeof block);
        out += sizeof block;
    }
}

}  // namespace helix::model
