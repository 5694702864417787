#include "wire/codec.h"

#include <gtest/gtest.h>

#include <limits>

#include "wire/random_message.h"

namespace helix::wire::codec_test {
namespace {

using test_support::RandomMessages;

constexpr SessionLimits kLimits{16, 32};
constexpr std::size_t kKinds = std::variant_size_v<Message>;

base::Result<Message> decode_text(const std::string& bytes, std::size_t payload_bytes,
                                  const SessionLimits& limits = kLimits) {
    return decode(std::as_bytes(std::span(bytes)), payload_bytes, limits);
}

// Encoded bytes are canonical here (there is one writer, with fields in order), so comparing them
// compares whole messages.
TEST(Codec, WhatIsDecodedIsWhatWasEncoded) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        RandomMessages random(seed, kLimits);
        const Message message = random.next(seed % kKinds);
        const std::string bytes = encode(message);
        const auto decoded = decode_text(bytes, RandomMessages::payload_bytes(message, kLimits));
        ASSERT_TRUE(decoded.ok()) << message_name(message) << ": " << decoded.error().message;
        ASSERT_EQ(decoded->index(), message.index());
        EXPECT_EQ(encode(*decoded), bytes);
        if (const auto* inputs = std::get_if<core::StageInputs>(&message)) {
            EXPECT_EQ(std::get<core::StageInputs>(*decoded), *inputs);
        }
        if (const auto* tokens = std::get_if<core::TokensProduced>(&message)) {
            EXPECT_EQ(std::get<core::TokensProduced>(*decoded), *tokens);
        }
        if (const auto* assign = std::get_if<core::AssignLayers>(&message)) {
            EXPECT_EQ(std::get<core::AssignLayers>(*decoded), *assign);
        }
        if (const auto* hello = std::get_if<Hello>(&message)) {
            EXPECT_EQ(std::get<Hello>(*decoded), *hello);
        }
        if (const auto* welcome = std::get_if<Welcome>(&message)) {
            EXPECT_EQ(std::get<Welcome>(*decoded).model_id, welcome->model_id);
        }
        if (const auto* manifest = std::get_if<ManifestRequest>(&message)) {
            EXPECT_EQ(std::get<ManifestRequest>(*decoded), *manifest);
        }
        if (const auto* chunk = std::get_if<ChunkRequest>(&message)) {
            EXPECT_EQ(std::get<ChunkRequest>(*decoded), *chunk);
        }
        if (const auto* ready = std::get_if<TensorsReady>(&message)) {
            EXPECT_EQ(std::get<TensorsReady>(*decoded), *ready);
        }
        if (const auto* holder = std::get_if<TensorHolder>(&message)) {
            EXPECT_EQ(std::get<TensorHolder>(*decoded), *holder);
        }
        if (const auto* wanted = std::get_if<TensorRequest>(&message)) {
            EXPECT_EQ(std::get<TensorRequest>(*decoded), *wanted);
        }
        if (const auto* piece = std::get_if<TensorPiece>(&message)) {
            EXPECT_EQ(std::get<TensorPiece>(*decoded), *piece);
        }
    }
}

TEST(Codec, EveryTruncationAndManyBitFlipsAreErrorsOrValidMessages) {
    int refused = 0;
    for (std::uint64_t seed = 0; seed < 20 * kKinds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        RandomMessages random(seed, kLimits);
        const Message message = random.next(seed % kKinds);
        const std::string bytes = encode(message);
        const std::size_t payload = RandomMessages::payload_bytes(message, kLimits);
        for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 64) {
            const auto decoded = decode_text(bytes.substr(0, size), payload);
            if (decoded.ok()) {
                encode(*decoded);  // what got through keeps what encode relies on
            } else {
                ++refused;
            }
        }
        for (int flips = 0; flips < 50 && !bytes.empty(); ++flips) {
            std::string damaged = bytes;
            const std::size_t at = random.random().below(damaged.size());
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.random().below(8)));
            const auto decoded = decode_text(damaged, payload);
            if (decoded.ok()) encode(*decoded);
        }
    }
    EXPECT_GT(refused, 100);
}

TEST(Codec, RandomBytesAreRefusedOrValid) {
    base::Random random(7);
    for (int i = 0; i < 20000; ++i) {
        std::string bytes(random.below(60), '\0');
        for (char& byte : bytes) byte = static_cast<char>(random.below(256));
        const auto decoded = decode_text(bytes, 0);
        if (decoded.ok()) encode(*decoded);
    }
}

core::StageInput one_input() {
    core::StageInput input;
    input.key = {core::RequestId{5}, 1};
    input.first_position = 3;
    input.tokens = {1, 2};
    input.payload = {0, 0, 2};
    return input;
}

void expect_refused(const Message& message, std::size_t payload_bytes, const std::string& words) {
    const auto decoded = decode_text(encode(message), payload_bytes);
    ASSERT_FALSE(decoded.ok()) << message_name(message);
    EXPECT_NE(decoded.error().message.find(words), std::string::npos) << decoded.error().message;
}

TEST(Codec, AScoredPromptIsWholeAndHasNoCachedTokens) {
    core::StageInput input = one_input();
    input.first_position = 0;
    core::SequenceStart start{{{{1}, {0, kLimits.n_layers}}}, 2, {}, {}, {1, 2}};
    const auto message = [&] {
        input.start = start;
        return core::StageInputs{{input}};
    };
    expect_refused(message(), 256, "n_logprobs");
    start.sampling.n_logprobs = 0;
    ASSERT_TRUE(decode_text(encode(message()), 256).ok());
    start.scored = {1};
    expect_refused(message(), 256, "scored tokens");
    start.scored = {1, -1};
    expect_refused(message(), 256, "scored token");
    start.scored = {1, 2};
    start.cached = {1};
    input.first_position = 1;
    expect_refused(message(), 256, "cached tokens");
    expect_refused(core::TokensProduced{}, 0, "tokens");
    core::TokensProduced scored;
    scored.scored.push_back({{}, 1, -1, 0, {}});
    expect_refused(scored, 0, "token");
}

TEST(Codec, APooledPromptHasNothingCachedUnlessItsLastTokenIsWanted) {
    core::StageInput input = one_input();
    input.first_position = 1;
    core::SequenceStart start{{{{1}, {0, kLimits.n_layers}}}, 3, {}, {1}};
    const auto message = [&](std::uint8_t pooling) {
        start.pooling = static_cast<spec::Pooling>(pooling);
        input.start = start;
        return core::StageInputs{{input}};
    };
    ASSERT_TRUE(decode_text(encode(message(0)), 256).ok());
    ASSERT_TRUE(decode_text(encode(message(3)), 256).ok());
    expect_refused(message(1), 256, "cached tokens of a pooled prompt");
    expect_refused(message(2), 256, "cached tokens of a pooled prompt");
    ASSERT_TRUE(decode_text(encode(message(4)), 256).ok()) << "of a score, too";
    expect_refused(message(5), 256, "pooling");
    start.cached.clear();
    input.first_position = 0;
    start.prompt_tokens = 2;
    ASSERT_TRUE(decode_text(encode(message(1)), 256).ok());
    start.scored = {1, 2};
    start.sampling.n_logprobs = 0;
    expect_refused(message(1), 256, "scored tokens of a pooled prompt");
}

TEST(Codec, AnEmbeddingIsAsWideAsTheModel) {
    core::TokensProduced message;
    message.embeddings.push_back({{}, std::vector<float>(32, 0.5F)});
    ASSERT_TRUE(decode_text(encode(message), 0).ok());
    message.embeddings[0].values.resize(1);
    ASSERT_TRUE(decode_text(encode(message), 0).ok()) << "a score";
    message.embeddings[0].values.resize(31, 0.5F);
    expect_refused(message, 0, "values of an embedding");
}

TEST(Codec, RowsMustFillTheRawFrame) {
    const core::StageInputs message{{one_input()}};
    ASSERT_TRUE(decode_text(encode(message), 2 * 32 * 4).ok());
    expect_refused(message, 2 * 32 * 4 - 1, "raw frame");
    expect_refused(message, 3 * 32 * 4, "raw frame");
    expect_refused(message, 0, "raw frame");
}

TEST(Codec, ActivationsBeforeTheModelIsKnownAreRefused) {
    EXPECT_FALSE(decode_text(encode(core::StageInputs{{one_input()}}), 256, {}).ok());
}

TEST(Codec, ARawFrameBesideAMessageWithoutOneIsRefused) {
    expect_refused(Goodbye{"x"}, 10, "raw frame");
}

TEST(Codec, APieceOfATensorIsItsRawFrame) {
    const TensorPiece piece{{}, 0, 100, ""};
    ASSERT_TRUE(decode_text(encode(piece), 100).ok());
    expect_refused(piece, 99, "raw frame");
    expect_refused(piece, 0, "raw frame");
    const TensorPiece none{{}, 0, 100, "it is gone"};
    ASSERT_TRUE(decode_text(encode(none), 0).ok());
    expect_refused(none, 100, "raw frame");
    expect_refused(TensorPiece{{}, 0, kMaxChunkBytes + 1, ""}, kMaxChunkBytes + 1, "length");
}

TEST(Codec, FieldsOutOfRangeAreRefusedByName) {
    core::StageInputs negative{{one_input()}};
    negative.inputs[0].tokens[0] = -1;
    expect_refused(negative, 256, "token");
    core::StageInputs far{{one_input()}};
    far.inputs[0].first_position = kMaxPosition;
    expect_refused(far, 256, "first_position");
    core::StageInputs headless{{one_input()}};
    headless.inputs[0].first_position = 0;
    expect_refused(headless, 256, "start");
    core::WorkerReport report;
    report.total_pages = 3;
    report.used_pages = 4;
    expect_refused(report, 0, "used_pages");
    expect_refused(core::LayersReady{1, {4, 17}, 5}, 0, "layers.end");
    expect_refused(Goodbye{std::string(kMaxTextBytes + 1, 'x')}, 0, "reason");
    expect_refused(Ping{1, kMaxPingBytes + 1}, 0, "reply_bytes");
    expect_refused(ChunkRequest{{}, 0, 0, kMaxChunkBytes + 1}, 0, "length");
    expect_refused(TensorsReady{{}, {kMaxTensors}}, 0, "tensor");
    expect_refused(TensorsReady{{}, {-1}}, 0, "tensor");
    expect_refused(TensorsReady{{}, std::vector<std::int32_t>(kMaxTensors + 1)}, 0, "tensors");
    expect_refused(TensorsReady{{}, {}, static_cast<TensorSource>(4)}, 0, "source");
    expect_refused(TensorHolder{-1, {}, ""}, 0, "tensor");
    const std::string long_text(kMaxTextBytes + 1, 'x');
    expect_refused(TensorHolder{0, core::Peer{{}, long_text, ""}, ""}, 0, "endpoint");
    expect_refused(TensorHolder{0, core::Peer{{}, "", long_text}, ""}, 0, "public_key");
    expect_refused(TensorHolder{0, {}, long_text}, 0, "name");
    expect_refused(TensorRequest{{}, 0, kMaxChunkBytes + 1}, 0, "length");
    expect_refused(TensorRequest{{}, std::uint64_t{1} << 45U, 1}, 0, "offset");
    Welcome welcome;
    welcome.model = {"m", 2, 10, 5, 5, 8, 4, 8, 1.0, 64, 11, 4, 2};
    expect_refused(welcome, 0, "layer_expert_bytes");
    welcome.model.layer_expert_bytes = 10;
    welcome.model.n_experts_used = 5;
    expect_refused(welcome, 0, "n_experts_used");
}

TEST(Codec, PipelinesThatDoNotCoverTheModelAreRefused) {
    core::StageInputs message{{one_input()}};
    message.inputs[0].first_position = 0;
    core::SequenceStart start;
    start.prompt_tokens = 2;
    const std::vector<std::vector<core::LayerRange>> wrong = {
        {}, {{0, 15}}, {{1, 16}}, {{0, 8}, {9, 16}}, {{0, 8}, {7, 16}}, {{0, 8}, {8, 8}, {8, 16}}};
    for (const auto& ranges : wrong) {
        start.pipeline.clear();
        for (const core::LayerRange& layers : ranges) start.pipeline.push_back({{}, layers});
        message.inputs[0].start = start;
        expect_refused(message, 256, "pipeline");
    }
}

TEST(Codec, SamplingThatIsNoNumberIsRefused) {
    core::StageInputs message{{one_input()}};
    message.inputs[0].first_position = 0;
    core::SequenceStart start;
    start.prompt_tokens = 2;
    start.pipeline = {{{}, {0, 16}}};
    start.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
    message.inputs[0].start = start;
    expect_refused(message, 256, "temperature");
}

}  // namespace
}  // namespace helix::wire::codec_test
