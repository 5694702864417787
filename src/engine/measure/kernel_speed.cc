#include "engine/measure/kernel_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/index.h"
#include "base/random.h"
#include "engine/measure/rotated_pages.h"
#include "engine/proof/made_data.h"

namespace helix::engine::measure {
namespace {

using KernelClock = std::chrono::steady_clock;
using model::TensorType;

// Those that models most often have first.
constexpr TensorType kByUse[] = {
    TensorType::q8_0, TensorType::q4_k, TensorType::q6_k, TensorType::q4_0,   TensorType::f16,
    TensorType::bf16, TensorType::q5_k, TensorType::q3_k, TensorType::iq4_nl, TensorType::mxfp4,
    TensorType::q5_0, TensorType::q4_1, TensorType::q5_1, TensorType::f32};

struct ShapeOfModel {
    const char* name;
    std::int64_t outputs, cols;  // of a matrix of its feed-forward
    PageShape heads;
};
constexpr ShapeOfModel kShapes[] = {{"1B", 5632, 2048, {32, 4, 64}},
                                    {"8B", 14336, 4096, {32, 8, 128}}};
constexpr ShapeOfModel kTinyShapes[] = {{"tiny", 64, 256, {4, 2, 16}}};
constexpr std::int64_t kRows[] = {1, 8, 64, 512, 4096};
constexpr std::int64_t kMostDecodes = 64;  // of kRows: more are a prompt
constexpr std::int32_t kContexts[] = {4096, 32768};
constexpr std::int32_t kTinyContexts[] = {64, 300};
constexpr std::int32_t kSequences = 8;
constexpr std::int64_t kPromptRows = 512;  // that attend at once
constexpr double kLeastCalls = 4;          // of what is measured, where each takes long

class KernelMeasurer {
  public:
    KernelMeasurer(Device& device, const KernelRequest& request)
        : device_(device), request_(request), began_(KernelClock::now()) {}

    base::Result<KernelSpeeds> run() {
        const std::span<const ShapeOfModel> shapes =
            request_.tiny ? std::span<const ShapeOfModel>(kTinyShapes) : kShapes;
        total_ = shapes.size() * (std::size(kByUse) + std::size(kContexts));
        // Attention comes after the two formats that matter most.
        for (std::size_t i = 0; i < std::size(kByUse); ++i) {
            if (i == 2) {
                for (const ShapeOfModel& shape : shapes) TRY_VOID(attention(shape));
            }
            for (const ShapeOfModel& shape : shapes) {
                TRY_VOID(matrix(kByUse[i], shape));
                report();
            }
        }
        return std::move(speeds_);
    }

  private:
    double left_s() const {
        return request_.budget_s -
               std::chrono::duration<double>(KernelClock::now() - began_).count();
    }
    bool late() const { return left_s() < 0; }
    // Whether there is time for what will take so long: it is made a few times at least.
    bool too_long(double once_s) const { return kLeastCalls * once_s > left_s(); }
    void skip(const std::string& what, const std::string& why) {
        speeds_.skipped.push_back(what + ": " + why);
    }
    void report() {
        ++done_;
        if (request_.on_progress) request_.on_progress(done_, total_);
    }

    base::Status matrix(TensorType type, const ShapeOfModel& shape) {
        const std::string format = model::tensor_type_info(type)->name;
        const std::string what = fmt::format("{} {}", format, shape.name);
        if (late()) return skip(what, "no time left"), base::Ok{};
        auto matrices = RotatedMatrices::create(device_, type, shape.outputs, shape.cols,
                                                request_.size.bytes, request_.seed);
        if (!matrices.ok()) {
            if (matrices.error().code != base::Errc::unavailable) return matrices.error();
            return skip(what, matrices.error().message), base::Ok{};
        }
        double row_s = 0;  // of as many rows as were measured last
        for (const std::int64_t given : kRows) {
            const std::int64_t rows = request_.tiny ? std::min<std::int64_t>(given, 64) : given;
            if (rows < given && given > 512) continue;  // tiny prompts are all alike
            if (late() || too_long(row_s * static_cast<double>(rows))) {
                skip(fmt::format("{}, {} rows", what, rows), "no time left");
                continue;
            }
            TRY(const Timing timing, matrices->time(rows, request_.size.each_s));
            row_s = timing.seconds / static_cast<double>(rows);
            KernelSpeed speed{format, shape.name, given, timing};
            speed.rows = rows;
            speed.bytes_per_s = matrices->stored_bytes() / timing.seconds;
            speed.ops_per_s = matrices->operations(rows) / timing.seconds;
            set_share(speed, given <= kMostDecodes);
            speeds_.measured.push_back(std::move(speed));
        }
        return base::Ok{};
    }

    void set_share(KernelSpeed& speed, bool decode) const {
        const DeviceSpeed& ceilings = request_.ceilings;
        if (decode) {
            speed.share_of = "copy";
            speed.share = speed.bytes_per_s / ceilings.copy.per_s;
        } else if (ceilings.dot_peak.per_s > 0) {
            speed.share_of = "dot";
            speed.share = speed.ops_per_s / ceilings.dot_peak.per_s;
        } else {
            speed.share_of = "prefill";
            speed.share = speed.ops_per_s / ceilings.prefill.per_s;
        }
    }

    base::Status attention(const ShapeOfModel& shape) {
        const std::span<const std::int32_t> contexts = request_.tiny ? kTinyContexts : kContexts;
        for (const std::int32_t context : contexts) {
            const std::string what = fmt::format("{}, {} positions", shape.name, context);
            report();
            if (late()) {
                skip("attention " + what, "no time left");
                continue;
            }
            auto pages =
                RotatedPages::create(device_, shape.heads, context, kSequences, request_.seed);
            if (!pages.ok()) {
                if (pages.error().code != base::Errc::unavailable) return pages.error();
                skip("attention " + what, pages.error().message);
                continue;
            }
            for (const std::int32_t sequences : {1, kSequences})
                TRY_VOID(attend(*pages, what, sequences, 1));
            TRY_VOID(attend(*pages, what, 1, std::min<std::int64_t>(kPromptRows, context / 2)));
        }
        return base::Ok{};
    }

    base::Status attend(RotatedPages& pages, const std::string& shape, std::int32_t sequences,
                        std::int64_t rows) {
        const double operations = pages.operations(sequences, rows);
        if (late() || too_long(operations * attention_op_s_)) {
            skip(fmt::format("attention {}, {} rows", shape, sequences * rows), "no time left");
            return base::Ok{};
        }
        TRY(const Timing timing, pages.time(sequences, rows, request_.size.each_s));
        attention_op_s_ = timing.seconds / operations;
        KernelSpeed speed{"attention f16", shape, sequences * rows, timing};
        speed.bytes_per_s = pages.bytes_of_sequence() * sequences / timing.seconds;
        speed.ops_per_s = operations / timing.seconds;
        set_share(speed, rows == 1);
        speeds_.measured.push_back(std::move(speed));
        return base::Ok{};
    }

    Device& device_;
    const KernelRequest& request_;
    KernelClock::time_point began_;
    std::uint64_t done_ = 0;
    std::uint64_t total_ = 0;
    double attention_op_s_ = 0;  // as it was measured last
    KernelSpeeds speeds_;
};

}  // namespace

base::Result<KernelSpeeds> measure_kernels(Device& device, const KernelRequest& request) {
    return KernelMeasurer(device, request).run();
}

}  // namespace helix::engine::measure
