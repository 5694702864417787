#include "engine/measure/device_speed.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/index.h"
#include "base/random.h"
#include "engine/measure/kernel_speed.h"
#include "engine/proof/made_data.h"

namespace helix::engine::measure {
namespace {

constexpr std::int64_t kCopyWidth = 1024;  // floats of a row that is copied
constexpr std::int64_t kTriedRows = 16;    // of a prompt, to see how long it takes
constexpr double kLongestPrompt_s = 1;

Speed speed_of(double amount, const Timing& timing) {
    return {amount / timing.seconds, timing};
}

class DeviceMeasurer {
  public:
    DeviceMeasurer(Device& device, const MeasureSize& size, std::uint64_t seed,
                   const std::function<void(std::uint64_t done)>& on_progress)
        : device_(device), size_(size), seed_(seed), on_progress_(on_progress) {}

    base::Result<DeviceSpeed> run() {
        TRY_VOID(copies());
        TRY(speed_.decode_q8_0, decode(model::TensorType::q8_0));
        TRY(speed_.decode_q4_k, decode(model::TensorType::q4_k));
        TRY_VOID(prefill());
        return speed_;
    }

  private:
    base::Status copies() {
        const std::int64_t rows = std::max<std::int64_t>(1, size_.bytes / (8 * kCopyWidth));
        const std::int64_t floats = rows * kCopyWidth;
        const double bytes = 4.0 * static_cast<double>(floats);
        // Drawn once, and again and again: what is copied is as long as it takes.
        base::Random random(seed_);
        const std::vector<float> some = proof::random_floats(random, kCopyWidth * 16);
        std::vector<float> values(base::size_of(floats));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
        TRY(const auto from, filled_buffer(device_, values));
        TRY(const auto to, proof::poisoned_buffer(device_, floats));
        const ops::RowRange all[] = {{0, 0, rows}};
        TRY(const Timing copy, time_calls(size_.each_s, [&](std::int64_t n) {
                for (std::int64_t i = 0; i < n; ++i)
                    device_.copy_rows({*from, *to, kCopyWidth, all});
                return wait_for(device_, *to);
            }));
        speed_.copy = speed_of(2 * bytes, copy);
        done();
        TRY(const std::span<const float> copied,
            device_.read(*to, floats - kCopyWidth, kCopyWidth));
        if (!std::equal(copied.begin(), copied.end(), values.end() - kCopyWidth))
            return base::Error{base::Errc::internal, "a copy has other values"};
        TRY(const Timing up, time_calls(size_.each_s, [&](std::int64_t n) -> base::Status {
                for (std::int64_t i = 0; i < n; ++i) TRY_VOID(device_.write(*from, 0, values));
                return wait_for(device_, *from);
            }));
        speed_.upload = speed_of(bytes, up);
        done();
        TRY(const Timing down, time_calls(size_.each_s, [&](std::int64_t n) -> base::Status {
                for (std::int64_t i = 0; i < n; ++i) {
                    TRY(const std::span<const float> read, device_.read(*from, 0, floats));
                    // Of a device without memory of its own it is the very same memory.
                    if (device_.compute_threads() > 0)
                        std::copy(read.begin(), read.end(), values.begin());
                }
                return base::Ok{};
            }));
        speed_.download = speed_of(bytes, down);
        done();
        return base::Ok{};
    }

    base::Result<Speed> decode(model::TensorType type) {
        TRY(auto matrices,
            RotatedMatrices::create(device_, type, size_.outputs, size_.cols, size_.bytes, seed_));
        TRY(const Timing timing, matrices.time(1, size_.each_s));
        done();
        return speed_of(matrices.stored_bytes(), timing);
    }

    base::Status prefill() {
        TRY(auto matrices, RotatedMatrices::create(device_, model::TensorType::q8_0, size_.outputs,
                                                   size_.cols, size_.bytes / 4, seed_));
        std::int64_t rows = std::min(kTriedRows, size_.most_prompt);
        TRY(const Timing tried, matrices.time(rows, 0));
        const double row_s = tried.seconds / static_cast<double>(rows);
        while (rows < size_.most_prompt && 2 * static_cast<double>(rows) * row_s < kLongestPrompt_s)
            rows *= 2;
        TRY(const Timing timing, matrices.time(rows, size_.each_s));
        speed_.prefill = speed_of(matrices.operations(rows), timing);
        speed_.prefill_rows = rows;
        done();
        return base::Ok{};
    }

    void done() {
        ++done_;
        if (on_progress_) on_progress_(done_);
    }

    Device& device_;
    const MeasureSize& size_;
    std::uint64_t seed_;
    const std::function<void(std::uint64_t done)>& on_progress_;
    std::uint64_t done_ = 0;
    DeviceSpeed speed_;
};

}  // namespace

MeasureSize tiny_size() {
    MeasureSize size;
    size.bytes = std::int64_t{1} << 20;
    size.outputs = 64;
    size.cols = 256;
    size.most_prompt = 32;
    size.each_s = 0.02;
    return size;
}

MeasureSize fitting_size(const Device& device, MeasureSize size) {
    size.bytes = std::min(size.bytes, device.memory_bytes() / 4);
    return size;
}

base::Result<DeviceSpeed> measure_device(
    Device& device, const MeasureSize& size, std::uint64_t seed,
    const std::function<void(std::uint64_t done)>& on_progress) {
    return DeviceMeasurer(device, size, seed, on_progress).run();
}

}  // namespace helix::engine::measure
