#include "wire/codec.h"

#include <limits>
#include <set>

#include "wire/decoded.h"
#include "wire/older_hello.h"
#include "wire/random_message.h"
#include "wire/same_message.h"

namespace helix::wire::codec_test {
namespace {

using test_support::decode_again;
using test_support::decode_text;
using test_support::expect_refused;
using test_support::kLimits;
using test_support::RandomMessages;
using test_support::same;

constexpr std::size_t kKinds = std::variant_size_v<Message>;

// Encoded bytes are canonical here (there is one writer, with fields in order), so a message that
// was decoded is encoded to the same ones.
TEST(Codec, WhatIsDecodedIsWhatWasEncoded) {
    std::set<std::size_t> seen;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        RandomMessages random(seed, kLimits);
        const Message message = random.next(seed % kKinds);
        const std::string bytes = encode(message);
        const auto decoded = decode_text(bytes, RandomMessages::payload_bytes(message, kLimits));
        ASSERT_TRUE(decoded.ok()) << message_name(message) << ": " << decoded.error().message;
        ASSERT_EQ(decoded->index(), message.index());
        EXPECT_EQ(encode(*decoded), bytes);
        EXPECT_TRUE(same(*decoded, message)) << message_name(message);
        seen.insert(message.index());
    }
    EXPECT_EQ(seen.size(), kKinds);
}

// What got through keeps what encode relies on, and every limit.
void expect_sound(const Message& decoded, std::size_t payload_bytes) {
    const auto again = decode_text(encode(decoded), payload_bytes);
    EXPECT_TRUE(again.ok()) << message_name(decoded) << ": " << again.error().message;
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
                expect_sound(*decoded, payload);
            } else {
                ++refused;
            }
        }
        for (int flips = 0; flips < 50 && !bytes.empty(); ++flips) {
            std::string damaged = bytes;
            const std::size_t at = random.random().below(damaged.size());
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.random().below(8)));
            const auto decoded = decode_text(damaged, payload);
            if (decoded.ok()) expect_sound(*decoded, payload);
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
        if (decoded.ok()) expect_sound(*decoded, 0);
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
    welcome.model.n_experts_used = 2;
    welcome.model.joined_layers = 3;
    expect_refused(welcome, 0, "joined_layers");
    welcome.model.joined_layers = 2;
    welcome.model.shared_kv_layers = 2;  // of nobody
    expect_refused(welcome, 0, "shared_kv_layers");
}

TEST(Codec, AHelloOfAnOlderProtocolIsUnderstoodSoThatItCanBeRefusedByName) {
    const auto decoded = decode_text(test_support::hello_of_protocol_9());
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    const Hello expected{9,      77,  "old",       "host", "t4",  "here",
                         8,      100, "tcp://h:1", "key",  "cpu", spec::NodeRole::prefill,
                         "gpu0", 0,   {}};
    EXPECT_EQ(std::get<Hello>(*decoded), expected);
    for (const std::uint32_t protocol : {0U, 9U, 11U, 0xFFFFFFFFU}) {
        Hello hello = expected;
        hello.protocol = protocol;
        const auto worker = decode_again(hello);
        ASSERT_TRUE(worker.ok()) << worker.error().message;
        EXPECT_EQ(std::get<Hello>(*worker).protocol, protocol);
        const auto gateway = decode_again(GatewayHello{protocol, "g", "", 1});
        ASSERT_TRUE(gateway.ok()) << gateway.error().message;
        EXPECT_EQ(std::get<GatewayHello>(*gateway).protocol, protocol);
    }
}

TEST(Codec, AWorkerMayHaveBeenAnyOther) {
    Hello hello = std::get<Hello>(*decode_text(test_support::hello_of_protocol_9()));
    for (const std::uint32_t worker : {0U, 0xFFFFFFFFU}) {
        hello.known_as = core::WorkerId{worker};
        EXPECT_EQ(std::get<Hello>(*decode_again(hello)).known_as, hello.known_as);
    }
}

TEST(Codec, ALongReasonIsCutBetweenTwoCharacters) {
    std::string reason = "x";
    while (reason.size() <= kMaxTextBytes) reason += "\u00E4";
    const auto decoded = decode_again(core::SequenceStuck{{}, core::StuckCause::failed, reason});
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(std::get<core::SequenceStuck>(*decoded).reason, reason.substr(0, kMaxTextBytes - 1));
}

TEST(Codec, AClientMayDrawAmongMoreTokensThanThereAre) {
    core::StageInputs message{{one_input()}};
    core::SequenceStart start{{{{1}, {0, kLimits.n_layers}}}, 2, {}};
    message.inputs[0].first_position = 0;
    start.sampling.top_k = std::numeric_limits<std::int32_t>::max();
    message.inputs[0].start = start;
    EXPECT_TRUE(decode_text(encode(message), 256).ok());
    start.sampling.top_k = -1;
    message.inputs[0].start = start;
    expect_refused(message, 256, "top_k");
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
