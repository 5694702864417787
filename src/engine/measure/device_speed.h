#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/measure/timing.h"

// What a device reaches, by the same definitions on all: the ceilings that kernels are measured
// against.

namespace helix::engine::measure {

struct MeasureSize {
    // That a copy takes, and matrices that are multiplied by in turn: far more than caches hold.
    std::int64_t bytes = std::int64_t{512} << 20;
    std::int64_t outputs = 14336;  // of the matrices of decode and prefill
    std::int64_t cols = 4096;
    std::int64_t most_prompt = 4096;  // rows of a prefill; fewer where one takes over a second
    double each_s = 0.5;              // that each figure takes, about
};
// For trying it out: says nothing of a device's speed.
MeasureSize tiny_size();
// No more than a quarter of what the device has free.
MeasureSize fitting_size(const Device& device, MeasureSize size);

// A figure and what it was measured over.
struct Speed {
    double per_s = 0;
    Timing timing;
};

struct DeviceSpeed {
    Speed copy;         // bytes read and bytes written in a second, from its memory to its memory
    Speed upload;       // bytes from this machine's memory to the device's, as weights and rows go
    Speed download;     // back
    Speed decode_q8_0;  // bytes of weights (as GGUF stores them) by which one row is multiplied
    Speed decode_q4_k;
    Speed prefill;  // operations (two for each weight and row) of a prompt with a Q8_0 matrix
    std::int64_t prefill_rows = 0;
    // Operations of dot products alone, by whoever can measure it; 0: nobody has.
    Speed dot_peak;
};
constexpr int kDeviceSpeeds = 6;

// Inputs are random, outputs poisoned before, and what was computed is looked at. on_progress: how
// many of kDeviceSpeeds are done; may be empty.
base::Result<DeviceSpeed> measure_device(
    Device& device, const MeasureSize& size, std::uint64_t seed,
    const std::function<void(std::uint64_t done)>& on_progress);

}  // namespace helix::engine::measure
