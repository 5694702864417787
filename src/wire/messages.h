#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/protocol/gateway_messages.h"
#include "core/protocol/messages.h"
#include "core/protocol/request.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

// What coordinator, workers and gateways say to each other besides core's messages, about joining,
// measuring, weights and requests. Plain data.

namespace helix::wire {

// Raised whenever an older peer could misunderstand a message.
constexpr std::uint32_t kProtocolVersion = 12;

// ---- joining
// --------------------------------------------------------------------------------------

// Coordinators have terms, which rise: of two, the one of the higher term is the later. Workers and
// gateways say the highest term that they have heard of, and join no coordinator of a lower one.

// A worker's first words to the coordinator.
struct Hello {
    std::uint32_t protocol = kProtocolVersion;
    std::uint64_t incarnation = 0;  // rises with every join of the same worker
    std::string name;
    std::string host;  // identifies the machine; equal for processes on one machine
    std::string type;
    std::string region;
    std::int32_t cores = 0;
    std::int64_t memory_bytes = 0;
    std::string
        endpoint;  // where peers reach it; host "*" = the host the coordinator is reached at
    std::string public_key;  // Z85, empty without CURVE
    std::string backend;     // "cpu", "modelled"
    spec::NodeRole role = spec::NodeRole::both;
    std::string device;      // what computes, where it is not the host's cores: unique on the host
    std::uint64_t term = 0;  // 0 = it has heard of none
    // The worker that it was under an earlier coordinator, of which it has kept something. If the
    // Welcome gives it this number again, it says its core::Holding before its ProfileReport, and
    // does not measure anew. Else it ends the connection, drops what it has kept, and comes again.
    std::optional<core::WorkerId> known_as = {};
    // The part that it computes with of the host's cores, or of the device: above 0, at most 1.
    double core_share = 1;
    bool operator==(const Hello&) const = default;
};

// The coordinator's answer: what is served here.
struct Welcome {
    std::uint64_t term = 0;
    core::WorkerId worker;
    spec::ModelSpec model;
    base::Hash128 model_hash;
    std::int32_t hidden_size = 0;
    std::int32_t vocab_size = 0;
    std::int32_t block_size = 0;
    std::string kv_type;     // of the KV pages, like "f16"; the spec counts with it
    core::ModelId model_id;  // names the model in the messages that follow
};

// The worker or gateway may not join, or not now. final: trying again without changing something is
// useless.
struct Refused {
    std::string reason;
    bool final = false;
    bool operator==(const Refused&) const = default;
};

struct Goodbye {
    std::string reason;
    bool dismissed = false;  // the coordinator dismisses it: it is not to come back
    // The worker's device was lost, perhaps by what it ran: this counts as its death.
    bool device_lost = false;
    bool operator==(const Goodbye&) const = default;
};

// A worker's first words to another worker.
struct PeerHello {
    std::uint32_t protocol = kProtocolVersion;
    core::WorkerId worker;
    std::uint64_t incarnation = 0;
    bool operator==(const PeerHello&) const = default;
};

// Public keys of all workers of the cluster (Z85): who may connect to a worker from now on.
struct AllowKeys {
    std::vector<std::string> keys;
    bool operator==(const AllowKeys&) const = default;
};

// ---- measuring
// ------------------------------------------------------------------------------------

struct ProbePeer {
    core::WorkerId worker;
    std::string endpoint;
    std::string public_key;
    std::string host;
    bool operator==(const ProbePeer&) const = default;
};

// Measure yourself and the links to the coordinator and these peers.
struct ProfileRequest {
    std::vector<ProbePeer> peers;
    bool operator==(const ProfileRequest&) const = default;
};

struct ProfileReport {
    double decode_s_per_layer = 0;
    double decode_batch_s_per_layer = 0;
    double prefill_s_per_token_layer = 0;
    std::vector<spec::LinkSpec> links;  // node indices are worker ids
};

// The raw frame beside it is padding; the answer carries reply_bytes of padding.
struct Ping {
    std::uint64_t id = 0;
    std::uint32_t reply_bytes = 0;
    bool operator==(const Ping&) const = default;
};
struct Pong {
    std::uint64_t id = 0;
    bool operator==(const Pong&) const = default;
};

// ---- weights
// --------------------------------------------------------------------------------------

// Who asks for the weights of a model that is not served here is cut off.
struct ManifestRequest {
    core::ModelId model;
    bool operator==(const ManifestRequest&) const = default;
};
struct ManifestTensor {
    std::string name;
    std::uint64_t bytes = 0;
    base::Hash128 hash;
    bool operator==(const ManifestTensor&) const = default;
};
// The served file: its header (everything before the tensor data) and its tensors.
struct Manifest {
    std::uint64_t header_bytes = 0;
    base::Hash128 header_hash;
    std::vector<ManifestTensor> tensors;
    bool operator==(const Manifest&) const = default;
};

constexpr std::int32_t kHeaderChunk =
    -1;  // stands for the file's header in place of a tensor's index

// Asks for length bytes of tensors[tensor] of the model's manifest, from offset on. Whoever asks
// for a tensor's first bytes may get a TensorHolder instead; its requests for further bytes of it
// are then void. failed_peer: the holder that was named did not give the tensor; the coordinator
// does.
struct ChunkRequest {
    core::ModelId model;
    std::int32_t tensor = kHeaderChunk;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::optional<core::WorkerId> failed_peer = {};
    bool operator==(const ChunkRequest&) const = default;
};
// A part of the file. Its bytes are the raw frame; error is set when there are none.
struct Chunk {
    std::int32_t tensor = kHeaderChunk;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::string error;
    bool operator==(const Chunk&) const = default;
};

// Where a worker has a tensor from.
enum class TensorSource : std::uint8_t {
    coordinator,
    peer,
    cache,    // its own disk
    earlier,  // it had it before this session, so nothing was read
};
constexpr TensorSource kLastTensorSource = TensorSource::earlier;
// A worker has these tensors of the manifest and has checked them. shared: it keeps what it gets,
// and gives it to other workers that ask.
struct TensorsReady {
    core::ModelId model;
    std::vector<std::int32_t> tensors;
    TensorSource source = TensorSource::earlier;
    bool shared = false;
    bool operator==(const TensorsReady&) const = default;
};
// The coordinator's answer to who asks for a tensor that another worker has: ask that one. Without
// a peer: somebody is about to have it; wait, and do not ask again.
struct TensorHolder {
    std::int32_t tensor = 0;
    std::optional<core::Peer> peer;
    std::string name;  // of the peer, for people
    bool operator==(const TensorHolder&) const = default;
};
// Asks another worker for length bytes of the tensor with this content, from offset on.
struct TensorRequest {
    base::Hash128 hash;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    bool operator==(const TensorRequest&) const = default;
};
// A part of a tensor. Its bytes are the raw frame; error is set when there are none.
struct TensorPiece {
    base::Hash128 hash;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::string error;
    bool operator==(const TensorPiece&) const = default;
};

// ---- gateways
// -------------------------------------------------------------------------------------

// A gateway's first words to the coordinator. It holds requests for clients, from their acceptance
// to the last token, whichever coordinators come and go meanwhile.
struct GatewayHello {
    std::uint32_t protocol = kProtocolVersion;
    std::string name;
    std::string public_key;  // Z85, empty without CURVE
    std::uint64_t term = 0;  // 0 = it has heard of none
    bool operator==(const GatewayHello&) const = default;
};

// The coordinator's answer: what is served, and what clients are told of it. The gateway may ask
// for the model's manifest and header as a worker does.
struct GatewayWelcome {
    std::uint64_t term = 0;
    spec::ModelSpec model;
    base::Hash128 model_hash;
    std::int32_t hidden_size = 0;
    std::int32_t vocab_size = 0;
    core::ModelId model_id;
    std::vector<std::string> names;  // of the model, the first is what it is called
    std::int64_t created = 0;        // Unix seconds
    std::string chat_template;       // Jinja source in place of the model's own; "" = its own
    std::string tool_parser;         // as --tool-parser says it
    std::string http_endpoint;  // "http://HOST:PORT" of the coordinator's pages; host "*" = the
                                // host the coordinator is reached at
    std::string kv_type;        // of the KV pages, as in Welcome: tokens are determined by it, too
};

// How the coordinator is, told several times a second.
struct GatewayView {
    bool serving = false;
    std::int64_t capacity_tokens = 0;  // that one request may have
    std::int64_t waiting = 0;          // requests, of all gateways
    std::int64_t running = 0;
    bool operator==(const GatewayView&) const = default;
};

using Message =
    std::variant<core::AssignLayers, core::StageInputs, core::FreeSequences, core::TokensProduced,
                 core::LayersReady, core::LayersFailed, core::SequenceStuck, core::WorkerReport,
                 Hello, Welcome, Refused, ProfileRequest, ProfileReport, ManifestRequest, Manifest,
                 ChunkRequest, Chunk, Ping, Pong, PeerHello, Goodbye, AllowKeys,
                 core::ForkSequences, core::SwapSequences, core::ReserveKv, core::SendKv,
                 core::KvBlocks, core::KvReserved, core::KvArrived, core::KvRefused, core::PeerLost,
                 core::StageTimes, TensorsReady, TensorHolder, TensorRequest, TensorPiece,
                 core::Holding, GatewayHello, GatewayWelcome, core::RequestNumbers, core::Submitted,
                 core::Ended, core::MoveRequest, core::RequestEvents, GatewayView>;

}  // namespace helix::wire
