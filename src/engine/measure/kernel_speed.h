#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/measure/device_speed.h"
#include "engine/measure/timing.h"
#include "model/tensor_type.h"

// Operators one by one, at the shapes of models.

namespace helix::engine::measure {

// Matrices of one format and shape, so many that in turn they are read from memory.
class RotatedMatrices {
  public:
    static base::Result<RotatedMatrices> create(Device& device, model::TensorType type,
                                                std::int64_t outputs, std::int64_t cols,
                                                std::int64_t bytes, std::uint64_t seed);
    // Of rows with one of them. internal: something was not computed.
    base::Result<Timing> time(std::int64_t rows, double budget_s);
    double stored_bytes() const { return stored_bytes_; }  // of one
    double operations(std::int64_t rows) const {
        return 2.0 * static_cast<double>(rows * outputs_ * cols_);
    }

  private:
    RotatedMatrices(Device& device, std::int64_t outputs, std::int64_t cols, std::uint64_t seed)
        : device_(&device), outputs_(outputs), cols_(cols), seed_(seed) {}

    Device* device_;
    std::int64_t outputs_;
    std::int64_t cols_;
    std::uint64_t seed_;
    double stored_bytes_ = 0;
    std::vector<std::unique_ptr<Matrix>> matrices_;
    std::size_t next_ = 0;
};

struct KernelSpeed {
    std::string kernel;  // "q8_0", "attention f16"
    std::string shape;   // "1B", "8B, 4096 positions"
    std::int64_t rows = 0;
    Timing timing;
    double bytes_per_s = 0;  // of weights, or of keys and values
    double ops_per_s = 0;
    // Of the copy's bytes where it is bytes that take the time, else of the operations of dot
    // products alone, or where these are not known of the prefill's.
    double share = 0;
    const char* share_of = "";  // "copy", "dot" or "prefill"
};

struct KernelRequest {
    MeasureSize size;
    bool tiny = false;  // tiny shapes, for trying it out
    DeviceSpeed ceilings;
    std::uint64_t seed = 0;
    double budget_s = 120;
    std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;  // may be empty
};

struct KernelSpeeds {
    std::vector<KernelSpeed> measured;
    std::vector<std::string> skipped;  // for want of time or memory; says which and why
};

// The product of 1, 8, 64, 512 and 4096 rows with a feed-forward matrix of a 1B and an 8B model in
// every format, and attention after 4,096 and 32,768 positions. What matters most comes first; what
// the budget has no time for is skipped.
base::Result<KernelSpeeds> measure_kernels(Device& device, const KernelRequest& request);

}  // namespace helix::engine::measure
