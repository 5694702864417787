#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "spec/layer_range.h"
#include "spec/sampling_params.h"

// The nouns that Coordinator and Worker share.

namespace helix::core {

using base::Duration;
using base::TimePoint;
using spec::LayerRange;
using spec::Token;

using RequestId = base::Id<struct RequestIdTag>;
using WorkerId = base::Id<struct WorkerIdTag, std::uint32_t>;
using PageId = std::uint32_t;
// Stands in tables for a page that was given back, because nothing will read it again.
constexpr PageId kNoPage = 0xffffffff;
// A model among those that a cluster serves. Each has a coordinator of its own, whose config gives
// it its number (CoordinatorConfig::model).
using ModelId = base::Id<struct ModelIdTag, std::uint32_t>;

// Names one sequence of one attempt to run a request. Whatever carries an older attempt is ignored
// everywhere (fencing).
struct SequenceKey {
    RequestId request;
    std::uint32_t attempt = 0;
    // The number of the sequence within its request. Member 0 begins with the prompt, the others
    // are forked from earlier members. Numbers are not used again within an attempt.
    std::uint32_t member = 0;
    auto operator<=>(const SequenceKey&) const = default;
};

// One hop of a pipeline: the layers this worker really runs for the request.
struct Stage {
    WorkerId worker;
    LayerRange layers;
    bool operator==(const Stage&) const = default;
};

// Stages in order; their layers concatenate to exactly [0, L).
using Pipeline = std::vector<Stage>;

// Says whether one of the two sends rows to the other.
inline bool neighbours(const Pipeline& pipeline, WorkerId one, WorkerId other) {
    for (std::size_t i = 1; i < pipeline.size(); ++i) {
        const WorkerId before = pipeline[i - 1].worker;
        const WorkerId after = pipeline[i].worker;
        if ((before == one && after == other) || (before == other && after == one)) return true;
    }
    return false;
}

// How a request, or one of its choices, ended.
enum class FinishReason : std::uint8_t {
    stop,
    length,
    cancelled,
    error,            // something failed here; the same request may go well another time
    invalid_request,  // what it asks for cannot be done within its budgets: it would end alike
                      // again
    kills_workers,    // workers died of it, the last with nothing else to do
};
inline constexpr FinishReason kLastFinishReason = FinishReason::kills_workers;
// Whether it has all that it asked for.
constexpr bool is_whole(FinishReason reason) {
    return reason == FinishReason::stop || reason == FinishReason::length;
}

}  // namespace helix::core
