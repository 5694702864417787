#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "model/weight_source.h"

namespace helix::model {

// Passes a source's tensors on and counts what was asked for.
class CountedWeights final : public WeightSource {
  public:
    explicit CountedWeights(std::shared_ptr<WeightSource> source) : source_(std::move(source)) {}

    const GgufFile& file() const override { return source_->file(); }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override {
        auto bytes = source_->tensor(name);
        if (bytes.ok()) bytes_read_ += static_cast<std::int64_t>(bytes->size());
        return bytes;
    }
    std::optional<base::Status> read_part(std::string_view name, std::uint64_t offset,
                                          std::span<std::byte> to) override {
        return source_->read_part(name, offset, to);
    }
    void release(std::string_view name) override { source_->release(name); }

    // The bytes of all tensors that were asked for so far, counted each time.
    std::int64_t bytes_read() const { return bytes_read_; }

  private:
    std::shared_ptr<WeightSource> source_;
    std::int64_t bytes_read_ = 0;
};

}  // namespace helix::model
