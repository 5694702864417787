#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/arch/architecture.h"
#include "engine/ops/kv_store.h"
#include "engine/ops/matmul.h"
#include "engine/ops/rope.h"

// LLaMA 1, 2, 3, 3.1 and what is built like them: x += W_o attention(norm(x)); x += W_down
// swiglu(norm(x)).

namespace helix::engine {
namespace {

struct Layer {
    std::vector<float> attention_norm, ffn_norm;  // [hidden]
    ops::PackedMatrix q, k, v;                    // [heads * head_dim, hidden]
    ops::PackedMatrix output;                     // [hidden, n_heads * head_dim]
    ops::PackedMatrix gate, up;                   // [ffn, hidden]
    ops::PackedMatrix down;                       // [hidden, ffn]
};

constexpr const char* kTensors[] = {"attn_norm",   "ffn_norm", "attn_q", "attn_k",  "attn_v",
                                    "attn_output", "ffn_gate", "ffn_up", "ffn_down"};

std::string tensor_name(std::int32_t layer, const char* what) {
    return fmt::format("blk.{}.{}.weight", layer, what);
}

void resize(std::vector<float>& buffer, std::int64_t size) {
    if (buffer.size() < static_cast<std::size_t>(size))
        buffer.resize(static_cast<std::size_t>(size));
}

class Llama final : public Architecture {
  public:
    explicit Llama(model::ModelConfig config)
        : config_(std::move(config)),
          q_width_(std::int64_t{config_.n_heads} * config_.head_dim),
          kv_width_(std::int64_t{config_.n_kv_heads} * config_.head_dim) {}

    base::Result<std::int64_t> layer_bytes(const WeightLoader& loader,
                                           std::int32_t layer) const override {
        std::int64_t sum = 0;
        for (const char* what : kTensors) {
            TRY(const std::int64_t bytes, loader.bytes(tensor_name(layer, what)));
            sum += bytes;
        }
        return sum;
    }

    base::Status load_layer(WeightLoader& loader, std::int32_t l) override {
        const std::int64_t hidden = config_.hidden;
        Layer layer;
        TRY(layer.attention_norm, loader.vector(tensor_name(l, "attn_norm"), hidden));
        TRY(layer.ffn_norm, loader.vector(tensor_name(l, "ffn_norm"), hidden));
        TRY(layer.q, loader.matrix(tensor_name(l, "attn_q"), q_width_, hidden));
        TRY(layer.k, loader.matrix(tensor_name(l, "attn_k"), kv_width_, hidden));
        TRY(layer.v, loader.matrix(tensor_name(l, "attn_v"), kv_width_, hidden));
        TRY(layer.output, loader.matrix(tensor_name(l, "attn_output"), hidden, q_width_));
        TRY(layer.gate, loader.matrix(tensor_name(l, "ffn_gate"), config_.ffn, hidden));
        TRY(layer.up, loader.matrix(tensor_name(l, "ffn_up"), config_.ffn, hidden));
        TRY(layer.down, loader.matrix(tensor_name(l, "ffn_down"), hidden, config_.ffn));
        layers_[l] = std::move(layer);
        return base::Ok{};
    }

    void drop_layer(std::int32_t layer) override { layers_.erase(layer); }
    bool has_layer(std::int32_t layer) const override { return layers_.contains(layer); }

    void run_layer(const Device& device, std::int32_t l, const LayerRows& rows) override {
        const auto found = layers_.find(l);
        CHECK(found != layers_.end());
        resize(normed_, rows.rows * config_.hidden);
        attention_block(device, found->second, rows);
        feed_forward_block(device, found->second, rows);
    }

  private:
    void norm(const Device& device, const LayerRows& rows, const std::vector<float>& weight) {
        const std::int64_t hidden = config_.hidden;
        device.pool.run(rows.rows, [&](std::int64_t row, int) {
            device.kernels.rms_norm(rows.hidden.data() + row * hidden, weight.data(), hidden,
                                    config_.norm_epsilon, normed_.data() + row * hidden);
        });
        matmul_rows_.set(normed_.data(), rows.rows, hidden);
    }

    void attention_block(const Device& device, const Layer& layer, const LayerRows& rows) {
        resize(q_, rows.rows * q_width_);
        resize(k_, rows.rows * kv_width_);
        resize(v_, rows.rows * kv_width_);
        resize(attended_, rows.rows * q_width_);
        norm(device, rows, layer.attention_norm);
        const ops::MatmulJob qkv[] = {{&layer.q, {q_.data(), q_width_, false}},
                                      {&layer.k, {k_.data(), kv_width_, false}},
                                      {&layer.v, {v_.data(), kv_width_, false}}};
        ops::matmul(device.kernels, device.pool, matmul_rows_, qkv);
        rotate_and_store(device, rows);

        sequences_.clear();
        for (const LayerSequence& s : rows.sequences) {
            sequences_.push_back({s.first_row, s.rows, s.first_position, s.pages});
        }
        attention_.run(device.kernels, device.pool, device.kv, config_.n_heads, sequences_,
                       q_.data(), attended_.data());
        matmul_rows_.set(attended_.data(), rows.rows, q_width_);
        const ops::MatmulJob output[] = {
            {&layer.output, {rows.hidden.data(), config_.hidden, true}}};
        ops::matmul(device.kernels, device.pool, matmul_rows_, output);
    }

    // Every row's keys are in place before any row attends to them.
    void rotate_and_store(const Device& device, const LayerRows& rows) {
        const auto rope_dim = static_cast<std::size_t>(config_.rope_dim);
        row_sequence_.clear();
        for (const LayerSequence& s : rows.sequences) {
            row_sequence_.insert(row_sequence_.end(), static_cast<std::size_t>(s.rows), &s);
        }
        device.pool.run(rows.rows, [&](std::int64_t row, int) {
            const LayerSequence& s = *row_sequence_[static_cast<std::size_t>(row)];
            const auto table =
                rows.rope.subspan(static_cast<std::size_t>(row) * rope_dim, rope_dim);
            float* k = k_.data() + row * kv_width_;
            ops::rope_row(table, config_.n_heads, config_.head_dim, q_.data() + row * q_width_);
            ops::rope_row(table, config_.n_kv_heads, config_.head_dim, k);
            const auto position = s.first_position + static_cast<std::int32_t>(row - s.first_row);
            ops::kv_store(device.kernels, device.kv, k, v_.data() + row * kv_width_,
                          position % device.kv.block_size,
                          s.pages[position / device.kv.block_size]);
        });
    }

    void feed_forward_block(const Device& device, const Layer& layer, const LayerRows& rows) {
        const std::int64_t ffn = config_.ffn;
        resize(gate_, rows.rows * ffn);
        resize(up_, rows.rows * ffn);
        norm(device, rows, layer.ffn_norm);
        const ops::MatmulJob gate_up[] = {{&layer.gate, {gate_.data(), ffn, false}},
                                          {&layer.up, {up_.data(), ffn, false}}};
        ops::matmul(device.kernels, device.pool, matmul_rows_, gate_up);
        device.pool.run(rows.rows, [&](std::int64_t row, int) {
            float* gate = gate_.data() + row * ffn;
            device.kernels.swiglu(gate, up_.data() + row * ffn, ffn, gate);
        });
        matmul_rows_.set(gate_.data(), rows.rows, ffn);
        const ops::MatmulJob down[] = {{&layer.down, {rows.hidden.data(), config_.hidden, true}}};
        ops::matmul(device.kernels, device.pool, matmul_rows_, down);
    }

    model::ModelConfig config_;
    std::int64_t q_width_;
    std::int64_t kv_width_;
    std::map<std::int32_t, Layer> layers_;

    // Work space, kept from batch to batch; rows first.
    std::vector<float> normed_, q_, k_, v_, attended_, gate_, up_;
    ops::MatmulRows matmul_rows_;
    ops::Attention attention_;
    std::vector<ops::AttentionRows> sequences_;
    std::vector<const LayerSequence*> row_sequence_;
};

}  // namespace

std::unique_ptr<Architecture> make_llama(const model::ModelConfig& config) {
    return std::make_unique<Llama>(config);
}

}  // namespace helix::engine
