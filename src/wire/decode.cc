#include <algorithm>
#include <cmath>
#include <limits>

#include "spec/serving_policy.h"
#include "wire/decode_fields.h"

// Every field is checked here, once, so that nobody behind decode() has to.

namespace helix::wire {
namespace {

using wire::get;  // of parts that several kinds have

constexpr auto kMaxStuckCause = static_cast<std::int64_t>(core::kLastStuckCause);
constexpr auto kMaxKvRefusal = static_cast<std::int64_t>(core::kLastKvRefusal);

Result<core::SequenceStart> get_start(const pb::SequenceStart& from, const SessionLimits& limits) {
    core::SequenceStart start;
    TRY(start.pipeline, get_pipeline(from.pipeline(), limits));
    TRY_VOID(in_range("prompt_tokens", from.prompt_tokens(), 1, kMaxPosition));
    start.prompt_tokens = from.prompt_tokens();
    TRY(start.sampling, get(from.sampling()));
    TRY_VOID(in_range("cached tokens", from.cached_size(), 0, kMaxPosition));
    TRY_VOID(tokens_in_range("cached token", from.cached()));
    start.cached.assign(from.cached().begin(), from.cached().end());
    start.high_priority = from.high_priority();
    start.timed = from.timed();
    start.forks = from.forks();
    TRY_VOID(in_range("pooling", from.pooling(), 0, static_cast<std::int32_t>(spec::kLastPooling)));
    start.pooling = static_cast<spec::Pooling>(from.pooling());
    const bool pools = start.pooling != spec::Pooling::none;
    if (pools && !spec::needs_last_alone(start.pooling)) {
        // Every row is pooled, so every row has to be computed.
        TRY_VOID(in_range("cached tokens of a pooled prompt", from.cached_size(), 0, 0));
    }
    TRY_VOID(in_range("scored tokens of a pooled prompt", pools ? from.scored_size() : 0, 0, 0));
    if (from.scored_size() == 0) return start;
    TRY_VOID(
        in_range("scored tokens", from.scored_size(), start.prompt_tokens, start.prompt_tokens));
    TRY_VOID(tokens_in_range("scored token", from.scored()));
    // Tokens that are not computed have no log-probabilities.
    TRY_VOID(in_range("cached tokens of a scored prompt", from.cached_size(), 0, 0));
    TRY_VOID(in_range("n_logprobs of a scored prompt", start.sampling.n_logprobs, 0, kMaxLogprobs));
    start.scored.assign(from.scored().begin(), from.scored().end());
    return start;
}

Result<core::StageInput> get_input(const pb::StageInput& from, const SessionLimits& limits) {
    core::StageInput input;
    input.key = get(from.key());
    TRY_VOID(in_range("tokens of a stage input", from.tokens_size(), 1, kMaxItems));
    TRY_VOID(
        in_range("first_position", from.first_position(), 0, kMaxPosition - from.tokens_size()));
    input.first_position = from.first_position();
    TRY_VOID(tokens_in_range("token", from.tokens()));
    input.tokens.assign(from.tokens().begin(), from.tokens().end());
    input.sample = from.sample();
    TRY_VOID(in_range("drafts", from.drafts(), 0, from.sample() ? from.tokens_size() - 1 : 0));
    input.drafts = from.drafts();
    TRY_VOID(in_range("draws", from.draws(), 1, from.sample() ? kMaxMembers : 1));
    input.draws = from.draws();
    TRY_VOID(in_range("parent_plus_1", from.parent_plus_1(), 0, kMaxPosition));
    input.parent = from.parent_plus_1() - 1;
    if (!from.has_start() && from.first_position() == 0) {
        return base::invalid("a stage input at position 0 must carry its start");
    }
    if (!from.has_start()) return input;
    if (input.parent >= 0) return base::invalid("a forked member starts as its parent did");
    TRY(input.start, get_start(from.start(), limits));
    // The first rows are those that follow the cached ones.
    TRY_VOID(in_range("first_position", input.first_position, input.start->cached_tokens(),
                      input.start->cached_tokens()));
    return input;
}

Result<Message> get(const pb::StageInputs& from, std::size_t payload_bytes,
                    const SessionLimits& limits) {
    TRY_VOID(in_range("stage inputs", from.inputs_size(), 1, kMaxItems));
    core::StageInputs message;
    message.inputs.reserve(static_cast<std::size_t>(from.inputs_size()));
    std::uint64_t rows = 0;
    for (const pb::StageInput& one : from.inputs()) {
        TRY(core::StageInput input, get_input(one, limits));
        if (one.has_rows()) {
            const auto count = static_cast<std::uint32_t>(one.tokens_size());
            input.payload = {0, static_cast<std::uint32_t>(rows), count};
            rows += count;
            TRY_VOID(at_most("rows of a message", rows, kMaxItems));
        }
        message.inputs.push_back(std::move(input));
    }
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(limits.hidden_size) * sizeof(float);
    if (rows > 0 && row_bytes == 0) return base::invalid("activations before the model is known");
    if (rows * row_bytes != payload_bytes) {
        return base::invalid(
            fmt::format("raw frame has {} bytes, {} rows of {} bytes were announced", payload_bytes,
                        rows, row_bytes));
    }
    return Message{std::move(message)};
}

Result<core::Peer> get(const pb::Peer& from) {
    TRY_VOID(text("endpoint", from.endpoint()));
    TRY_VOID(text("public_key", from.public_key()));
    return core::Peer{core::WorkerId{from.worker()}, from.endpoint(), from.public_key()};
}

constexpr double kLeastPrefillShare = 1e-9;
constexpr double kLeastCoreShare = 1e-9;

Result<Message> get(const pb::AssignLayers& from, const SessionLimits& limits) {
    core::AssignLayers message;
    message.epoch = from.epoch();
    TRY(message.layers, get_layers(from.layers(), limits));
    TRY_VOID(in_range("pipeline_groups", from.pipeline_groups(), 1, spec::kMostDecodeGroups));
    message.pipeline_groups = from.pipeline_groups();
    TRY_VOID(in_range("peers", from.peers_size(), 0, kMaxWorkers));
    for (const pb::Peer& one : from.peers()) {
        TRY(core::Peer peer, get(one));
        message.peers.push_back(std::move(peer));
    }
    message.model = core::ModelId{from.model()};
    if (from.has_placement()) {
        TRY(message.placement, get(from.placement(), limits));
    }
    if (from.prefill_share() != 0) {
        TRY_VOID(finite("prefill_share", from.prefill_share(), kLeastPrefillShare));
        message.prefill_share = from.prefill_share();
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::FreeSequences& from) {
    TRY_VOID(in_range("keys", from.keys_size(), 0, kMaxItems));
    core::FreeSequences message;
    for (const pb::SequenceKey& key : from.keys()) message.keys.push_back(get(key));
    return Message{std::move(message)};
}

Result<Message> get(const pb::ForkSequences& from) {
    core::ForkSequences message;
    message.parent = get(from.parent());
    TRY_VOID(in_range("tokens", from.tokens(), 1, kMaxPosition));
    message.tokens = from.tokens();
    TRY_VOID(in_range("members", from.members_size(), 1, kMaxMembers));
    message.members.assign(from.members().begin(), from.members().end());
    return Message{std::move(message)};
}

Result<Message> get(const pb::SwapSequences& from) {
    TRY_VOID(in_range("keys", from.keys_size(), 1, kMaxItems));
    core::SwapSequences message;
    message.out = from.out();
    for (const pb::SequenceKey& key : from.keys()) message.keys.push_back(get(key));
    return Message{std::move(message)};
}

Result<core::PromptEmbedding> get(const pb::PromptEmbedding& from, const SessionLimits& limits) {
    TRY(std::vector<float> values, get_embedding(from.values(), limits));
    return core::PromptEmbedding{get(from.key()), std::move(values)};
}

Result<Message> get(const pb::TokensProduced& from, const SessionLimits& limits) {
    const std::int64_t tokens = from.tokens_size();
    TRY_VOID(
        in_range("tokens", tokens + from.scored_size() + from.embeddings_size(), 1, kMaxItems));
    core::TokensProduced message;
    for (const pb::ProducedToken& one : from.tokens()) {
        TRY(core::ProducedToken token, get(one));
        message.tokens.push_back(std::move(token));
    }
    for (const pb::ProducedToken& one : from.scored()) {
        TRY(core::ProducedToken token, get(one));
        message.scored.push_back(std::move(token));
    }
    for (const pb::PromptEmbedding& one : from.embeddings()) {
        TRY(core::PromptEmbedding embedding, get(one, limits));
        message.embeddings.push_back(std::move(embedding));
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::LayersReady& from, const SessionLimits& limits) {
    core::LayersReady message;
    message.epoch = from.epoch();
    TRY(message.layers, get_layers(from.layers(), limits));
    TRY_VOID(in_range("total_pages", from.total_pages(), 0, std::int64_t{1} << 32));
    message.total_pages = from.total_pages();
    TRY_VOID(in_range("swap_pages", from.swap_pages(), 0, std::int64_t{1} << 32));
    message.swap_pages = from.swap_pages();
    TRY_VOID(text("kv_format", from.kv_format()));
    message.kv_format = from.kv_format();
    TRY_VOID(finite("kv_page_bytes", from.kv_page_bytes(), 0));
    message.kv_page_bytes = from.kv_page_bytes();
    TRY_VOID(finite("kv_bytes_per_s", from.kv_bytes_per_s(), 0));
    message.kv_bytes_per_s = from.kv_bytes_per_s();
    return Message{std::move(message)};
}

Result<Message> get(const pb::WorkerReport& from) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    TRY_VOID(in_range("total_pages", from.total_pages(), 0, kMost));
    TRY_VOID(in_range("used_pages", from.used_pages(), 0, from.total_pages()));
    TRY_VOID(in_range("waiting_rows", from.waiting_rows(), 0, kMost));
    TRY_VOID(in_range("batches", from.batches(), 0, kMost));
    TRY_VOID(in_range("rows", from.rows(), 0, kMost));
    TRY_VOID(in_range("busy_ns", from.busy_ns(), 0, kMost));
    TRY_VOID(in_range("held sequences", from.held_size(), 0, kMaxItems));
    TRY_VOID(in_range("cached_pages", from.cached_pages(), 0, from.total_pages()));
    TRY_VOID(in_range("swapped_pages", from.swapped_pages(), 0, kMost));
    core::WorkerReport message;
    message.used_pages = from.used_pages();
    message.total_pages = from.total_pages();
    message.waiting_rows = from.waiting_rows();
    message.batches = from.batches();
    message.rows = from.rows();
    message.busy_ns = from.busy_ns();
    message.cached_pages = from.cached_pages();
    message.swapped_pages = from.swapped_pages();
    for (const pb::SequenceKey& key : from.held()) message.held.push_back(get(key));
    return Message{std::move(message)};
}

Result<Message> get(const pb::KvRefused& from) {
    TRY_VOID(text("reason", from.reason()));
    TRY_VOID(in_range("cause", from.cause(), 0, kMaxKvRefusal));
    return Message{core::KvRefused{get(from.key()), static_cast<core::KvRefusal>(from.cause()),
                                   from.reason()}};
}

Result<Message> get(const pb::StageTimes& from) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    TRY_VOID(in_range("batches", from.batches(), 1, kMost));
    TRY_VOID(in_range("rows", from.rows(), 1, kMost));
    TRY_VOID(in_range("busy_ns", from.busy_ns(), 0, kMost));
    TRY_VOID(in_range("since_first_ns", from.since_first_ns(), 0, kMost));
    TRY_VOID(in_range("since_last_ns", from.since_last_ns(), 0, from.since_first_ns()));
    return Message{core::StageTimes{
        get(from.key()), from.batches(), from.rows(), core::Duration{from.busy_ns()},
        core::Duration{from.since_first_ns()}, core::Duration{from.since_last_ns()}}};
}

base::Status check_hello(const pb::Hello& from) {
    TRY_VOID(text("name", from.name()));
    TRY_VOID(text("host", from.host()));
    TRY_VOID(text("type", from.type()));
    TRY_VOID(text("region", from.region()));
    TRY_VOID(text("endpoint", from.endpoint()));
    TRY_VOID(text("public_key", from.public_key()));
    TRY_VOID(text("backend", from.backend()));
    TRY_VOID(text("device", from.device()));
    TRY_VOID(in_range("cores", from.cores(), 1, 1 << 16));
    TRY_VOID(in_range("memory_bytes", from.memory_bytes(), 1, std::int64_t{1} << 50));
    return in_range("role", from.role(), 0, static_cast<std::int64_t>(spec::NodeRole::decode));
}

Result<Message> get(const pb::Hello& from) {
    TRY_VOID(check_hello(from));
    Hello message;
    message.protocol = from.protocol();
    message.incarnation = from.incarnation();
    message.name = from.name();
    message.host = from.host();
    message.type = from.type();
    message.region = from.region();
    message.cores = from.cores();
    message.memory_bytes = from.memory_bytes();
    message.endpoint = from.endpoint();
    message.public_key = from.public_key();
    message.backend = from.backend();
    message.role = static_cast<spec::NodeRole>(from.role());
    message.device = from.device();
    message.term = from.term();
    TRY_VOID(at_most("known_as_plus_1", from.known_as_plus_1(), 1ULL << 32U));
    if (const std::uint64_t known = from.known_as_plus_1(); known != 0) {
        message.known_as = core::WorkerId{static_cast<std::uint32_t>(known - 1)};
    }
    if (from.core_share() != 0) {  // as earlier releases do not say it
        TRY_VOID(finite("core_share", from.core_share(), kLeastCoreShare));
        message.core_share = std::min(from.core_share(), 1.0);
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::Welcome& from) {
    Welcome message;
    message.term = from.term();
    message.worker = core::WorkerId{from.worker()};
    TRY(message.model, get(from.model()));
    message.model_hash = get(from.model_hash());
    TRY_VOID(in_range("hidden_size", from.hidden_size(), 1, kMaxHiddenSize));
    message.hidden_size = from.hidden_size();
    TRY_VOID(in_range("vocab_size", from.vocab_size(), 1, kMaxVocabSize));
    message.vocab_size = from.vocab_size();
    TRY_VOID(in_range("block_size", from.block_size(), 1, 4096));
    message.block_size = from.block_size();
    TRY_VOID(text("kv_type", from.kv_type()));
    message.kv_type = from.kv_type();
    message.model_id = core::ModelId{from.model_id()};
    return Message{std::move(message)};
}

Result<Message> get(const pb::ProfileRequest& from) {
    TRY_VOID(in_range("peers", from.peers_size(), 0, kMaxWorkers));
    ProfileRequest message;
    for (const pb::Peer& peer : from.peers()) {
        TRY_VOID(text("endpoint", peer.endpoint()));
        TRY_VOID(text("public_key", peer.public_key()));
        TRY_VOID(text("host", peer.host()));
        message.peers.push_back(
            {core::WorkerId{peer.worker()}, peer.endpoint(), peer.public_key(), peer.host()});
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::AllowKeys& from) {
    TRY_VOID(in_range("keys", from.keys_size(), 0, kMaxWorkers));
    AllowKeys message;
    for (const std::string& key : from.keys()) {
        TRY_VOID(in_range("length of a key", static_cast<std::int64_t>(key.size()), 40, 40));
        message.keys.push_back(key);
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::ProfileReport& from) {
    TRY_VOID(finite("decode_s_per_layer", from.decode_s_per_layer(), 0));
    TRY_VOID(finite("decode_batch_s_per_layer", from.decode_batch_s_per_layer(), 0));
    TRY_VOID(finite("prefill_s_per_token_layer", from.prefill_s_per_token_layer(), 0));
    TRY_VOID(in_range("links", from.links_size(), 0, 2 * (kMaxWorkers + 1)));
    ProfileReport message;
    message.decode_s_per_layer = from.decode_s_per_layer();
    message.decode_batch_s_per_layer = from.decode_batch_s_per_layer();
    message.prefill_s_per_token_layer = from.prefill_s_per_token_layer();
    for (const pb::Link& link : from.links()) {
        TRY_VOID(finite("bandwidth_bytes_per_s", link.bandwidth_bytes_per_s(), 0));
        TRY_VOID(finite("latency_s", link.latency_s(), 0));
        TRY_VOID(in_range("link.from", link.from(), spec::kCoordinator, 1 << 30));
        TRY_VOID(in_range("link.to", link.to(), spec::kCoordinator, 1 << 30));
        message.links.push_back(
            {link.from(), link.to(), link.bandwidth_bytes_per_s(), link.latency_s()});
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::Manifest& from) {
    TRY_VOID(at_most("header_bytes", from.header_bytes(), kMaxHeaderBytes));
    TRY_VOID(in_range("tensors", from.tensors_size(), 0, kMaxTensors));
    Manifest message;
    message.header_bytes = from.header_bytes();
    message.header_hash = get(from.header_hash());
    for (const pb::ManifestTensor& tensor : from.tensors()) {
        TRY_VOID(text("tensor name", tensor.name()));
        TRY_VOID(at_most("tensor bytes", tensor.bytes(), 1ULL << 44U));
        message.tensors.push_back({tensor.name(), tensor.bytes(), get(tensor.hash())});
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::ChunkRequest& from) {
    TRY_VOID(in_range("tensor", from.tensor(), kHeaderChunk, kMaxTensors));
    TRY_VOID(at_most("length", from.length(), kMaxChunkBytes));
    TRY_VOID(at_most("offset", from.offset(), 1ULL << 44U));
    TRY_VOID(at_most("failed_peer_plus_1", from.failed_peer_plus_1(), 1ULL << 32U));
    ChunkRequest message{core::ModelId{from.model()}, from.tensor(), from.offset(), from.length()};
    if (const std::uint64_t failed = from.failed_peer_plus_1(); failed != 0) {
        message.failed_peer = core::WorkerId{static_cast<std::uint32_t>(failed - 1)};
    }
    return Message{message};
}

// Of a Chunk or a TensorPiece, which carry a part of a tensor or say why they do not.
template <typename Part>
Status check_part(const Part& from, std::size_t payload_bytes) {
    TRY_VOID(at_most("length", from.length(), kMaxChunkBytes));
    TRY_VOID(at_most("offset", from.offset(), 1ULL << 44U));
    TRY_VOID(text("error", from.error()));
    const std::size_t expected = from.error().empty() ? from.length() : 0;
    if (payload_bytes == expected) return Ok{};
    return base::invalid(fmt::format("raw frame has {} bytes, a chunk of {} was announced",
                                     payload_bytes, expected));
}

Result<Message> get(const pb::Chunk& from, std::size_t payload_bytes) {
    TRY_VOID(in_range("tensor", from.tensor(), kHeaderChunk, kMaxTensors));
    TRY_VOID(check_part(from, payload_bytes));
    return Message{Chunk{from.tensor(), from.offset(), from.length(), from.error()}};
}

Result<Message> get(const pb::TensorPiece& from, std::size_t payload_bytes) {
    TRY_VOID(check_part(from, payload_bytes));
    return Message{TensorPiece{get(from.hash()), from.offset(), from.length(), from.error()}};
}

Result<Message> get(const pb::TensorRequest& from) {
    TRY_VOID(at_most("length", from.length(), kMaxChunkBytes));
    TRY_VOID(at_most("offset", from.offset(), 1ULL << 44U));
    return Message{TensorRequest{get(from.hash()), from.offset(), from.length()}};
}

Result<Message> get(const pb::TensorsReady& from) {
    TRY_VOID(in_range("tensors", from.tensors_size(), 0, kMaxTensors));
    for (const std::int32_t tensor : from.tensors()) {
        TRY_VOID(in_range("tensor", tensor, 0, kMaxTensors - 1));
    }
    TRY_VOID(in_range("source", from.source(), 0, static_cast<std::int64_t>(kLastTensorSource)));
    return Message{TensorsReady{core::ModelId{from.model()},
                                {from.tensors().begin(), from.tensors().end()},
                                static_cast<TensorSource>(from.source()),
                                from.shared()}};
}

Result<Message> get(const pb::TensorHolder& from) {
    TRY_VOID(in_range("tensor", from.tensor(), 0, kMaxTensors - 1));
    TRY_VOID(text("name", from.name()));
    TensorHolder message{from.tensor(), {}, from.name()};
    if (from.has_peer()) {
        TRY(message.peer, get(from.peer()));
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::PeerLost& from) {
    TRY_VOID(text("endpoint", from.endpoint()));
    return Message{core::PeerLost{core::WorkerId{from.peer()}, from.down(), from.endpoint()}};
}

Result<Message> get(const pb::LayersFailed& from) {
    TRY_VOID(text("reason", from.reason()));
    return Message{core::LayersFailed{from.epoch(), from.reason()}};
}

Result<Message> get(const pb::SequenceStuck& from) {
    TRY_VOID(text("reason", from.reason()));
    TRY_VOID(in_range("cause", from.cause(), 0, kMaxStuckCause));
    return Message{core::SequenceStuck{get(from.key()), static_cast<core::StuckCause>(from.cause()),
                                       from.reason()}};
}

Result<Message> get(const pb::Refused& from) {
    TRY_VOID(text("reason", from.reason()));
    return Message{Refused{from.reason(), from.final()}};
}

Result<Message> get(const pb::Goodbye& from) {
    TRY_VOID(text("reason", from.reason()));
    return Message{Goodbye{from.reason(), from.dismissed(), from.device_lost()}};
}

Result<Message> get_body(const pb::Envelope& from, std::size_t payload_bytes,
                         const SessionLimits& limits) {
    switch (from.body_case()) {
        case pb::Envelope::kAssignLayers:
            return get(from.assign_layers(), limits);
        case pb::Envelope::kStageInputs:
            return get(from.stage_inputs(), payload_bytes, limits);
        case pb::Envelope::kFreeSequences:
            return get(from.free_sequences());
        case pb::Envelope::kForkSequences:
            return get(from.fork_sequences());
        case pb::Envelope::kSwapSequences:
            return get(from.swap_sequences());
        case pb::Envelope::kReserveKv:
            return decode_kv(from.reserve_kv(), limits);
        case pb::Envelope::kSendKv:
            return decode_kv(from.send_kv(), limits);
        case pb::Envelope::kKvBlocks:
            return decode_kv(from.kv_blocks(), payload_bytes, limits);
        case pb::Envelope::kKvReserved:
            return Message{core::KvReserved{get(from.kv_reserved().key())}};
        case pb::Envelope::kKvArrived:
            return decode_kv(from.kv_arrived(), limits);
        case pb::Envelope::kKvRefused:
            return get(from.kv_refused());
        case pb::Envelope::kPeerLost:
            return get(from.peer_lost());
        case pb::Envelope::kStageTimes:
            return get(from.stage_times());
        case pb::Envelope::kTokensProduced:
            return get(from.tokens_produced(), limits);
        case pb::Envelope::kLayersReady:
            return get(from.layers_ready(), limits);
        case pb::Envelope::kLayersFailed:
            return get(from.layers_failed());
        case pb::Envelope::kSequenceStuck:
            return get(from.sequence_stuck());
        case pb::Envelope::kWorkerReport:
            return get(from.worker_report());
        case pb::Envelope::kHello:
            return get(from.hello());
        case pb::Envelope::kWelcome:
            return get(from.welcome());
        case pb::Envelope::kRefused:
            return get(from.refused());
        case pb::Envelope::kProfileRequest:
            return get(from.profile_request());
        case pb::Envelope::kProfileReport:
            return get(from.profile_report());
        case pb::Envelope::kManifestRequest:
            return Message{ManifestRequest{core::ModelId{from.manifest_request().model()}}};
        case pb::Envelope::kManifest:
            return get(from.manifest());
        case pb::Envelope::kChunkRequest:
            return get(from.chunk_request());
        case pb::Envelope::kChunk:
            return get(from.chunk(), payload_bytes);
        case pb::Envelope::kTensorsReady:
            return get(from.tensors_ready());
        case pb::Envelope::kTensorHolder:
            return get(from.tensor_holder());
        case pb::Envelope::kTensorRequest:
            return get(from.tensor_request());
        case pb::Envelope::kTensorPiece:
            return get(from.tensor_piece(), payload_bytes);
        case pb::Envelope::kPing: {
            TRY_VOID(at_most("reply_bytes", from.ping().reply_bytes(), kMaxPingBytes));
            return Message{Ping{from.ping().id(), from.ping().reply_bytes()}};
        }
        case pb::Envelope::kPong:
            return Message{Pong{from.pong().id()}};
        case pb::Envelope::kPeerHello:
            return Message{PeerHello{from.peer_hello().protocol(),
                                     core::WorkerId{from.peer_hello().worker()},
                                     from.peer_hello().incarnation()}};
        case pb::Envelope::kGoodbye:
            return get(from.goodbye());
        case pb::Envelope::kAllowKeys:
            return get(from.allow_keys());
        case pb::Envelope::kHolding:
            return decode_holding(from.holding(), limits);
        default:
            return decode_of_gateways(from, limits);
    }
}

bool carries_frame(const pb::Envelope& from) {
    return from.has_stage_inputs() || from.has_kv_blocks() || from.has_chunk() || from.has_ping() ||
           from.has_pong() || from.has_tensor_piece();
}

}  // namespace

Result<Message> decode(std::span<const std::byte> bytes, std::size_t payload_bytes,
                       const SessionLimits& limits) {
    TRY_VOID(at_most("message size", bytes.size(), kMaxMessageBytes));
    TRY_VOID(at_most("raw frame size", payload_bytes, kMaxPayloadBytes));
    // The library's own complaints about bad bytes are silenced; ours go to whoever asked.
    [[maybe_unused]] static auto* const previous = google::protobuf::SetLogHandler(nullptr);
    pb::Envelope envelope;
    if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        return base::invalid(fmt::format("{} bytes that are no message of ours", bytes.size()));
    }
    if (payload_bytes > 0 && !carries_frame(envelope)) {
        return base::invalid("a raw frame beside a message that has none");
    }
    return get_body(envelope, payload_bytes, limits);
}

}  // namespace helix::wire
