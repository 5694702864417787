#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "engine/device/memory.h"
#include "engine/host/thread_pool.h"
#include "engine/ops/add_bias.h"
#include "engine/ops/add_rows.h"
#include "engine/ops/attention.h"
#include "engine/ops/clamped_swiglu.h"
#include "engine/ops/copy_rows.h"
#include "engine/ops/experts.h"
#include "engine/ops/geglu.h"
#include "engine/ops/gelu.h"
#include "engine/ops/kv_layout.h"
#include "engine/ops/kv_store.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce_logits.h"
#include "engine/ops/reglu.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/rope.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/swiglu.h"

namespace helix::engine {

// What a model's layers are computed on: memory, and one method for each operator that models are
// made of. ops/ has a header for each operator, with what it promises; a device has a file for
// each.
//
// Operators and writes take effect in the order of the calls. They may still be under way when the
// call returns; read() waits for them. What an operator's struct points to outside of the device's
// memory (spans) is used only during the call. What fails on the device meanwhile is the error of
// the next read(). An operator that writes rows of a buffer without reading them may lose what lies
// behind them; copy_rows and write() do not.
//
// One thread uses a device. Results for a row do not depend on other rows, bit for bit.
class Device {
  public:
    Device() = default;
    virtual ~Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    // That it has free now for weights and KV pages together.
    virtual std::int64_t memory_bytes() const = 0;
    // Threads of this machine that it computes with; 0: it has processors of its own.
    virtual std::int32_t compute_threads() const = 0;
    // This machine's threads for what no device does: drawing tokens.
    virtual ThreadPool& host_threads() = 0;
    // It is gone, or its driver reset it: nothing more will succeed.
    virtual bool lost() const { return false; }
    // What was called so far begins now, where the device would rather wait until it is more or
    // until someone reads.
    virtual void start() {}

    // unavailable: the device has no memory for it.
    virtual base::Result<std::unique_ptr<Buffer>> make_buffer(std::int64_t floats) = 0;
    // That a buffer of so many floats takes at most, whatever is done with it.
    virtual std::int64_t buffer_bytes(std::int64_t floats) const {
        return floats * static_cast<std::int64_t>(sizeof(float));
    }
    virtual base::Result<std::unique_ptr<KvArena>> make_kv_arena(const ops::KvLayout& page,
                                                                 std::int64_t pages,
                                                                 std::int64_t swap_pages) = 0;
    virtual std::unique_ptr<Routing> make_routing() = 0;
    // data: count * rows * cols elements as GGUF stores them. invalid: the device cannot multiply
    // by such a matrix, or that is not its size.
    virtual base::Result<std::unique_ptr<Matrix>> make_matrix(const MatrixShape& shape,
                                                              std::span<const std::byte> data) = 0;
    // A matrix that it has made is of this tensor of the model, for devices that tell of their
    // matrices by name.
    virtual void name_matrix(const Matrix& /*matrix*/, std::string_view /*tensor*/) {}
    // That such a matrix takes.
    virtual std::int64_t matrix_bytes(const MatrixShape& shape) const = 0;
    // Matrices made from here on will take about so many bytes, so they can lie side by side. 0:
    // all are made; what was needed to make them is given back.
    virtual void expect_matrices(std::int64_t bytes) = 0;

    virtual base::Status write(Buffer& buffer, std::int64_t first,
                               std::span<const float> values) = 0;
    // The floats [first, first + count), after everything that was called before. They can be
    // looked at until the next call of anything that is not const.
    virtual base::Result<std::span<const float>> read(const Buffer& buffer, std::int64_t first,
                                                      std::int64_t count) = 0;

    virtual void rms_norm(const ops::RmsNorm& op) = 0;
    virtual void matmul(const ops::Matmul& op) = 0;
    virtual void rope(const ops::Rope& op) = 0;
    virtual void kv_store(const ops::KvStore& op) = 0;
    virtual void attention(const ops::Attention& op) = 0;
    virtual void swiglu(const ops::Swiglu& op) = 0;
    virtual void add_rows(const ops::AddRows& op) = 0;
    virtual void add_bias(const ops::AddBias& op) = 0;
    virtual void geglu(const ops::Geglu& op) = 0;
    virtual void reglu(const ops::Reglu& op) = 0;
    virtual void gelu(const ops::Gelu& op) = 0;
    virtual void clamped_swiglu(const ops::ClampedSwiglu& op) = 0;
    virtual void layer_norm(const ops::LayerNorm& op) = 0;
    virtual void scale_rows(const ops::ScaleRows& op) = 0;
    virtual void copy_rows(const ops::CopyRows& op) = 0;
    virtual void route_rows(const ops::RouteRows& op) = 0;
    virtual void gather_visits(const ops::GatherVisits& op) = 0;
    virtual void expert_matmul(const ops::ExpertMatmul& op) = 0;
    virtual void add_visits(const ops::AddVisits& op) = 0;
    virtual void reduce_logits(const ops::ReduceLogits& op) = 0;
};

// Work space that grows as it is needed and never shrinks; its content is lost when it grows.
// unavailable: the device has no memory for it.
base::Status make_room(Device& device, std::unique_ptr<Buffer>& buffer, std::int64_t floats);

// A buffer that holds these values. unavailable: the device has no memory for it.
base::Result<std::unique_ptr<Buffer>> filled_buffer(Device& device, std::span<const float> values);

}  // namespace helix::engine
