#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "wire/codec.h"

// Makes valid messages at random, of every kind.

namespace helix::wire::test_support {

class RandomMessages {
  public:
    RandomMessages(std::uint64_t seed, const SessionLimits& limits)
        : random_(seed), limits_(limits) {}

    // kind is an index into Message, below std::variant_size_v<Message>.
    Message next(std::size_t kind) {
        switch (kind) {
            case 0:
                return assign();
            case 1:
                return inputs();
            case 2:
                return core::FreeSequences{keys()};
            case 3:
                return tokens();
            case 4:
                return core::LayersReady{random_.next(),
                                         layers(),
                                         number(1000),
                                         number(1000),
                                         text(),
                                         static_cast<double>(number(1000)),
                                         static_cast<double>(number(1000))};
            case 5:
                return core::LayersFailed{random_.next(), text()};
            case 6:
                return core::SequenceStuck{key(), static_cast<core::StuckCause>(small(4)), text()};
            case 7:
                return report();
            case 8:
                return hello();
            case 9:
                return welcome();
            case 10:
                return Refused{text(), random_.chance(0.5)};
            case 11:
                return profile_request();
            case 12:
                return profile_report();
            case 13:
                return ManifestRequest{model()};
            case 14:
                return manifest();
            case 15:
                return chunk_request();
            case 16:
                return Chunk{small(5) - 1, random_.below(1U << 30U), length(), ""};
            case 17:
                return Ping{random_.next(),
                            static_cast<std::uint32_t>(random_.below(kMaxPingBytes))};
            case 18:
                return Pong{random_.next()};
            case 19:
                return PeerHello{kProtocolVersion, worker(), random_.next()};
            case 20:
                return Goodbye{text(), random_.below(2) == 0, random_.below(2) == 0};
            case 21:
                return AllowKeys{{std::string(40, 'k'), std::string(40, 'q')}};
            case 22:
                return fork();
            case 23:
                return swap();
            case 24:
                return core::ReserveKv{key(), some_layers(), 1 + number(999)};
            case 25:
                return send_kv();
            case 26:
                return kv_blocks();
            case 27:
                return core::KvReserved{key()};
            case 28:
                return core::KvArrived{key(), small_u(9), some_layers()};
            case 29:
                return core::KvRefused{key(), static_cast<core::KvRefusal>(small(2)), text()};
            case 30:
                return core::StageTimes{key(),
                                        1 + number(99),
                                        1 + number(999),
                                        core::Duration{number(1'000'000)},
                                        core::Duration{2'000'000 + number(1'000'000)},
                                        core::Duration{number(1'000'000)}};
            case 31:
                return tensors_ready();
            case 32:
                return tensor_holder();
            case 33:
                return TensorRequest{hash(), random_.below(1U << 30U), length()};
            case 34:
                return TensorPiece{hash(), random_.below(1U << 30U), length(), ""};
            default:
                return core::PeerLost{worker(), small_u(2) == 1, text()};
        }
    }

    // The size of the raw frame that the sender would put beside it.
    static std::size_t payload_bytes(const Message& message, const SessionLimits& limits) {
        std::size_t bytes = 0;
        if (const auto* stage = std::get_if<core::StageInputs>(&message)) {
            for (const core::StageInput& input : stage->inputs) {
                bytes += input.payload.rows * static_cast<std::size_t>(limits.hidden_size) * 4;
            }
        }
        if (const auto* chunk = std::get_if<Chunk>(&message)) bytes = chunk->length;
        if (const auto* piece = std::get_if<TensorPiece>(&message)) bytes = piece->length;
        if (const auto* kv = std::get_if<core::KvBlocks>(&message)) {
            bytes = kv->payload.rows * static_cast<std::size_t>(kv->layers.size()) * 64;
        }
        return bytes;
    }

    base::Random& random() { return random_; }

  private:
    std::int32_t small(std::uint64_t bound) {
        return static_cast<std::int32_t>(random_.below(bound));
    }
    std::int64_t number(std::uint64_t bound) {
        return static_cast<std::int64_t>(random_.below(bound));
    }
    std::uint32_t length() { return static_cast<std::uint32_t>(random_.below(kMaxChunkBytes)) + 1; }
    float real() { return static_cast<float>(random_.uniform()); }
    core::ModelId model() { return core::ModelId{static_cast<std::uint32_t>(random_.next())}; }
    core::WorkerId worker() {
        return core::WorkerId{static_cast<std::uint32_t>(random_.below(50))};
    }
    core::SequenceKey key() {
        return {core::RequestId{random_.next()}, static_cast<std::uint32_t>(random_.below(9)),
                static_cast<std::uint32_t>(random_.below(5))};
    }
    std::string text() {
        return std::string(random_.below(200), static_cast<char>('a' + small(26)));
    }
    std::vector<core::SequenceKey> keys() {
        std::vector<core::SequenceKey> out(random_.below(5));
        for (auto& one : out) one = key();
        return out;
    }
    core::LayerRange layers() {
        const std::int32_t begin = small(static_cast<std::uint64_t>(limits_.n_layers) + 1);
        return {begin, begin + small(static_cast<std::uint64_t>(limits_.n_layers - begin) + 1)};
    }
    core::AssignLayers assign() {
        core::AssignLayers m{random_.next(), layers(), 1 + small(8), {}};
        for (std::uint64_t i = random_.below(4); i > 0; --i)
            m.peers.push_back({worker(), text(), text()});
        m.model = model();
        return m;
    }
    spec::SamplingParams sampling() {
        spec::SamplingParams p;
        p.temperature = real() * 2;
        p.top_p = real();
        p.top_k = small(100);
        p.min_p = real();
        p.repetition_penalty = 1 + real();
        p.frequency_penalty = real() - 1;
        p.presence_penalty = real();
        for (std::uint64_t i = random_.below(4); i > 0; --i)
            p.logit_bias.emplace_back(small(999), real());
        p.seed = random_.next();
        p.n_logprobs = small(20) - 1;
        p.grammar = {static_cast<spec::OutputGrammar::Kind>(small(4)), text(), small(999), {}};
        if (random_.below(2) == 0) {
            p.grammar.thought = {"<t>", "</t>", {text().substr(0, 9) + "<"}, small(99) - 1};
        }
        return p;
    }
    core::SequenceStart start() {
        core::SequenceStart s;
        for (std::int32_t next = 0; next < limits_.n_layers;) {
            const std::int32_t end =
                next + 1 + small(static_cast<std::uint64_t>(limits_.n_layers - next));
            s.pipeline.push_back({worker(), {next, end}});
            next = end;
        }
        s.prompt_tokens = 1 + small(999);
        s.sampling = sampling();
        s.cached.resize(random_.chance(0.5) ? 0 : random_.below(50));
        for (core::Token& token : s.cached) token = small(kMaxVocabSize);
        if (s.cached.empty() && s.sampling.n_logprobs >= 0 && random_.chance(0.5)) {
            s.scored.resize(static_cast<std::size_t>(s.prompt_tokens));
            for (core::Token& token : s.scored) token = small(kMaxVocabSize);
        }
        s.high_priority = random_.chance(0.5);
        s.timed = random_.chance(0.5);
        if (s.scored.empty() && random_.chance(0.3)) {
            s.pooling =
                s.cached.empty() ? static_cast<spec::Pooling>(1 + small(3)) : spec::Pooling::last;
        }
        return s;
    }
    core::StageInputs inputs() {
        core::StageInputs m;
        std::uint32_t row = 0;
        for (std::uint64_t i = 1 + random_.below(6); i > 0; --i) {
            core::StageInput input;
            input.key = key();
            input.first_position = 1 + small(5000);
            if (random_.chance(0.3)) {
                input.start = start();
                input.first_position = input.start->cached_tokens();
            } else if (random_.chance(0.3)) {
                input.parent = small(9);
            }
            for (std::uint64_t n = 1 + random_.below(7); n > 0; --n) {
                input.tokens.push_back(small(kMaxVocabSize));
            }
            input.sample = random_.chance(0.5);
            if (input.sample && random_.chance(0.5)) {
                input.drafts = small(input.tokens.size());
                input.draws = 1 + small(9);
            }
            if (random_.chance(0.6)) {
                input.payload = {0, row, static_cast<std::uint32_t>(input.tokens.size())};
                row += input.payload.rows;
            }
            m.inputs.push_back(std::move(input));
        }
        return m;
    }
    core::ProducedToken produced() {
        core::ProducedToken token{key(), small(9999), small(9999), -real(), {}};
        for (std::uint64_t k = random_.below(5); k > 0; --k)
            token.top.push_back({small(9), -real()});
        return token;
    }
    core::TokensProduced tokens() {
        core::TokensProduced m;
        for (std::uint64_t i = random_.below(6); i > 0; --i) m.scored.push_back(produced());
        const std::uint64_t least = m.scored.empty() ? 1 : 0;
        for (std::uint64_t i = least + random_.below(6); i > 0; --i) m.tokens.push_back(produced());
        for (std::uint64_t i = random_.below(3); i > 0; --i) {
            core::PromptEmbedding one{key(), {}};
            one.values.resize(static_cast<std::size_t>(limits_.hidden_size));
            for (float& value : one.values) value = real();
            m.embeddings.push_back(std::move(one));
        }
        return m;
    }
    core::ForkSequences fork() {
        core::ForkSequences m{key(), 1 + small(5000), {}};
        for (std::uint64_t i = 1 + random_.below(5); i > 0; --i)
            m.members.push_back(static_cast<std::uint32_t>(random_.below(99)));
        return m;
    }
    std::uint32_t small_u(std::uint64_t bound) {
        return static_cast<std::uint32_t>(random_.below(bound));
    }
    core::LayerRange some_layers() {
        core::LayerRange range = layers();
        if (range.empty()) range = {0, 1};
        return range;
    }
    std::vector<core::KvSpan> spans() {
        std::vector<core::KvSpan> all;
        for (std::uint64_t i = 1 + random_.below(4); i > 0; --i) {
            all.push_back({small_u(9), small(99), 1 + small(5000)});
        }
        return all;
    }
    core::SendKv send_kv() {
        return {core::RequestId{random_.next()},
                small_u(9),
                small_u(9),
                small_u(9),
                worker(),
                some_layers(),
                spans(),
                small_u(2) == 1};
    }
    core::KvBlocks kv_blocks() {
        core::KvBlocks m{key(), small_u(9), some_layers(), 0, 1 + small_u(4), spans(), {}, {}};
        m.part = small_u(m.parts);
        m.payload.rows = small_u(5);
        for (std::uint64_t i = m.payload.rows > 0 ? random_.below(9) : 0; i > 0; --i) {
            m.places.push_back({small_u(9), small(99), small_u(m.payload.rows)});
        }
        return m;
    }
    core::SwapSequences swap() {
        core::SwapSequences m{random_.chance(0.5), keys()};
        m.keys.push_back(key());
        return m;
    }
    core::WorkerReport report() {
        core::WorkerReport m;
        m.total_pages = number(100000);
        m.cached_pages = number(static_cast<std::uint64_t>(m.total_pages) + 1);
        m.swapped_pages = number(100000);
        m.used_pages = number(static_cast<std::uint64_t>(m.total_pages) + 1);
        m.waiting_rows = number(9999);
        m.batches = number(1U << 31U);
        m.rows = number(1U << 31U);
        m.busy_ns = number(std::uint64_t{1} << 60U);
        m.held = keys();
        return m;
    }
    Hello hello() {
        return {static_cast<std::uint32_t>(random_.below(3)),
                random_.next(),
                text(),
                text(),
                text(),
                text(),
                1 + small(64),
                1 + number(1ULL << 40U),
                text(),
                text(),
                text(),
                static_cast<spec::NodeRole>(random_.below(3)),
                text()};
    }
    Welcome welcome() {
        Welcome m;
        m.worker = worker();
        m.model = {
            text(), 1 + small(80), number(9999),      number(9999),   number(9999), number(9999),
            4,      number(9999),  random_.uniform(), 1 + small(9999)};
        m.model.layer_expert_bytes = number(static_cast<std::uint64_t>(m.model.layer_bytes) + 1);
        m.model.n_experts = small(300);
        m.model.n_experts_used = small(static_cast<std::uint64_t>(m.model.n_experts) + 1);
        m.model_hash = {random_.next(), random_.next()};
        m.hidden_size = 1 + small(9999);
        m.vocab_size = 1 + small(99999);
        m.block_size = 1 + small(64);
        m.kv_type = text();
        m.model_id = model();
        return m;
    }
    ProfileRequest profile_request() {
        ProfileRequest m;
        for (std::uint64_t i = random_.below(4); i > 0; --i) {
            m.peers.push_back({worker(), text(), text(), text()});
        }
        return m;
    }
    ProfileReport profile_report() {
        ProfileReport m{random_.uniform(), random_.uniform(), random_.uniform(), {}};
        for (std::uint64_t i = random_.below(4); i > 0; --i) {
            m.links.push_back(
                {small(9) - 1, small(9) - 1, random_.uniform() * 1e9, random_.uniform()});
        }
        return m;
    }
    base::Hash128 hash() { return {random_.next(), random_.next()}; }
    ChunkRequest chunk_request() {
        ChunkRequest m{model(), small(5) - 1, random_.below(1U << 30U), length()};
        if (random_.chance(0.5)) m.failed_peer = worker();
        return m;
    }
    TensorsReady tensors_ready() {
        TensorsReady m{model(), {}, static_cast<TensorSource>(small(4)), random_.chance(0.5)};
        for (std::uint64_t i = random_.below(9); i > 0; --i) m.tensors.push_back(small(999));
        return m;
    }
    TensorHolder tensor_holder() {
        TensorHolder m{small(999), {}, text()};
        if (random_.chance(0.5)) m.peer = core::Peer{worker(), text(), text()};
        return m;
    }
    Manifest manifest() {
        Manifest m{random_.below(1U << 20U), {random_.next(), random_.next()}, {}};
        for (std::uint64_t i = random_.below(9); i > 0; --i) {
            m.tensors.push_back(
                {text(), random_.below(1U << 30U), {random_.next(), random_.next()}});
        }
        return m;
    }

    base::Random random_;
    SessionLimits limits_;
};

}  // namespace helix::wire::test_support
