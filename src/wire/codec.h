#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/messages.h"

// Messages to bytes and back. Whatever the bytes are, decode returns a message that keeps every
// stated range and limit, or an Error (invalid, too_large) that names the field; it never crashes.

namespace helix::wire {

// What one message may hold. No worker of ours sends more.
constexpr std::size_t kMaxMessageBytes = 32U << 20U;   // the encoded message
constexpr std::size_t kMaxPayloadBytes = 128U << 20U;  // the raw frame beside it
constexpr std::int32_t kMaxLayers = 4096;
constexpr std::int32_t kMaxWorkers = 4096;
constexpr std::int32_t kMaxHiddenSize = 1 << 18;
constexpr std::int32_t kMaxVocabSize = 1 << 24;
constexpr std::int32_t kMaxPosition = 1 << 24;  // of a token in its sequence
constexpr int kMaxItems = 1 << 20;              // inputs, tokens, keys of one message
constexpr int kMaxLogprobs = 1024;
constexpr int kMaxMembers = 256;  // that one message may add to a sequence group
constexpr int kMaxTensors = 1 << 17;
// Of a request: its prompt, its prediction, its stop tokens and what it has of output already.
// Tokens take up to 4 bytes, and logit biases up to 8 MiB, so it stays below kMaxMessageBytes.
constexpr std::size_t kMaxRequestTokens = std::size_t{1} << 22U;
constexpr double kMaxLengthPenalty = 10;                 // of a beam search; or so far below 0
constexpr std::uint32_t kMaxAttemptsBefore = 1U << 31U;  // as many are left for those to come
constexpr int kMaxNames = 1024;                          // of the model
constexpr std::size_t kMaxTextBytes = 4096;              // names, endpoints, reasons
constexpr std::size_t kMaxTemplateBytes = 1U << 20U;     // a chat template
constexpr std::uint32_t kMaxChunkBytes = 4U << 20U;
constexpr std::uint64_t kMaxHeaderBytes = 1ULL << 30U;
constexpr std::uint32_t kMaxPingBytes = 2U << 20U;
constexpr std::int64_t kMaxTimeNs = std::int64_t{1} << 61U;  // before or after a clock's origin

// What the receiver knows of its session. 0: not known yet, so messages that need it are refused.
struct SessionLimits {
    std::int32_t n_layers = 0;
    std::int32_t hidden_size = 0;  // a row of activations is hidden_size floats
};

// The sender keeps the limits above: what is over one is encoded all the same, and refused where it
// arrives. Only texts that say why a single request came to nothing are cut to kMaxTextBytes. A
// StageInput with a payload (payload.rows > 0) must have as many rows as tokens. The sender puts
// the rows into the raw frame, input after input. buffer and first_row are not encoded.
std::string encode(const Message& message);

// payload_bytes is the size of the raw frame beside the message, 0 if there is none; it is checked
// against what the message says. Decoded StageInputs have payload.first_row and rows set, and
// buffer 0.
base::Result<Message> decode(std::span<const std::byte> bytes, std::size_t payload_bytes,
                             const SessionLimits& limits);

// ok if decode takes the request; else what is wrong with it. With more than kMaxRequestTokens it
// is refused, and so is one whose prompt and output of one choice are more than kMaxItems tokens,
// which go to a worker in one message. The sender asks, since whoever gets a message that is wrong
// ends the connection.
base::Status check_request(const core::Submitted& message);

// For log lines: "StageInputs".
const char* message_name(const Message& message);

}  // namespace helix::wire
