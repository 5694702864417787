#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "base/result.h"
#include "wire/codec.h"
#include "wire/helix.pb.h"

// Fields of messages that come from outside, each checked; only wire's decoders include this.

namespace helix::wire {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

inline Status in_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (low <= value && value <= high) return Ok{};
    return base::invalid(fmt::format("{} is {}, expected {} to {}", field, value, low, high));
}

inline Status at_most(const char* field, std::uint64_t value, std::uint64_t limit) {
    if (value <= limit) return Ok{};
    return Error{Errc::too_large,
                 fmt::format("{} is {}, at most {} is allowed", field, value, limit)};
}

inline Status finite(const char* field, double value, double low) {
    if (std::isfinite(value) && value >= low) return Ok{};
    return base::invalid(
        fmt::format("{} is {}, expected a number of at least {}", field, value, low));
}

inline Status text(const char* field, const std::string& value) {
    return at_most(field, value.size(), kMaxTextBytes);
}

inline core::SequenceKey get(const pb::SequenceKey& from) {
    return {core::RequestId{from.request()}, from.attempt(), from.member()};
}

inline base::Hash128 get(const pb::Hash128& from) {
    return {from.low(), from.high()};
}

inline Result<core::LayerRange> get_layers(const pb::LayerRange& from,
                                           const SessionLimits& limits) {
    const std::int32_t most = limits.n_layers > 0 ? limits.n_layers : kMaxLayers;
    TRY_VOID(in_range("layers.begin", from.begin(), 0, most));
    TRY_VOID(in_range("layers.end", from.end(), from.begin(), most));
    return core::LayerRange{from.begin(), from.end()};
}

// Says whether all of them can be tokens.
template <typename Tokens>
Status tokens_in_range(const char* field, const Tokens& tokens) {
    const auto wrong = std::find_if(tokens.begin(), tokens.end(), [](std::int32_t token) {
        return token < 0 || token > kMaxVocabSize;
    });
    return wrong == tokens.end() ? Ok{} : in_range(field, *wrong, 0, kMaxVocabSize);
}

// Parts that several kinds of messages have (decode_parts.cc).
using Stages = google::protobuf::RepeatedPtrField<pb::Stage>;
Result<core::Pipeline> get_pipeline(const Stages& from, const SessionLimits& limits);
Result<core::ProducedToken> get(const pb::ProducedToken& from);
Result<spec::ModelSpec> get(const pb::ModelSpec& from);
Result<spec::SamplingParams> get(const pb::SamplingParams& from);

// Of an embedding, or the one of a score.
using Values = google::protobuf::RepeatedField<float>;
Result<std::vector<float>> get_embedding(const Values& from, const SessionLimits& limits);

Status check_sampling(const spec::SamplingParams& params);  // (check_request.cc)

// What a worker has kept (decode_holding.cc).
Result<core::RememberedPlacement> get(const pb::RememberedPlacement& from,
                                      const SessionLimits& limits);
Result<Message> decode_holding(const pb::Holding& from, const SessionLimits& limits);

// What a gateway and the coordinator say to each other; an error if it is of no known kind
// (decode_requests.cc).
Result<Message> decode_of_gateways(const pb::Envelope& from, const SessionLimits& limits);

// Messages of a migration (decode_kv.cc).
Result<Message> decode_kv(const pb::ReserveKv& from, const SessionLimits& limits);
Result<Message> decode_kv(const pb::SendKv& from, const SessionLimits& limits);
Result<Message> decode_kv(const pb::KvBlocks& from, std::size_t payload_bytes,
                          const SessionLimits& limits);
Result<Message> decode_kv(const pb::KvArrived& from, const SessionLimits& limits);

}  // namespace helix::wire
