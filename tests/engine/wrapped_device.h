#pragma once

#include <memory>
#include <span>
#include <utility>

#include "engine/device/device.h"

namespace helix::engine::test {

// Does what another device does; tests override what is to go wrong.
class WrappedDevice : public Device {
  public:
    explicit WrappedDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

    std::int64_t memory_bytes() const override { return device_->memory_bytes(); }
    std::int32_t compute_threads() const override { return device_->compute_threads(); }
    ThreadPool& host_threads() override { return device_->host_threads(); }
    bool lost() const override { return device_->lost(); }
    void start() override { device_->start(); }
    base::Result<std::unique_ptr<Buffer>> make_buffer(std::int64_t floats) override {
        return device_->make_buffer(floats);
    }
    base::Result<std::unique_ptr<KvArena>> make_kv_arena(const ops::KvLayout& page,
                                                         std::int64_t pages,
                                                         std::int64_t swap_pages) override {
        return device_->make_kv_arena(page, pages, swap_pages);
    }
    std::unique_ptr<Routing> make_routing() override { return device_->make_routing(); }
    base::Result<std::unique_ptr<Matrix>> make_matrix(const MatrixShape& shape,
                                                      std::span<const std::byte> data) override {
        return device_->make_matrix(shape, data);
    }
    std::int64_t matrix_bytes(const MatrixShape& shape) const override {
        return device_->matrix_bytes(shape);
    }
    void expect_matrices(std::int64_t bytes) override { device_->expect_matrices(bytes); }
    base::Status write(Buffer& buffer, std::int64_t first, std::span<const float> values) override {
        return device_->write(buffer, first, values);
    }
    base::Result<std::span<const float>> read(const Buffer& buffer, std::int64_t first,
                                              std::int64_t count) override {
        return device_->read(buffer, first, count);
    }
    void rms_norm(const ops::RmsNorm& op) override { device_->rms_norm(op); }
    void matmul(const ops::Matmul& op) override { device_->matmul(op); }
    void rope(const ops::Rope& op) override { device_->rope(op); }
    void kv_store(const ops::KvStore& op) override { device_->kv_store(op); }
    void attention(const ops::Attention& op) override { device_->attention(op); }
    void swiglu(const ops::Swiglu& op) override { device_->swiglu(op); }
    void add_rows(const ops::AddRows& op) override { device_->add_rows(op); }
    void add_bias(const ops::AddBias& op) override { device_->add_bias(op); }
    void geglu(const ops::Geglu& op) override { device_->geglu(op); }
    void reglu(const ops::Reglu& op) override { device_->reglu(op); }
    void gelu(const ops::Gelu& op) override { device_->gelu(op); }
    void clamped_swiglu(const ops::ClampedSwiglu& op) override { device_->clamped_swiglu(op); }
    void layer_norm(const ops::LayerNorm& op) override { device_->layer_norm(op); }
    void scale_rows(const ops::ScaleRows& op) override { device_->scale_rows(op); }
    void copy_rows(const ops::CopyRows& op) override { device_->copy_rows(op); }
    void route_rows(const ops::RouteRows& op) override { device_->route_rows(op); }
    void gather_visits(const ops::GatherVisits& op) override { device_->gather_visits(op); }
    void expert_matmul(const ops::ExpertMatmul& op) override { device_->expert_matmul(op); }
    void add_visits(const ops::AddVisits& op) override { device_->add_visits(op); }
    void reduce_logits(const ops::ReduceLogits& op) override { device_->reduce_logits(op); }

  private:
    std::unique_ptr<Device> device_;
};

}  // namespace helix::engine::test
