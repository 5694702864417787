#pragma once

#include <string>

#include "wire/codec.h"
#include "wire/helix.pb.h"

// Parts of messages, written; only wire's encoders include this.

namespace helix::wire {

using Stages = google::protobuf::RepeatedPtrField<pb::Stage>;

// As much of a text for people as a message may have: whole characters, if it is UTF-8.
std::string cut(const std::string& text);

// Parts that several kinds of messages have (encode_parts.cc).
void put(const core::SequenceKey& key, pb::SequenceKey& out);
void put(const core::LayerRange& range, pb::LayerRange& out);
void put(const core::Pipeline& pipeline, Stages& out);
void put(const base::Hash128& hash, pb::Hash128& out);
void put(const spec::SamplingParams& params, pb::SamplingParams& out);
void put(const core::ProducedToken& token, pb::ProducedToken& out);
void put(const spec::ModelSpec& model, pb::ModelSpec& out);
void put(const core::RememberedPlacement& placement, pb::RememberedPlacement& out);
void put(const core::SequenceHeld& held, pb::SequenceHeld& out);

// What a gateway and the coordinator say to each other (encode_requests.cc).
void put(const GatewayHello& message, pb::GatewayHello& out);
void put(const GatewayWelcome& message, pb::GatewayWelcome& out);
void put(const core::RequestNumbers& message, pb::RequestNumbers& out);
void put(const core::Submitted& message, pb::SubmitRequest& out);
void put(const core::Ended& message, pb::EndRequest& out);
void put(const core::MoveRequest& message, pb::MoveRequest& out);
void put(const core::RequestEvents& message, pb::RequestEvents& out);
void put(const GatewayView& message, pb::GatewayView& out);

}  // namespace helix::wire
