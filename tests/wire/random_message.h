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

    // Each kind below std::variant_size_v<Message> makes another kind of message.
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
                return core::ReserveKv{key(), some_layers(), 1000, number(1000)};
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
                return stage_times();
            case 31:
                return tensors_ready();
            case 32:
                return tensor_holder();
            case 33:
                return TensorRequest{hash(), random_.below(1U << 30U), length()};
            case 34:
                return TensorPiece{hash(), random_.below(1U << 30U), length(), ""};
            case 35:
                return core::PeerLost{worker(), small_u(2) == 1, text()};
            case 36:
                return holding();
            default:
                return next_of_gateways(kind);
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
    core::RememberedPlacement placement() {
        core::RememberedPlacement m{{{"a", {0, limits_.n_layers}, number(1ULL << 40U)}}, {}};
        for (std::uint64_t i = random_.below(4); i > 0; --i) {
            const std::string name = "b" + std::to_string(i);
            m.holders.push_back({name, layers(), number(1ULL << 40U)});
            m.flows.push_back({random_.chance(0.5) ? "" : "a", name, 1 + random_.uniform()});
        }
        return m;
    }
    core::AssignLayers assign() {
        core::AssignLayers m{random_.next(), layers(), 1 + small(8), {}};
        for (std::uint64_t i = random_.below(4); i > 0; --i)
            m.peers.push_back({worker(), text(), text()});
        m.model = model();
        if (random_.chance(0.5)) m.placement = placement();
        if (random_.chance(0.5)) m.prefill_share = 0.1 + 4 * real();
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
    core::Pipeline pipeline() {
        core::Pipeline stages;
        for (std::int32_t next = 0; next < limits_.n_layers;) {
            const std::int32_t end =
                next + 1 + small(static_cast<std::uint64_t>(limits_.n_layers - next));
            stages.push_back({worker(), {next, end}});
            next = end;
        }
        return stages;
    }
    core::SequenceStart start() {
        core::SequenceStart s;
        s.pipeline = pipeline();
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
        s.forks = random_.chance(0.5);
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
                small_u(2) == 1,
                number(99)};
    }
    core::KvBlocks kv_blocks() {
        core::KvBlocks m{key(), small_u(9), some_layers(), 0, 1 + small_u(4), spans(), {}, {}};
        m.part = small_u(m.parts);
        m.payload.rows = small_u(5);
        m.given_back = random_.chance(0.5) ? 0 : number(99);
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
    core::StageTimes stage_times() {
        return {key(),
                1 + number(99),
                1 + number(999),
                core::Duration{number(1'000'000)},
                core::Duration{2'000'000 + number(1'000'000)},
                core::Duration{number(1'000'000)}};
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
        Hello m{small_u(12),   random_.next(),
                text(),        text(),
                text(),        text(),
                1 + small(64), 1 + number(1ULL << 40U),
                text(),        text(),
                text(),        static_cast<spec::NodeRole>(random_.below(3)),
                text(),        random_.next()};
        if (random_.chance(0.5)) m.known_as = worker();
        m.core_share = 1.0 / (1 + small(16));
        return m;
    }
    spec::ModelSpec model_spec() {
        spec::ModelSpec m{
            text(), 1 + small(80), number(9999),      number(9999),   number(9999), number(9999),
            4,      number(9999),  random_.uniform(), 1 + small(9999)};
        m.layer_expert_bytes = number(static_cast<std::uint64_t>(m.layer_bytes) + 1);
        m.n_experts = small(300);
        m.n_experts_used = small(static_cast<std::uint64_t>(m.n_experts) + 1);
        const std::int32_t sizes = random_.chance(0.5) ? m.n_layers : 0;
        for (std::int32_t l = 0; l < sizes; ++l)
            m.bytes_of_layer.push_back(number(static_cast<std::uint64_t>(m.layer_bytes) + 1));
        m.encoder = random_.chance(0.5);
        m.common_bytes = number(9999);
        m.joined_layers = small(static_cast<std::uint64_t>(m.n_layers) + 1);
        if (m.joined_layers > 0)
            m.shared_kv_layers = small(static_cast<std::uint64_t>(m.joined_layers));
        if (random_.chance(0.5)) return m;
        m.window.positions = 1 + small(9999);
        m.window.chunked = random_.chance(0.5);
        for (std::int32_t l = 0; l < m.n_layers; ++l)
            m.window.layers.push_back(random_.chance(0.5));
        return m;
    }
    Welcome welcome() {
        Welcome m;
        m.term = random_.next();
        m.worker = worker();
        m.model = model_spec();
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
    core::Holding holding() {
        core::Holding m{random_.next(), layers(), {}, {}};
        if (random_.chance(0.5)) m.placement = placement();
        for (std::uint64_t i = random_.below(4); i > 0; --i) {
            core::SequenceHeld held{key(), pipeline(), small(5000)};
            held.certain = small(static_cast<std::uint64_t>(held.arrived) + 1);
            held.swapped = random_.chance(0.5);
            held.rows_lost = random_.chance(0.5);
            for (std::uint64_t n = random_.below(5); n > 0; --n) {
                const bool beside = held.drawn.size() == 1 && random_.chance(0.5);
                const std::int32_t position =
                    held.drawn.empty() ? small(1000) : held.drawn.back().position;
                held.drawn.push_back(produced());
                held.drawn.back().position = position + (beside ? 0 : 1);
                held.drawn.back().key.member = beside ? 1 : 0;
            }
            m.sequences.push_back(std::move(held));
        }
        return m;
    }

    // ---- what gateways and the coordinator say to each other

    Message next_of_gateways(std::size_t kind) {
        switch (kind) {
            case 37:
                return GatewayHello{small_u(12), text(), text(), random_.next()};
            case 38:
                return gateway_welcome();
            case 39:
                return core::RequestNumbers{core::RequestId{random_.next() / 2},
                                            1 + small_u(1U << 31U)};
            case 40:
                return submit();
            case 41:
                return end_request();
            case 42:
                return core::MoveRequest{core::RequestId{random_.next()}};
            case 43:
                return events();
            default:
                return GatewayView{random_.chance(0.5), number(1ULL << 40U), number(1ULL << 40U),
                                   number(1ULL << 40U)};
        }
    }
    GatewayWelcome gateway_welcome() {
        GatewayWelcome m;
        m.term = random_.next();
        m.model = model_spec();
        m.model_hash = hash();
        m.hidden_size = 1 + small(9999);
        m.vocab_size = 1 + small(99999);
        m.model_id = model();
        for (std::uint64_t i = 1 + random_.below(3); i > 0; --i) m.names.push_back(text());
        m.created = number(1ULL << 40U);
        m.chat_template = text() + "\xFF";  // it need not be UTF-8
        m.tool_parser = text();
        m.http_endpoint = text();
        m.kv_type = text();
        return m;
    }
    std::vector<core::Token> some_tokens(std::uint64_t fewer_than) {
        std::vector<core::Token> tokens(random_.below(fewer_than));
        for (core::Token& token : tokens) token = small(kMaxVocabSize);
        return tokens;
    }
    core::Request request() {
        core::Request r;
        r.id = core::RequestId{random_.next()};
        r.prompt = some_tokens(50);
        r.prompt.push_back(small(kMaxVocabSize));
        r.sampling = sampling();
        r.max_tokens = small(kMaxPosition);
        r.min_tokens = small(1U << 31U);
        r.stop_tokens = some_tokens(4);
        r.priority = small(100) - 50;
        r.client = random_.next();
        r.max_draft_tokens = small(20) - 1;
        r.prediction = some_tokens(20);
        r.timed = random_.chance(0.5);
        if (random_.chance(0.2)) {
            r.pooling = static_cast<spec::Pooling>(1 + small(4));
            r.max_tokens = 1;
            return r;
        }
        r.n = 1 + small(4);
        if (random_.chance(0.3)) {
            r.beam = core::BeamSearch{r.n + small(9), 20 * random_.uniform() - 10,
                                      static_cast<core::EarlyStopping>(small(3))};
        }
        r.score_prompt = r.sampling.n_logprobs >= 0 && random_.chance(0.5);
        return r;
    }
    core::Submitted submit() {
        core::Submitted m{request()};
        if (random_.chance(0.5)) return m;
        m.begun.emplace();
        for (std::int32_t i = 0; i < m.request.n; ++i) {
            auto output = m.request.wants_embedding() ? std::vector<core::Token>{} : some_tokens(9);
            m.begun->choices.push_back({std::move(output), random_.chance(0.5)});
        }
        if (m.request.score_prompt) m.begun->scored = small(m.request.prompt.size());
        m.begun->attempts_before = small_u(kMaxAttemptsBefore) + 1;
        return m;
    }
    core::FinishReason finish_reason() {
        return static_cast<core::FinishReason>(
            small(static_cast<std::uint64_t>(core::kLastFinishReason) + 1));
    }
    core::Ended end_request() {
        core::Ended m{core::RequestId{random_.next()}, finish_reason()};
        if (random_.chance(0.5)) m.choice = small(kMaxMembers);
        return m;
    }
    core::RequestEvent event() {
        const core::RequestId id{random_.next()};
        switch (random_.below(std::variant_size_v<core::RequestEvent>)) {
            case 0:
                return core::AcceptRequest{id};
            case 1:
                return core::RejectRequest{id, static_cast<core::RejectReason>(small(4)), text(),
                                           small(99)};
            case 2:
                return core::RequestRouted{
                    id, pipeline(), small_u(99), small(kMaxPosition),
                    static_cast<core::RouteReason>(
                        small(static_cast<std::uint64_t>(core::kLastRouteReason) + 1))};
            case 3:
                return core::StreamToken{id, small(9999), produced(), small(kMaxMembers)};
            case 4: {
                core::ScoreTokens e{id, {produced()}};
                while (random_.chance(0.5)) e.tokens.push_back(produced());
                return e;
            }
            case 5: {
                core::EmbedPrompt e{id, {}};
                e.values.resize(static_cast<std::size_t>(limits_.hidden_size));
                for (float& value : e.values) value = real();
                return e;
            }
            case 6:
                return core::FinishChoice{id, small(kMaxMembers), finish_reason()};
            case 7:
                return core::FinishRequest{
                    id, finish_reason(),
                    static_cast<core::FailureCause>(
                        small(static_cast<std::uint64_t>(core::kLastFailureCause) + 1)),
                    text()};
            default: {
                const std::int64_t first = number(1ULL << 60U) - number(1ULL << 60U);
                return core::StageTimed{id,
                                        small_u(99),
                                        worker(),
                                        1 + number(999),
                                        1 + number(9999),
                                        core::Duration{number(1ULL << 60U)},
                                        base::TimePoint{first},
                                        base::TimePoint{first + number(1ULL << 40U)}};
            }
        }
    }
    core::RequestEvents events() {
        core::RequestEvents m{base::TimePoint{number(1ULL << 60U) - number(1ULL << 60U)}, {}};
        for (std::uint64_t i = random_.below(9); i > 0; --i) m.events.push_back(event());
        return m;
    }

    base::Random random_;
    SessionLimits limits_;
};

}  // namespace helix::wire::test_support
