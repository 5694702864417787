#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "engine/device/device.h"
#include "model/quant/half.h"
#include "model/tensor_type.h"

// A second device: one thread, plain loops in double precision over dequantised weights, and KV
// pages of floats in an order of its own. It has nothing in common with the CPU device but the
// interface, so what runs on both depends on the interface only.

namespace helix::engine::test {

class ReferenceBuffer final : public Buffer {
  public:
    explicit ReferenceBuffer(std::int64_t size) : Buffer(size), values(base::size_of(size)) {}
    std::vector<float> values;
};

class ReferenceMatrix final : public Matrix {
  public:
    using Matrix::Matrix;
    std::vector<float> values;  // [count, rows, cols]
};

class ReferenceRouting final : public Routing {
  public:
    struct Visit {
        std::int64_t row = 0;
        std::int64_t expert = 0;
        double weight = 0;
    };
    std::vector<Visit> visits;  // by row, and by expert within a row
};

// A page has the elements of one that travels, as floats.
class ReferenceKv final : public KvArena {
  public:
    ReferenceKv(const ops::KvLayout& travelling, std::int64_t pages, std::int64_t swap_pages)
        : layout_(travelling), pages_(base::size_of(pages)), slots_(base::size_of(swap_pages)) {
        CHECK(layout_.type == ops::KvType::f16 || layout_.type == ops::KvType::f32);
    }

    std::int64_t pages() const override { return std::ssize(pages_); }
    std::int64_t swap_pages() const override { return std::ssize(slots_); }
    base::Status move(const core::BatchPlan& plan) override {
        for (const core::PageSwap& swap : plan.swap_out) slots_[swap.slot] = pages_[swap.page];
        for (const core::PageSwap& swap : plan.swap_in) pages_[swap.page] = slots_[swap.slot];
        for (const core::PageCopy& copy : plan.copies) pages_[copy.to] = pages_[copy.from];
        return base::Ok{};
    }
    base::Status read(core::PageId page, std::byte* bytes) const override {
        for (std::size_t i = 0; i < elements(); ++i) {
            const float value = pages_[page].empty() ? 0.0F : pages_[page][i];
            if (layout_.type == ops::KvType::f32) {
                std::memcpy(bytes + 4 * i, &value, sizeof value);
            } else {
                const std::uint16_t half = model::quant::float_to_half(value);
                std::memcpy(bytes + 2 * i, &half, sizeof half);
            }
        }
        return base::Ok{};
    }
    base::Status write(core::PageId page, const std::byte* bytes) override {
        pages_[page].resize(elements());
        for (std::size_t i = 0; i < elements(); ++i) {
            float& value = pages_[page][i];
            if (layout_.type == ops::KvType::f32) {
                std::memcpy(&value, bytes + 4 * i, sizeof value);
            } else {
                std::uint16_t half = 0;
                std::memcpy(&half, bytes + 2 * i, sizeof half);
                value = model::quant::half_to_float(half);
            }
        }
        return base::Ok{};
    }

    const ops::KvLayout& layout() const { return layout_; }
    // Writes dimension d of the key and value of a head of a layer, at a position of the page.
    void put(core::PageId page, const ops::KvLayout& layer, int head, int in_block, int d,
             float key, float value) {
        pages_[page].resize(elements());
        pages_[page][key_at(layer, head, in_block, d)] = rounded(key);
        pages_[page][value_at(layer, head, in_block, d)] = rounded(value);
    }
    double key(core::PageId page, const ops::KvLayout& layer, int head, int in_block, int d) const {
        return static_cast<double>(pages_[page][key_at(layer, head, in_block, d)]);
    }
    double value(core::PageId page, const ops::KvLayout& layer, int head, int in_block,
                 int d) const {
        return static_cast<double>(pages_[page][value_at(layer, head, in_block, d)]);
    }

  private:
    std::size_t elements() const {
        return base::size_of(layout_.page_bytes() / layout_.element_bytes());
    }
    static std::size_t key_at(const ops::KvLayout& layer, int head, int in_block, int d) {
        return base::size_of(layer.keys_of_head(head) / layer.element_bytes() +
                             d * layer.positions() + in_block);
    }
    static std::size_t value_at(const ops::KvLayout& layer, int head, int in_block, int d) {
        return base::size_of(layer.values_of_head(head) / layer.element_bytes() +
                             in_block * layer.dims() + d);
    }
    float rounded(float value) const {
        if (layout_.type == ops::KvType::f32) return value;
        return model::quant::half_to_float(model::quant::float_to_half(value));
    }

    ops::KvLayout layout_;
    std::vector<std::vector<float>> pages_, slots_;  // empty: never written
};

class ReferenceDevice final : public Device {
  public:
    std::int64_t floats_read = 0;

    std::int64_t memory_bytes() const override { return std::int64_t{64} << 20; }
    std::int32_t compute_threads() const override { return 0; }
    ThreadPool& host_threads() override { return pool_; }

    base::Result<std::unique_ptr<Buffer>> make_buffer(std::int64_t floats) override {
        return std::unique_ptr<Buffer>(std::make_unique<ReferenceBuffer>(floats));
    }
    base::Result<std::unique_ptr<KvArena>> make_kv_arena(const ops::KvLayout& page,
                                                         std::int64_t pages,
                                                         std::int64_t swap_pages) override {
        return std::unique_ptr<KvArena>(std::make_unique<ReferenceKv>(page, pages, swap_pages));
    }
    std::unique_ptr<Routing> make_routing() override {
        return std::make_unique<ReferenceRouting>();
    }
    base::Result<std::unique_ptr<Matrix>> make_matrix(const MatrixShape& shape,
                                                      std::span<const std::byte> data) override {
        auto matrix = std::make_unique<ReferenceMatrix>(shape);
        matrix->values.resize(base::size_of(shape.count * shape.rows * shape.cols));
        model::dequantize_row(shape.type, data, matrix->values.data());
        const std::int64_t each = shape.rows * shape.cols;
        for (std::int64_t i = 0; i < shape.count * each; ++i)
            matrix->values[base::at(i)] *= shape.factor(i / each);
        return std::unique_ptr<Matrix>(std::move(matrix));
    }
    std::int64_t matrix_bytes(const MatrixShape& shape) const override {
        return shape.count * shape.rows * shape.cols * std::int64_t{sizeof(float)};
    }
    void expect_matrices(std::int64_t /*bytes*/) override {}
    base::Status write(Buffer& buffer, std::int64_t first, std::span<const float> values) override {
        std::copy(values.begin(), values.end(), of(buffer) + first);
        return base::Ok{};
    }
    base::Result<std::span<const float>> read(const Buffer& buffer, std::int64_t first,
                                              std::int64_t count) override {
        floats_read += count;
        return std::span<const float>(of(buffer) + first, base::size_of(count));
    }

    void rms_norm(const ops::RmsNorm& op) override {
        for (std::int64_t row = 0; row < op.rows; ++row) {
            const std::int64_t at = row * op.width;
            norm(of(op.x) + at, of(op.weight), op.width, op.epsilon, of(op.y) + at);
        }
    }
    void matmul(const ops::Matmul& op) override {
        for (std::int64_t row = 0; row < op.rows; ++row) {
            for (const ops::Projection& to : op.to) multiply(to, 0, op.x, row);
        }
    }
    void rope(const ops::Rope& op) override {
        for (const ops::ProjectedHeads& heads : op.heads) {
            for (std::int64_t row = 0; row < op.rows; ++row) {
                for (int head = 0; head < heads.n_heads; ++head) prepare(op, heads, row, head);
            }
        }
    }
    void kv_store(const ops::KvStore& op) override {
        auto& kv = static_cast<ReferenceKv&>(op.kv);
        const ops::KvLayout layout = kv.layout().of_heads(op.heads);
        for (const ops::SequenceRows& s : op.sequences) {
            for (std::int64_t r = 0; r < s.rows; ++r) {
                const auto position = s.first_position + static_cast<std::int32_t>(r);
                const core::PageId page = s.pages[base::at(position / layout.block_size)];
                for (int head = 0; head < layout.n_kv_heads; ++head) {
                    const std::int64_t at =
                        ((s.first_row + r) * layout.n_kv_heads + head) * layout.head_dim;
                    for (int d = 0; d < layout.head_dim; ++d)
                        kv.put(page, layout, head, position % layout.block_size, d,
                               of(op.keys)[at + d], of(op.values)[at + d]);
                }
            }
        }
    }
    void attention(const ops::Attention& op) override {
        for (const ops::SequenceRows& s : op.sequences) {
            for (std::int64_t r = 0; r < s.rows; ++r) {
                for (int head = 0; head < op.n_heads; ++head) attend(op, s, r, head);
            }
        }
    }
    void swiglu(const ops::Swiglu& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i) {
            const auto gate = static_cast<double>(of(op.gate)[i]);
            const auto up = static_cast<double>(of(op.up)[i]);
            of(op.gate)[i] = static_cast<float>(gate / (1 + std::exp(-gate)) * up);
        }
    }
    void clamped_swiglu(const ops::ClampedSwiglu& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i) {
            const double g = std::min(static_cast<double>(of(op.gate)[i]), 7.0);
            const double u = std::clamp(static_cast<double>(of(op.up)[i]), -7.0, 7.0);
            of(op.gate)[i] = static_cast<float>(g / (1 + std::exp(-1.702 * g)) * (u + 1));
        }
    }
    void add_bias(const ops::AddBias& op) override {
        const auto* routing = static_cast<const ReferenceRouting*>(op.routing);
        for (std::int64_t row = 0; row < op.rows; ++row) {
            const std::int64_t at = routing == nullptr ? 0 : routing->visits[base::at(row)].expert;
            for (std::int64_t i = 0; i < op.width; ++i)
                of(op.x)[row * op.width + i] += of(op.bias)[at * op.width + i];
        }
    }
    void geglu(const ops::Geglu& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i) {
            const auto gate = static_cast<double>(of(op.gate)[i]);
            const auto up = static_cast<double>(of(op.up)[i]);
            const double inner =
                std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
            if (op.exact) {
                const double share = std::erfc(-gate / std::numbers::sqrt2) / 2;
                of(op.gate)[i] = static_cast<float>(gate * share * up);
                continue;
            }
            of(op.gate)[i] = static_cast<float>(gate / 2 * (1 + std::tanh(inner)) * up);
        }
    }
    void reglu(const ops::Reglu& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i) {
            const auto up = static_cast<double>(of(op.up)[i]);
            of(op.gate)[i] =
                static_cast<float>(std::max(static_cast<double>(of(op.gate)[i]), 0.0) * up);
        }
    }
    void gelu(const ops::Gelu& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i) {
            const auto x = static_cast<double>(of(op.x)[i]);
            of(op.x)[i] = static_cast<float>(x / 2 * std::erfc(-x / std::numbers::sqrt2));
        }
    }
    void layer_norm(const ops::LayerNorm& op) override {
        for (std::int64_t row = 0; row < op.rows; ++row) {
            const float* x = of(op.x) + row * op.width;
            double sum = 0, squares = 0;
            for (std::int64_t i = 0; i < op.width; ++i) sum += static_cast<double>(x[i]);
            const double mean = sum / static_cast<double>(op.width);
            for (std::int64_t i = 0; i < op.width; ++i)
                squares += std::pow(static_cast<double>(x[i]) - mean, 2);
            const double factor = 1 / std::sqrt(squares / static_cast<double>(op.width) +
                                                static_cast<double>(op.epsilon));
            for (std::int64_t i = 0; i < op.width; ++i)
                of(op.y)[row * op.width + i] = static_cast<float>(
                    (static_cast<double>(x[i]) - mean) * factor *
                    static_cast<double>(of(op.weight)[row % op.n_weights * op.width + i]));
        }
    }
    void scale_rows(const ops::ScaleRows& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i) {
            const double x = static_cast<double>(of(op.x)[i]) * static_cast<double>(op.factor);
            of(op.x)[i] = static_cast<float>(capped(x, static_cast<double>(op.cap)));
        }
    }
    void add_rows(const ops::AddRows& op) override {
        for (std::int64_t i = 0; i < op.rows * op.width; ++i)
            of(op.y)[i] += op.factor * of(op.x)[i];
    }
    void copy_rows(const ops::CopyRows& op) override {
        for (const ops::RowRange& range : op.ranges) {
            std::copy_n(of(op.from) + range.from * op.width, range.count * op.width,
                        of(op.to) + range.to * op.width);
        }
    }
    void route_rows(const ops::RouteRows& op) override {
        auto& routing = static_cast<ReferenceRouting&>(op.routing);
        routing.visits.clear();
        for (std::int64_t row = 0; row < op.rows; ++row) {
            const float* scores = of(op.scores) + row * op.n_experts;
            std::vector<double> weights, keys;
            for (int e = 0; e < op.n_experts; ++e) {
                const auto score = static_cast<double>(scores[e]);
                weights.push_back(op.sigmoid ? 1 / (1 + std::exp(-score)) : std::exp(score));
                keys.push_back(score);
                if (op.bias != nullptr)
                    keys.back() = weights.back() + static_cast<double>(of(*op.bias)[e]);
            }
            std::vector<int> experts(base::size_of(op.n_experts));
            std::iota(experts.begin(), experts.end(), 0);
            if (op.n_groups > 1) drop_groups(op, keys);
            std::stable_sort(experts.begin(), experts.end(),
                             [&](int a, int b) { return keys[base::at(a)] > keys[base::at(b)]; });
            std::vector<int> chosen(experts.begin(), experts.begin() + op.n_used);
            std::sort(chosen.begin(), chosen.end());
            double sum = 0;
            for (const int e : op.normalise ? chosen : experts) sum += weights[base::at(e)];
            if (op.sigmoid && !op.normalise) sum = 1;
            for (const int e : chosen)
                routing.visits.push_back({row, e,
                                          weights[base::at(e)] / sum *
                                              static_cast<double>(op.factor) * factor_of(op, e)});
        }
    }
    void gather_visits(const ops::GatherVisits& op) override {
        const auto& visits = static_cast<const ReferenceRouting&>(op.routing).visits;
        for (std::int64_t i = 0; i < std::ssize(visits); ++i) {
            const ReferenceRouting::Visit& visit = visits[base::at(i)];
            const double weight = op.weighted ? visit.weight : 1.0;
            for (std::int64_t c = 0; c < op.width; ++c) {
                const auto x = static_cast<double>(of(op.x)[visit.row * op.width + c]);
                of(op.y)[i * op.width + c] = static_cast<float>(weight * x);
            }
        }
    }
    void expert_matmul(const ops::ExpertMatmul& op) override {
        const auto& visits = static_cast<const ReferenceRouting&>(op.routing).visits;
        for (std::int64_t i = 0; i < std::ssize(visits); ++i) {
            for (const ops::Projection& to : op.to)
                multiply(to, visits[base::at(i)].expert, op.x, i);
        }
    }
    void add_visits(const ops::AddVisits& op) override {
        const auto& visits = static_cast<const ReferenceRouting&>(op.routing).visits;
        for (std::int64_t i = 0; i < std::ssize(visits); ++i) {
            const ReferenceRouting::Visit& visit = visits[base::at(i)];
            const bool first = i == 0 || visits[base::at(i - 1)].row != visit.row;
            for (std::int64_t c = 0; c < op.width; ++c) {
                float& y = of(op.y)[visit.row * op.width + c];
                if (op.replace && first) y = 0;
                y = static_cast<float>(static_cast<double>(y) +
                                       (op.weighted ? visit.weight : 1.0) *
                                           static_cast<double>(of(op.x)[i * op.width + c]));
            }
        }
    }

    void reduce_logits(const ops::ReduceLogits& op) override {
        const std::int64_t floats = ops::ReducedRowAt::floats(op.n_top);
        const float* first = of(op.logits) + op.first_row * op.vocab;
        for (std::int64_t row = 0; row < op.rows; ++row)
            reduce(op, {first + row * op.vocab, base::size_of(op.vocab)},
                   of(op.out) + row * floats);
        float* named = of(op.out) + op.rows * floats;
        for (const ops::LogitAt& at : op.named) *named++ = first[at.row * op.vocab + at.token];
    }

  private:
    static float* of(Buffer& b) { return static_cast<ReferenceBuffer&>(b).values.data(); }
    static const float* of(const Buffer& b) {
        return static_cast<const ReferenceBuffer&>(b).values.data();
    }

    static double factor_of(const ops::RouteRows& op, int expert) {
        return op.expert_factors == nullptr ? 1
                                            : static_cast<double>(of(*op.expert_factors)[expert]);
    }

    // Keys of experts in other groups than the best fall below all others.
    static void drop_groups(const ops::RouteRows& op, std::vector<double>& keys) {
        const auto size = std::ssize(keys) / op.n_groups;
        std::vector<std::pair<double, int>> groups;
        for (int g = 0; g < op.n_groups; ++g) {
            std::vector<double> of(keys.begin() + g * size, keys.begin() + (g + 1) * size);
            std::sort(of.begin(), of.end(), std::greater<>());
            groups.emplace_back(-(of[0] + of[1]), g);
        }
        std::sort(groups.begin(), groups.end());
        for (std::size_t n = base::size_of(op.n_groups_used); n < groups.size(); ++n)
            std::fill_n(keys.begin() + groups[n].second * size, size,
                        -std::numeric_limits<double>::infinity());
    }

    static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

    static void norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y) {
        double squares = 0;
        for (std::int64_t i = 0; i < n; ++i)
            squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        const double factor =
            1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(epsilon));
        for (std::int64_t i = 0; i < n; ++i) {
            y[i] = static_cast<float>(static_cast<double>(x[i]) * factor *
                                      static_cast<double>(weight[i]));
        }
    }

    static void reduce(const ops::ReduceLogits& op, std::span<const float> logits, float* out) {
        const auto broken = std::find_if_not(logits.begin(), logits.end(),
                                             [](float x) { return std::isfinite(x); });
        out[0] = broken == logits.end() ? -1.0F : static_cast<float>(broken - logits.begin());
        if (broken != logits.end()) return;
        std::vector<std::size_t> order(logits.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
        double sum = 0;
        for (const float logit : logits)
            sum += std::exp(static_cast<double>(logit) - static_cast<double>(logits[order[0]]));
        out[1] = op.sum ? static_cast<float>(sum) : 0.0F;
        for (std::size_t i = 0; i < base::size_of(op.n_top); ++i) {
            out[2 + i] = logits[order[i]];
            out[2 + base::size_of(op.n_top) + i] = static_cast<float>(order[i]);
        }
    }

    // One row of x times one of the matrices.
    static void multiply(const ops::Projection& to, std::int64_t which, const Buffer& x,
                         std::int64_t row) {
        const auto& matrix = static_cast<const ReferenceMatrix&>(to.matrix);
        const MatrixShape& shape = matrix.shape();
        const float* in = of(x) + row * shape.cols;
        const float* weights = matrix.values.data() + which * shape.rows * shape.cols;
        for (std::int64_t i = 0; i < shape.rows; ++i, weights += shape.cols) {
            float& y = of(to.y)[row * shape.rows + i];
            double sum = to.accumulate ? static_cast<double>(y) : 0.0;
            for (std::int64_t c = 0; c < shape.cols; ++c)
                sum += static_cast<double>(weights[c]) * static_cast<double>(in[c]);
            y = static_cast<float>(sum);
        }
    }

    static void prepare(const ops::Rope& op, const ops::ProjectedHeads& heads, std::int64_t row,
                        int head) {
        const int dim = op.head_dim;
        float* x = of(heads.x) + (row * heads.n_heads + head) * dim;
        for (int d = 0; heads.bias != nullptr && d < dim; ++d)
            x[d] += of(*heads.bias)[head * dim + d];
        if (heads.norm != nullptr) norm(x, of(*heads.norm), dim, op.epsilon, x);
        const bool adjacent = op.pairs == model::RopePairs::adjacent;
        const float* angles = of(op.angles) + row * op.rope_dim;
        for (int i = 0; heads.rotate && i < op.rope_dim / 2; ++i) {
            float& a = x[adjacent ? 2 * i : i];
            float& b = x[adjacent ? 2 * i + 1 : i + op.rope_dim / 2];
            const auto re = static_cast<double>(a), im = static_cast<double>(b);
            const auto cosine = static_cast<double>(angles[2 * i]);
            const auto sine = static_cast<double>(angles[2 * i + 1]);
            a = static_cast<float>(re * cosine - im * sine);
            b = static_cast<float>(re * sine + im * cosine);
        }
    }

    static void attend(const ops::Attention& op, const ops::SequenceRows& s, std::int64_t r,
                       int head) {
        const auto& kv = static_cast<const ReferenceKv&>(op.kv);
        const ops::KvLayout layout = kv.layout().of_heads(op.heads);
        const int dim = layout.head_dim;
        const int kv_head = head / (op.n_heads / layout.n_kv_heads);
        const auto own = s.first_position + static_cast<std::int32_t>(r);
        auto last = own;
        std::int32_t first = op.window > 0 ? std::max(0, own + 1 - op.window) : 0;
        if (op.chunked && op.window > 0) first = own - own % op.window;
        if (op.both_ways) last = s.first_position + static_cast<std::int32_t>(s.rows) - 1;
        if (op.both_ways && op.window > 0) {
            first = std::max(0, own - op.window / 2);
            last = std::min(last, own + op.window / 2);
        }
        const std::int64_t at = ((s.first_row + r) * op.n_heads + head) * dim;
        const float* q = of(op.q) + at;
        const auto page_of = [&](std::int32_t p) {
            return s.pages[base::at(p / layout.block_size)];
        };
        std::vector<double> weights;
        for (std::int32_t p = first; p <= last; ++p) {
            double score = 0;
            for (int d = 0; d < dim; ++d)
                score += static_cast<double>(q[d]) *
                         kv.key(page_of(p), layout, kv_head, p % layout.block_size, d);
            score *= op.scale > 0 ? static_cast<double>(op.scale)
                                  : 1 / std::sqrt(static_cast<double>(dim));
            if (op.slopes != nullptr)
                score -= static_cast<double>(of(*op.slopes)[head]) * std::abs(p - own);
            weights.push_back(capped(score, static_cast<double>(op.softcap)));
        }
        const double top = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        if (op.sinks != nullptr) sum += std::exp(static_cast<double>(of(*op.sinks)[head]) - top);
        for (double& weight : weights) sum += weight = std::exp(weight - top);
        for (int d = 0; d < dim; ++d) {
            double value = 0;
            for (std::int32_t p = first; p <= last; ++p) {
                value += weights[base::at(p - first)] / sum *
                         kv.value(page_of(p), layout, kv_head, p % layout.block_size, d);
            }
            of(op.out)[at + d] = static_cast<float>(value);
        }
    }

    ThreadPool pool_{1};
};

}  // namespace helix::engine::test
