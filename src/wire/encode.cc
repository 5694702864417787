#include "base/check.h"
#include "wire/codec.h"
#include "wire/encode_fields.h"

namespace helix::wire {
namespace {

using wire::put;  // of parts that several kinds have

void put(const core::Peer& peer, pb::Peer& out) {
    out.set_worker(peer.worker.value);
    out.set_endpoint(peer.endpoint);
    out.set_public_key(peer.public_key);
}

void put(const core::SequenceStart& start, pb::SequenceStart& out) {
    put(start.pipeline, *out.mutable_pipeline());
    out.set_prompt_tokens(start.prompt_tokens);
    put(start.sampling, *out.mutable_sampling());
    out.mutable_cached()->Assign(start.cached.begin(), start.cached.end());
    out.mutable_scored()->Assign(start.scored.begin(), start.scored.end());
    out.set_high_priority(start.high_priority);
    out.set_pooling(static_cast<std::int32_t>(start.pooling));
    out.set_timed(start.timed);
    out.set_forks(start.forks);
}

void put(const core::StageInput& input, pb::StageInput& out) {
    CHECK(input.payload.rows == 0 || input.payload.rows == input.tokens.size());
    put(input.key, *out.mutable_key());
    out.set_first_position(input.first_position);
    out.mutable_tokens()->Assign(input.tokens.begin(), input.tokens.end());
    out.set_sample(input.sample);
    if (input.start.has_value()) put(*input.start, *out.mutable_start());
    out.set_has_rows(input.payload.rows > 0);
    out.set_drafts(input.drafts);
    out.set_draws(input.draws);
    out.set_parent_plus_1(input.parent + 1);
}

void put(const core::KvSpan& span, pb::KvSpan& out) {
    out.set_member(span.member);
    out.set_first_block(span.first_block);
    out.set_tokens(span.tokens);
}

// One overload per message kind: fills the right member of the envelope.
struct Encoder {
    pb::Envelope& out;

    void operator()(const core::AssignLayers& m) const {
        pb::AssignLayers& to = *out.mutable_assign_layers();
        to.set_epoch(m.epoch);
        put(m.layers, *to.mutable_layers());
        to.set_pipeline_groups(m.pipeline_groups);
        for (const core::Peer& peer : m.peers) put(peer, *to.add_peers());
        to.set_model(m.model.value);
        if (m.placement.has_value()) put(*m.placement, *to.mutable_placement());
        to.set_prefill_share(m.prefill_share);
    }
    void operator()(const core::StageInputs& m) const {
        pb::StageInputs& to = *out.mutable_stage_inputs();
        for (const core::StageInput& input : m.inputs) put(input, *to.add_inputs());
    }
    void operator()(const core::FreeSequences& m) const {
        pb::FreeSequences& to = *out.mutable_free_sequences();
        for (const core::SequenceKey& key : m.keys) put(key, *to.add_keys());
    }
    void operator()(const core::ForkSequences& m) const {
        pb::ForkSequences& to = *out.mutable_fork_sequences();
        put(m.parent, *to.mutable_parent());
        to.set_tokens(m.tokens);
        to.mutable_members()->Assign(m.members.begin(), m.members.end());
    }
    void operator()(const core::SwapSequences& m) const {
        pb::SwapSequences& to = *out.mutable_swap_sequences();
        to.set_out(m.out);
        for (const core::SequenceKey& key : m.keys) put(key, *to.add_keys());
    }
    void operator()(const core::ReserveKv& m) const {
        pb::ReserveKv& to = *out.mutable_reserve_kv();
        put(m.key, *to.mutable_key());
        put(m.layers, *to.mutable_layers());
        to.set_blocks(m.blocks);
        to.set_given_back(m.given_back);
    }
    void operator()(const core::SendKv& m) const {
        pb::SendKv& to = *out.mutable_send_kv();
        to.set_request(m.request.value);
        to.set_attempt(m.attempt);
        to.set_next_attempt(m.next_attempt);
        to.set_round(m.round);
        to.set_to(m.to.value);
        put(m.layers, *to.mutable_layers());
        for (const core::KvSpan& span : m.spans) put(span, *to.add_spans());
        to.set_held(m.held);
        to.set_given_back(m.given_back);
    }
    void operator()(const core::KvBlocks& m) const {
        pb::KvBlocks& to = *out.mutable_kv_blocks();
        put(m.key, *to.mutable_key());
        to.set_round(m.round);
        put(m.layers, *to.mutable_layers());
        to.set_part(m.part);
        to.set_parts(m.parts);
        for (const core::KvSpan& span : m.spans) put(span, *to.add_spans());
        for (const core::KvPlace& place : m.places) {
            to.add_place_members(place.member);
            to.add_place_blocks(place.block);
            to.add_place_contents(place.content);
        }
        to.set_contents(m.payload.rows);
        to.set_given_back(m.given_back);
    }
    void operator()(const core::KvReserved& m) const {
        put(m.key, *out.mutable_kv_reserved()->mutable_key());
    }
    void operator()(const core::KvArrived& m) const {
        pb::KvArrived& to = *out.mutable_kv_arrived();
        put(m.key, *to.mutable_key());
        to.set_round(m.round);
        put(m.layers, *to.mutable_layers());
    }
    void operator()(const core::KvRefused& m) const {
        pb::KvRefused& to = *out.mutable_kv_refused();
        put(m.key, *to.mutable_key());
        to.set_cause(static_cast<std::uint32_t>(m.cause));
        to.set_reason(m.reason);
    }
    void operator()(const core::PeerLost& m) const {
        pb::PeerLost& to = *out.mutable_peer_lost();
        to.set_peer(m.peer.value);
        to.set_down(m.down);
        to.set_endpoint(m.endpoint);
    }
    void operator()(const core::StageTimes& m) const {
        pb::StageTimes& to = *out.mutable_stage_times();
        put(m.key, *to.mutable_key());
        to.set_batches(m.batches);
        to.set_rows(m.rows);
        to.set_busy_ns(m.busy.ns);
        to.set_since_first_ns(m.since_first.ns);
        to.set_since_last_ns(m.since_last.ns);
    }
    void operator()(const core::TokensProduced& m) const {
        pb::TokensProduced& to = *out.mutable_tokens_produced();
        for (const core::ProducedToken& token : m.tokens) put(token, *to.add_tokens());
        for (const core::ProducedToken& token : m.scored) put(token, *to.add_scored());
        for (const core::PromptEmbedding& one : m.embeddings) {
            pb::PromptEmbedding& embedding = *to.add_embeddings();
            put(one.key, *embedding.mutable_key());
            embedding.mutable_values()->Assign(one.values.begin(), one.values.end());
        }
    }
    void operator()(const core::LayersReady& m) const {
        pb::LayersReady& to = *out.mutable_layers_ready();
        to.set_epoch(m.epoch);
        put(m.layers, *to.mutable_layers());
        to.set_total_pages(m.total_pages);
        to.set_swap_pages(m.swap_pages);
        to.set_kv_format(m.kv_format);
        to.set_kv_page_bytes(m.kv_page_bytes);
        to.set_kv_bytes_per_s(m.kv_bytes_per_s);
    }
    void operator()(const core::LayersFailed& m) const {
        out.mutable_layers_failed()->set_epoch(m.epoch);
        out.mutable_layers_failed()->set_reason(m.reason);
    }
    void operator()(const core::SequenceStuck& m) const {
        pb::SequenceStuck& to = *out.mutable_sequence_stuck();
        put(m.key, *to.mutable_key());
        to.set_cause(static_cast<std::uint32_t>(m.cause));
        to.set_reason(cut(m.reason));
    }
    void operator()(const core::WorkerReport& m) const {
        pb::WorkerReport& to = *out.mutable_worker_report();
        to.set_used_pages(m.used_pages);
        to.set_total_pages(m.total_pages);
        to.set_waiting_rows(m.waiting_rows);
        to.set_batches(m.batches);
        to.set_rows(m.rows);
        to.set_busy_ns(m.busy_ns);
        for (const core::SequenceKey& key : m.held) put(key, *to.add_held());
        to.set_cached_pages(m.cached_pages);
        to.set_swapped_pages(m.swapped_pages);
    }
    void operator()(const Hello& m) const {
        pb::Hello& to = *out.mutable_hello();
        to.set_protocol(m.protocol);
        to.set_incarnation(m.incarnation);
        to.set_name(m.name);
        to.set_host(m.host);
        to.set_type(m.type);
        to.set_region(m.region);
        to.set_cores(m.cores);
        to.set_memory_bytes(m.memory_bytes);
        to.set_endpoint(m.endpoint);
        to.set_public_key(m.public_key);
        to.set_backend(m.backend);
        to.set_role(static_cast<std::uint32_t>(m.role));
        to.set_device(m.device);
        to.set_term(m.term);
        if (m.known_as) to.set_known_as_plus_1(std::uint64_t{m.known_as->value} + 1);
        to.set_core_share(m.core_share);
    }
    void operator()(const Welcome& m) const {
        pb::Welcome& to = *out.mutable_welcome();
        to.set_term(m.term);
        to.set_worker(m.worker.value);
        put(m.model, *to.mutable_model());
        put(m.model_hash, *to.mutable_model_hash());
        to.set_hidden_size(m.hidden_size);
        to.set_vocab_size(m.vocab_size);
        to.set_block_size(m.block_size);
        to.set_kv_type(m.kv_type);
        to.set_model_id(m.model_id.value);
    }
    void operator()(const Refused& m) const {
        out.mutable_refused()->set_reason(m.reason);
        out.mutable_refused()->set_final(m.final);
    }
    void operator()(const ProfileRequest& m) const {
        pb::ProfileRequest& to = *out.mutable_profile_request();
        for (const ProbePeer& peer : m.peers) {
            pb::Peer& p = *to.add_peers();
            p.set_worker(peer.worker.value);
            p.set_endpoint(peer.endpoint);
            p.set_public_key(peer.public_key);
            p.set_host(peer.host);
        }
    }
    void operator()(const ProfileReport& m) const {
        pb::ProfileReport& to = *out.mutable_profile_report();
        to.set_decode_s_per_layer(m.decode_s_per_layer);
        to.set_decode_batch_s_per_layer(m.decode_batch_s_per_layer);
        to.set_prefill_s_per_token_layer(m.prefill_s_per_token_layer);
        for (const spec::LinkSpec& link : m.links) {
            pb::Link& l = *to.add_links();
            l.set_from(link.from);
            l.set_to(link.to);
            l.set_bandwidth_bytes_per_s(link.bandwidth_bytes_per_s);
            l.set_latency_s(link.latency_s);
        }
    }
    void operator()(const ManifestRequest& m) const {
        out.mutable_manifest_request()->set_model(m.model.value);
    }
    void operator()(const Manifest& m) const {
        pb::Manifest& to = *out.mutable_manifest();
        to.set_header_bytes(m.header_bytes);
        put(m.header_hash, *to.mutable_header_hash());
        for (const ManifestTensor& tensor : m.tensors) {
            pb::ManifestTensor& t = *to.add_tensors();
            t.set_name(tensor.name);
            t.set_bytes(tensor.bytes);
            put(tensor.hash, *t.mutable_hash());
        }
    }
    void operator()(const ChunkRequest& m) const {
        pb::ChunkRequest& to = *out.mutable_chunk_request();
        to.set_model(m.model.value);
        to.set_tensor(m.tensor);
        to.set_offset(m.offset);
        to.set_length(m.length);
        if (m.failed_peer) to.set_failed_peer_plus_1(std::uint64_t{m.failed_peer->value} + 1);
    }
    void operator()(const Chunk& m) const {
        pb::Chunk& to = *out.mutable_chunk();
        to.set_tensor(m.tensor);
        to.set_offset(m.offset);
        to.set_length(m.length);
        to.set_error(m.error);
    }
    void operator()(const TensorsReady& m) const {
        pb::TensorsReady& to = *out.mutable_tensors_ready();
        to.set_model(m.model.value);
        to.mutable_tensors()->Assign(m.tensors.begin(), m.tensors.end());
        to.set_source(static_cast<std::uint32_t>(m.source));
        to.set_shared(m.shared);
    }
    void operator()(const TensorHolder& m) const {
        pb::TensorHolder& to = *out.mutable_tensor_holder();
        to.set_tensor(m.tensor);
        to.set_name(m.name);
        if (m.peer.has_value()) put(*m.peer, *to.mutable_peer());
    }
    void operator()(const TensorRequest& m) const {
        pb::TensorRequest& to = *out.mutable_tensor_request();
        put(m.hash, *to.mutable_hash());
        to.set_offset(m.offset);
        to.set_length(m.length);
    }
    void operator()(const TensorPiece& m) const {
        pb::TensorPiece& to = *out.mutable_tensor_piece();
        put(m.hash, *to.mutable_hash());
        to.set_offset(m.offset);
        to.set_length(m.length);
        to.set_error(m.error);
    }
    void operator()(const Ping& m) const {
        out.mutable_ping()->set_id(m.id);
        out.mutable_ping()->set_reply_bytes(m.reply_bytes);
    }
    void operator()(const Pong& m) const { out.mutable_pong()->set_id(m.id); }
    void operator()(const PeerHello& m) const {
        pb::PeerHello& to = *out.mutable_peer_hello();
        to.set_protocol(m.protocol);
        to.set_worker(m.worker.value);
        to.set_incarnation(m.incarnation);
    }
    void operator()(const AllowKeys& m) const {
        pb::AllowKeys& to = *out.mutable_allow_keys();
        for (const std::string& key : m.keys) to.add_keys(key);
    }
    void operator()(const Goodbye& m) const {
        out.mutable_goodbye()->set_reason(m.reason);
        out.mutable_goodbye()->set_dismissed(m.dismissed);
        out.mutable_goodbye()->set_device_lost(m.device_lost);
    }
    void operator()(const core::Holding& m) const {
        pb::Holding& to = *out.mutable_holding();
        to.set_epoch(m.epoch);
        put(m.layers, *to.mutable_layers());
        if (m.placement.has_value()) put(*m.placement, *to.mutable_placement());
        for (const core::SequenceHeld& held : m.sequences) put(held, *to.add_sequences());
    }
    void operator()(const GatewayHello& m) const { put(m, *out.mutable_gateway_hello()); }
    void operator()(const GatewayWelcome& m) const { put(m, *out.mutable_gateway_welcome()); }
    void operator()(const core::RequestNumbers& m) const { put(m, *out.mutable_request_numbers()); }
    void operator()(const core::Submitted& m) const { put(m, *out.mutable_submit_request()); }
    void operator()(const core::Ended& m) const { put(m, *out.mutable_end_request()); }
    void operator()(const core::MoveRequest& m) const {
        out.mutable_move_request()->set_id(m.id.value);
    }
    void operator()(const core::RequestEvents& m) const { put(m, *out.mutable_request_events()); }
    void operator()(const GatewayView& m) const { put(m, *out.mutable_gateway_view()); }
};

struct Namer {
    const char* operator()(const core::AssignLayers&) const { return "AssignLayers"; }
    const char* operator()(const core::StageInputs&) const { return "StageInputs"; }
    const char* operator()(const core::FreeSequences&) const { return "FreeSequences"; }
    const char* operator()(const core::ForkSequences&) const { return "ForkSequences"; }
    const char* operator()(const core::SwapSequences&) const { return "SwapSequences"; }
    const char* operator()(const core::ReserveKv&) const { return "ReserveKv"; }
    const char* operator()(const core::SendKv&) const { return "SendKv"; }
    const char* operator()(const core::KvBlocks&) const { return "KvBlocks"; }
    const char* operator()(const core::KvReserved&) const { return "KvReserved"; }
    const char* operator()(const core::KvArrived&) const { return "KvArrived"; }
    const char* operator()(const core::KvRefused&) const { return "KvRefused"; }
    const char* operator()(const core::PeerLost&) const { return "PeerLost"; }
    const char* operator()(const core::StageTimes&) const { return "StageTimes"; }
    const char* operator()(const core::TokensProduced&) const { return "TokensProduced"; }
    const char* operator()(const core::LayersReady&) const { return "LayersReady"; }
    const char* operator()(const core::LayersFailed&) const { return "LayersFailed"; }
    const char* operator()(const core::SequenceStuck&) const { return "SequenceStuck"; }
    const char* operator()(const core::WorkerReport&) const { return "WorkerReport"; }
    const char* operator()(const Hello&) const { return "Hello"; }
    const char* operator()(const Welcome&) const { return "Welcome"; }
    const char* operator()(const Refused&) const { return "Refused"; }
    const char* operator()(const ProfileRequest&) const { return "ProfileRequest"; }
    const char* operator()(const ProfileReport&) const { return "ProfileReport"; }
    const char* operator()(const ManifestRequest&) const { return "ManifestRequest"; }
    const char* operator()(const Manifest&) const { return "Manifest"; }
    const char* operator()(const ChunkRequest&) const { return "ChunkRequest"; }
    const char* operator()(const Chunk&) const { return "Chunk"; }
    const char* operator()(const TensorsReady&) const { return "TensorsReady"; }
    const char* operator()(const TensorHolder&) const { return "TensorHolder"; }
    const char* operator()(const TensorRequest&) const { return "TensorRequest"; }
    const char* operator()(const TensorPiece&) const { return "TensorPiece"; }
    const char* operator()(const Ping&) const { return "Ping"; }
    const char* operator()(const Pong&) const { return "Pong"; }
    const char* operator()(const PeerHello&) const { return "PeerHello"; }
    const char* operator()(const AllowKeys&) const { return "AllowKeys"; }
    const char* operator()(const Goodbye&) const { return "Goodbye"; }
    const char* operator()(const core::Holding&) const { return "Holding"; }
    const char* operator()(const GatewayHello&) const { return "GatewayHello"; }
    const char* operator()(const GatewayWelcome&) const { return "GatewayWelcome"; }
    const char* operator()(const core::RequestNumbers&) const { return "RequestNumbers"; }
    const char* operator()(const core::Submitted&) const { return "SubmitRequest"; }
    const char* operator()(const core::Ended&) const { return "EndRequest"; }
    const char* operator()(const core::MoveRequest&) const { return "MoveRequest"; }
    const char* operator()(const core::RequestEvents&) const { return "RequestEvents"; }
    const char* operator()(const GatewayView&) const { return "GatewayView"; }
};

}  // namespace

std::string encode(const Message& message) {
    pb::Envelope envelope;
    std::visit(Encoder{envelope}, message);
    std::string bytes;
    CHECK(envelope.SerializeToString(&bytes));
    return bytes;
}

const char* message_name(const Message& message) {
    return std::visit(Namer{}, message);
}

}  // namespace helix::wire
