#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "hf_folder.h"
#include "model/quant/half.h"

// Quantises the matrices of a folder as those who publish such folders do: written from the
// published formats, not from what reads them in src.

namespace helix::model::test_support {

enum class Publisher {
    fp8_blocks,  // quant_method fp8, weight_scale_inv of blocks of 128 x 128
    fp8_tensor,  // compressed-tensors, one weight_scale
    fp8_rows,    // compressed-tensors, a weight_scale for each row
    gptq,
    gptq_v2,
    gptq_8,  // of eight bits
    awq,
    packed,        // compressed-tensors
    packed_zeros,  // compressed-tensors, not symmetric
};

class MatrixQuantiser {
  public:
    using Size = std::vector<std::int64_t>;
    using Put = HfFolderWriter::Put;

    Publisher publisher = Publisher::gptq;
    std::int64_t group = 64;  // columns that share a scale; -1: all
    bool bfloats = false;     // scales, in place of halves
    bool plain = false;       // writes what the quantised weights are, as F32
    std::string left;         // modules whose names contain this stay as they are
    // Modules whose names contain this get no bias that nobody asked for; "": all get one.
    std::string biased;

    Json config() const {
        switch (publisher) {
            case Publisher::fp8_blocks:
                return {{"quant_method", "fp8"},
                        {"fmt", "e4m3"},
                        {"activation_scheme", "dynamic"},
                        {"weight_block_size", {128, 128}}};
            case Publisher::fp8_tensor:
            case Publisher::fp8_rows:
                return compressed("float-quantized", "float", 8);
            case Publisher::packed:
            case Publisher::packed_zeros:
                return compressed("pack-quantized", "int", 4);
            case Publisher::awq:
                return {{"quant_method", "awq"},
                        {"bits", 4},
                        {"group_size", group},
                        {"zero_point", true},
                        {"version", "gemm"}};
            case Publisher::gptq:
            case Publisher::gptq_v2:
            case Publisher::gptq_8:
                break;
        }
        Json gptq{{"quant_method", "gptq"},
                  {"bits", publisher == Publisher::gptq_8 ? 8 : 4},
                  {"group_size", group},
                  {"desc_act", false},
                  {"sym", publisher == Publisher::gptq_8}};
        if (publisher == Publisher::gptq_v2) gptq["checkpoint_format"] = "gptq_v2";
        return gptq;
    }

    // As HfFolderWriter::quantise.
    bool operator()(const std::string& name, const Size& shape, const std::string& bytes,
                    const Put& put) {
        if (!left.empty() && name.find(left) != std::string::npos) return false;
        module_ = name.substr(0, name.size() - std::string(".weight").size());
        rows_ = shape[0];
        cols_ = shape[1];
        values_.resize(static_cast<std::size_t>(rows_ * cols_));
        std::memcpy(values_.data(), bytes.data(), bytes.size());
        const bool fp8 = publisher <= Publisher::fp8_rows;
        if (fp8) {
            write_fp8(put);
        } else {
            write_whole(put);
        }
        return true;
    }

  private:
    Json compressed(const char* format, const char* type, int bits) const {
        const bool rows = publisher == Publisher::fp8_rows;
        const Json weights{{"num_bits", bits},
                           {"type", type},
                           {"symmetric", publisher != Publisher::packed_zeros},
                           {"strategy", bits == 4 ? "group"
                                        : rows    ? "channel"
                                                  : "tensor"},
                           {"group_size", bits == 4 ? Json(group) : Json()},
                           {"dynamic", false},
                           {"actorder", Json()}};
        return {{"quant_method", "compressed-tensors"},
                {"format", format},
                {"ignore", {"lm_head"}},
                {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
    }

    double value(std::int64_t row, std::int64_t col) const {
        return static_cast<double>(values_[static_cast<std::size_t>(row * cols_ + col)]);
    }

    template <typename T>
    static std::string bytes_of(const std::vector<T>& all) {
        return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T)};
    }

    // Least, greatest and greatest magnitude of rows [row, end_row), columns [col, end_col).
    struct Range {
        double least = 0, greatest = 0;
        double magnitude() const { return std::max(-least, greatest); }
    };
    Range range(std::int64_t row, std::int64_t end_row, std::int64_t col,
                std::int64_t end_col) const {
        Range r;
        for (std::int64_t i = row; i < std::min(end_row, rows_); ++i) {
            for (std::int64_t j = col; j < std::min(end_col, cols_); ++j) {
                r.least = std::min(r.least, value(i, j));
                r.greatest = std::max(r.greatest, value(i, j));
            }
        }
        return r;
    }

    // E4M3: (-1)^s (1 + m / 8) 2^(e - 7), or m / 8 2^-6 where e is 0.
    static double e4m3(int bits) {
        const int exponent = bits >> 3 & 15;
        const int fraction = bits & 7;
        const double magnitude =
            exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
        return bits >= 128 ? -magnitude : magnitude;
    }
    static std::uint8_t nearest_e4m3(double x) {
        int below = 0, above = 126;  // greater bits are greater magnitudes; 127 is no number
        while (above - below > 1) {
            const int middle = (below + above) / 2;
            (e4m3(middle) <= std::abs(x) ? below : above) = middle;
        }
        const bool up = e4m3(above) - std::abs(x) < std::abs(x) - e4m3(below);
        return static_cast<std::uint8_t>((up ? above : below) | (x < 0 ? 128 : 0));
    }

    void write_fp8(const Put& put) {
        std::int64_t high = rows_, wide = cols_;  // of what has one scale
        if (publisher == Publisher::fp8_blocks) high = wide = 128;
        if (publisher == Publisher::fp8_rows) high = 1;
        const std::int64_t blocks = (cols_ + wide - 1) / wide;
        std::vector<float> scales;
        for (std::int64_t row = 0; row < rows_; row += high) {
            for (std::int64_t col = 0; col < cols_; col += wide) {
                const Range r = range(row, row + high, col, col + wide);
                scales.push_back(quant::bfloat_to_float(
                    quant::float_to_bfloat(static_cast<float>(r.magnitude() / 448))));
            }
        }
        std::vector<std::uint8_t> weights;
        std::vector<float> dequantised;
        for (std::int64_t row = 0; row < rows_; ++row) {
            for (std::int64_t col = 0; col < cols_; ++col) {
                const auto at = static_cast<std::size_t>(row / high * blocks + col / wide);
                const auto scale = static_cast<double>(scales[at]);
                weights.push_back(nearest_e4m3(value(row, col) / scale));
                dequantised.push_back(static_cast<float>(e4m3(weights.back()) * scale));
            }
        }
        if (plain) return put(module_ + ".weight", "F32", {rows_, cols_}, bytes_of(dequantised));
        put(module_ + ".weight", "F8_E4M3", {rows_, cols_}, bytes_of(weights));
        const bool inverse = publisher == Publisher::fp8_blocks;
        Size shape{};
        if (publisher == Publisher::fp8_blocks) shape = {(rows_ + 127) / 128, blocks};
        if (publisher == Publisher::fp8_rows) shape = {rows_, 1};
        if (!bfloats)
            return put(module_ + (inverse ? ".weight_scale_inv" : ".weight_scale"), "F32", shape,
                       bytes_of(scales));
        std::vector<std::uint16_t> halves;
        for (const float scale : scales) halves.push_back(quant::float_to_bfloat(scale));
        put(module_ + (inverse ? ".weight_scale_inv" : ".weight_scale"), "BF16", shape,
            bytes_of(halves));
    }

    int bits() const { return publisher == Publisher::gptq_8 ? 8 : 4; }
    bool has_zeros() const { return publisher != Publisher::packed; }

    // Whole numbers, each with its row and column; scales and zeros, each with its row and group.
    void write_whole(const Put& put) {
        const std::int64_t wide = group < 0 ? cols_ : group;
        groups_ = cols_ / wide;
        const int top = (1 << bits()) - 1;
        const bool middle = publisher == Publisher::packed || publisher == Publisher::gptq_8;
        numbers_.clear();
        zeros_.clear();
        scales_.clear();
        std::vector<float> dequantised(values_.size());
        for (std::int64_t row = 0; row < rows_; ++row) {
            for (std::int64_t g = 0; g < groups_; ++g) {
                const Range r = range(row, row + 1, g * wide, (g + 1) * wide);
                const double wanted =
                    middle ? 2 * r.magnitude() / top : std::max(r.greatest - r.least, 1e-6) / top;
                const auto stored = bfloats ? quant::float_to_bfloat(static_cast<float>(wanted))
                                            : quant::float_to_half(static_cast<float>(wanted));
                const auto scale = static_cast<double>(bfloats ? quant::bfloat_to_float(stored)
                                                               : quant::half_to_float(stored));
                const int zero =
                    middle ? (top + 1) / 2
                           : static_cast<int>(std::lround(std::min<double>(-r.least / scale, top)));
                scales_.push_back(stored);
                zeros_.push_back(zero);
                for (std::int64_t c = g * wide; c < (g + 1) * wide; ++c) {
                    const auto q = std::lround(value(row, c) / scale) + zero;
                    numbers_.push_back(static_cast<int>(std::clamp<long>(q, 0, top)));
                    dequantised[static_cast<std::size_t>(row * cols_ + c)] =
                        static_cast<float>((numbers_.back() - zero) * scale);
                }
            }
        }
        if (plain) return put(module_ + ".weight", "F32", {rows_, cols_}, bytes_of(dequantised));
        if (publisher == Publisher::packed || publisher == Publisher::packed_zeros)
            return put_packed(put);
        put_gptq_or_awq(put);
    }

    // Words of numbers that follow each other, the first lowest.
    std::string words(const std::vector<int>& numbers) const {
        const std::size_t in_word = static_cast<std::size_t>(32 / bits());
        std::vector<std::uint32_t> all((numbers.size() + in_word - 1) / in_word);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            all[i / in_word] |= static_cast<std::uint32_t>(numbers[i])
                                << (i % in_word * static_cast<std::size_t>(bits()));
        }
        return bytes_of(all);
    }

    // The same with rows and columns exchanged.
    template <typename T>
    static std::vector<T> exchanged(const std::vector<T>& from, std::int64_t rows) {
        const auto n = static_cast<std::size_t>(rows);
        const std::size_t cols = from.size() / n;
        std::vector<T> to;
        for (std::size_t c = 0; c < cols; ++c) {
            for (std::size_t r = 0; r < n; ++r) to.push_back(from[r * cols + c]);
        }
        return to;
    }

    void put_packed(const Put& put) const {
        const char* dtype = bfloats ? "BF16" : "F16";
        put(module_ + ".weight_packed", "I32", {rows_, cols_ / 8}, words(numbers_));
        put(module_ + ".weight_scale", dtype, {rows_, groups_}, bytes_of(scales_));
        put(module_ + ".weight_shape", "I64", {2}, bytes_of(Size{rows_, cols_}));
        if (!has_zeros()) return;
        // Eight rows of a group in a word: columns of the exchanged matrix.
        std::string zeros;
        for (std::int64_t first = 0; first < rows_; first += 8) {
            for (std::int64_t g = 0; g < groups_; ++g) {
                std::vector<int> eight;
                for (std::int64_t row = first; row < std::min(first + 8, rows_); ++row)
                    eight.push_back(zeros_[static_cast<std::size_t>(row * groups_ + g)]);
                zeros += words(eight);
            }
        }
        put(module_ + ".weight_zero_point", "I32", {(rows_ + 7) / 8, groups_}, zeros);
    }

    void put_gptq_or_awq(const Put& put) const {
        const std::int64_t in_word = 32 / bits();
        std::vector<int> numbers = exchanged(numbers_, rows_);  // [cols][rows]
        std::vector<int> zeros = exchanged(zeros_, rows_);      // [groups][rows]
        if (publisher == Publisher::gptq || publisher == Publisher::gptq_8) {
            const int top = (1 << bits()) - 1;
            for (int& zero : zeros) zero = (zero - 1) & top;
        }
        Size shape{cols_, rows_ / 8};
        std::string weights;
        if (publisher == Publisher::awq) {
            weights = words(awq_order(numbers));
            zeros = awq_order(zeros);
        } else {
            shape = {cols_ / in_word, rows_};
            for (std::int64_t first = 0; first < cols_; first += in_word) {
                for (std::int64_t row = 0; row < rows_; ++row) {
                    std::vector<int> several;
                    for (std::int64_t c = first; c < first + in_word; ++c)
                        several.push_back(numbers[static_cast<std::size_t>(c * rows_ + row)]);
                    weights += words(several);
                }
            }
            std::vector<std::int32_t> order;
            for (std::int64_t c = 0; c < cols_; ++c)
                order.push_back(static_cast<std::int32_t>(c / (cols_ / groups_)));
            put(module_ + ".g_idx", "I32", {cols_}, bytes_of(order));
            if (biased.empty() || module_.find(biased) == std::string::npos) {
                // A bias that nobody asked for.
                put(module_ + ".bias", "F16", {rows_},
                    std::string(static_cast<std::size_t>(2 * rows_), '\0'));
            }
        }
        put(module_ + ".qweight", "I32", shape, weights);
        put(module_ + ".qzeros", "I32", {groups_, rows_ / in_word}, words(zeros));
        put(module_ + ".scales", bfloats ? "BF16" : "F16", {groups_, rows_},
            bytes_of(exchanged(scales_, rows_)));
    }

    // Of every eight numbers those of even places come first.
    static std::vector<int> awq_order(const std::vector<int>& numbers) {
        constexpr std::size_t kPlaces[] = {0, 2, 4, 6, 1, 3, 5, 7};
        std::vector<int> to;
        for (std::size_t i = 0; i < numbers.size(); i += 8) {
            for (const std::size_t place : kPlaces) to.push_back(numbers[i + place]);
        }
        return to;
    }

    std::string module_;
    std::int64_t rows_ = 0, cols_ = 0, groups_ = 0;
    std::vector<float> values_;
    std::vector<int> numbers_, zeros_;   // [rows][cols], [rows][groups]
    std::vector<std::uint16_t> scales_;  // [rows][groups]
};

}  // namespace helix::model::test_support
