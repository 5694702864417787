// What a gateway and the coordinator say to each other.

#include <cmath>
#include <functional>
#include <limits>

#include "wire/codec.h"
#include "wire/decoded.h"

namespace helix::wire::requests_test {
namespace {

using core::RequestId;
using test_support::decode_again;
using test_support::decode_text;
using test_support::expect_refused;
using test_support::kLimits;

constexpr std::int32_t kMost32 = std::numeric_limits<std::int32_t>::max();
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
constexpr float kAll = std::numeric_limits<float>::infinity();
constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();

template <typename Enum>
Enum behind(Enum last) {
    return static_cast<Enum>(static_cast<int>(last) + 1);
}

core::Submitted plain() {
    core::Submitted message;
    message.request.id = RequestId{5};
    message.request.prompt = {1, 2, 3};
    return message;
}

// Three answers, the prompt scored; it has begun.
core::Submitted begun() {
    core::Submitted message = plain();
    message.request.n = 3;
    message.request.sampling.n_logprobs = 2;
    message.request.score_prompt = true;
    message.begun = core::Begun{{{{4, 5}, true}, {{4}, false}, {{}, false}}, 2, 7};
    return message;
}

core::Submitted embedding() {
    core::Submitted message = plain();
    message.request.pooling = spec::Pooling::mean;
    message.request.max_tokens = 1;
    return message;
}

struct Wrong {
    std::string words;
    std::function<void(core::Request&)> change;
};

// Each of the changes makes the request one that check_request and decode refuse, in these words.
void expect_all_refused(const core::Submitted& right, const std::vector<Wrong>& wrong) {
    ASSERT_TRUE(check_request(right).ok()) << check_request(right).error().message;
    ASSERT_TRUE(decode_again(right).ok()) << decode_again(right).error().message;
    for (const auto& [words, change] : wrong) {
        core::Submitted message = right;
        change(message.request);
        expect_refused(message, 0, words);
        const base::Status status = check_request(message);
        ASSERT_FALSE(status.ok()) << words;
        EXPECT_NE(status.error().message.find(words), std::string::npos) << words;
    }
}

TEST(SubmitRequest, NumbersOutOfRangeAreRefusedByName) {
    expect_all_refused(
        plain(), {{"token of a prompt", [](auto& r) { r.prompt[1] = -1; }},
                  {"token of a prompt", [](auto& r) { r.prompt[1] = kMaxVocabSize + 1; }},
                  {"max_tokens", [](auto& r) { r.max_tokens = -1; }},
                  {"max_tokens", [](auto& r) { r.max_tokens = kMaxPosition + 1; }},
                  {"min_tokens", [](auto& r) { r.min_tokens = -1; }},
                  {"stop token", [](auto& r) { r.stop_tokens = {-1}; }},
                  {"max_draft_tokens", [](auto& r) { r.max_draft_tokens = -2; }},
                  {"token of a prediction",
                   [](auto& r) {
                       r.prediction = {3, -1};
                   }},
                  {"n is 0", [](auto& r) { r.n = 0; }},
                  {"n is", [](auto& r) { r.n = kMaxMembers + 1; }},
                  {"tokens of a prompt", [](auto& r) { r.prompt.assign(kMaxItems + 1, 1); }}});
}

TEST(SubmitRequest, SamplingThatNoWorkerWouldTakeIsRefused) {
    expect_all_refused(
        plain(),
        {{"temperature", [](auto& r) { r.sampling.temperature = kNone; }},
         {"temperature", [](auto& r) { r.sampling.temperature = -1; }},
         {"top_p", [](auto& r) { r.sampling.top_p = kAll; }},
         {"top_k", [](auto& r) { r.sampling.top_k = -1; }},
         {"min_p", [](auto& r) { r.sampling.min_p = -0.1F; }},
         {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = kNone; }},
         {"frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = kNone; }},
         {"presence_penalty", [](auto& r) { r.sampling.presence_penalty = kAll; }},
         {"n_logprobs", [](auto& r) { r.sampling.n_logprobs = -2; }},
         {"n_logprobs", [](auto& r) { r.sampling.n_logprobs = kMaxLogprobs + 1; }},
         {"biased token",
          [](auto& r) {
              r.sampling.logit_bias = {{-1, 0.0F}};
          }},
         {"logit bias is not",
          [](auto& r) {
              r.sampling.logit_bias = {{1, kNone}};
          }},
         {"grammar_within_tokens", [](auto& r) { r.sampling.grammar.within_tokens = -1; }},
         {"no end", [](auto& r) { r.sampling.grammar.thought.max_tokens = 3; }},
         {"of a mark", [](auto& r) { r.sampling.grammar.thought.close.assign(65, 'x'); }},
         {"of a mark", [](auto& r) { r.sampling.grammar.thought.open.assign(65, 'x'); }},
         {"is empty",
          [](auto& r) {
              r.sampling.grammar.thought = {"", "x", {""}, 0};
          }},
         {"marks never", [](auto& r) { r.sampling.grammar.thought.never.assign(9, "x"); }}});
    core::Submitted message = plain();
    message.request.sampling.grammar.kind = behind(spec::OutputGrammar::Kind::tool_calls);
    expect_refused(message, 0, "grammar_kind");
    message.request.sampling.grammar = {};
    message.request.sampling.grammar.text.assign(spec::OutputGrammar::kMaxTextBytes + 1, 'x');
    EXPECT_FALSE(check_request(message).ok());
}

TEST(SubmitRequest, WhatAClientMayAskForIsTaken) {
    core::Submitted message = plain();
    message.request.min_tokens = kMost32;
    message.request.max_draft_tokens = kMost32;
    message.request.sampling.top_k = kMost32;
    message.request.n = kMaxMembers;
    for (const std::int32_t priority : {std::numeric_limits<std::int32_t>::min(), kMost32}) {
        message.request.priority = priority;
        const auto decoded = decode_again(message);
        ASSERT_TRUE(decoded.ok()) << decoded.error().message;
        EXPECT_EQ(std::get<core::Submitted>(*decoded).request.priority, priority);
    }
    message.request.prompt.clear();
    EXPECT_TRUE(decode_again(message).ok()) << "the coordinator refuses it, in words for a client";
}

TEST(SubmitRequest, ABeamSearchHasTheWidthForItsAnswers) {
    core::Submitted message = plain();
    message.request.n = 2;
    message.request.beam = core::BeamSearch{2, kMaxLengthPenalty, core::EarlyStopping::never};
    expect_all_refused(
        message, {{"width of a beam search", [](auto& r) { r.beam->width = 1; }},
                  {"width of a beam search", [](auto& r) { r.beam->width = kMaxMembers + 1; }},
                  {"length_penalty", [](auto& r) { r.beam->length_penalty = std::nan(""); }},
                  {"length_penalty", [](auto& r) { r.beam->length_penalty = 10.1; }},
                  {"length_penalty", [](auto& r) { r.beam->length_penalty = -10.1; }}});
    message.request.beam->early_stopping = behind(core::kLastEarlyStopping);
    expect_refused(message, 0, "early_stopping");
}

TEST(SubmitRequest, AnEmbeddingIsOneAnswerOfNoTokens) {
    expect_all_refused(embedding(),
                       {{"n of an embedding", [](auto& r) { r.n = 2; }},
                        {"max_tokens of an embedding", [](auto& r) { r.max_tokens = 0; }},
                        {"max_tokens of an embedding", [](auto& r) { r.max_tokens = 2; }},
                        {"beam search", [](auto& r) { r.beam.emplace(); }},
                        {"scored prompt", [](auto& r) {
                             r.sampling.n_logprobs = 0;
                             r.score_prompt = true;
                         }}});
    core::Submitted message = embedding();
    message.request.pooling = behind(spec::kLastPooling);
    expect_refused(message, 0, "pooling");
    message = embedding();
    message.begun = core::Begun{{{}}, 0, 3};
    EXPECT_TRUE(decode_again(message).ok());
    message.begun->choices[0].output = {1};
    expect_refused(message, 0, "tokens of an output");
}

TEST(SubmitRequest, AScoredPromptNeedsLogProbabilities) {
    core::Submitted message = plain();
    message.request.sampling.n_logprobs = 0;
    message.request.score_prompt = true;
    expect_all_refused(
        message, {{"n_logprobs of a scored prompt", [](auto& r) { r.sampling.n_logprobs = -1; }}});
}

TEST(SubmitRequest, WhatItHasBegunWithFitsTheRequest) {
    using Change = std::function<void(core::Submitted&)>;
    const std::vector<std::pair<std::string, Change>> wrong = {
        {"without a prompt", [](auto& m) { m.request.prompt.clear(); }},
        {"choices", [](auto& m) { m.begun->choices.pop_back(); }},
        {"choices", [](auto& m) { m.begun->choices.emplace_back(); }},
        {"choices", [](auto& m) { m.begun->choices.clear(); }},
        {"scored tokens", [](auto& m) { m.begun->scored = 3; }},
        {"scored tokens", [](auto& m) { m.begun->scored = -1; }},
        {"scored tokens", [](auto& m) { m.request.score_prompt = false; }},
        {"attempts_before", [](auto& m) { m.begun->attempts_before = kMaxAttemptsBefore + 1; }},
        {"token of an output", [](auto& m) { m.begun->choices[1].output = {-1}; }},
        {"tokens of an output",
         [](auto& m) { m.begun->choices[1].output.assign(kMaxItems - 2, 1); }},
    };
    ASSERT_TRUE(decode_again(begun()).ok()) << decode_again(begun()).error().message;
    for (const auto& [words, change] : wrong) {
        core::Submitted message = begun();
        change(message);
        expect_refused(message, 0, words);
        EXPECT_FALSE(check_request(message).ok()) << words;
    }
    core::Submitted message = begun();
    message.begun->attempts_before = kMaxAttemptsBefore;
    message.begun->choices[1].output.assign(kMaxItems - 3, 1);
    EXPECT_TRUE(decode_again(message).ok());
}

TEST(SubmitRequest, TheLargestIsSmallerThanAMessageMayBe) {
    core::Submitted message = plain();
    core::Request& request = message.request;
    request.prompt.assign(kMaxItems, kMaxVocabSize);
    request.stop_tokens.assign(kMaxItems, kMaxVocabSize);
    request.prediction.assign(kMaxRequestTokens - 2 * kMaxItems, kMaxVocabSize);
    request.sampling.logit_bias.assign(kMaxItems, {kMaxVocabSize, 1.5F});
    request.sampling.grammar = {spec::OutputGrammar::Kind::gbnf,
                                std::string(spec::OutputGrammar::kMaxTextBytes, 'x'),
                                1,
                                {}};
    const std::string bytes = encode(message);
    EXPECT_LT(bytes.size(), kMaxMessageBytes);
    EXPECT_TRUE(decode_text(bytes).ok());
    request.prediction.push_back(1);
    EXPECT_EQ(check_request(message).error().code, base::Errc::too_large);
    expect_refused(message, 0, "tokens of a request");
    request.prediction.pop_back();
    request.prediction.pop_back();
    message.begun = core::Begun{{{{1, 2}, false}}, 0, 0};
    expect_refused(message, 0, "tokens of a request");
}

// ---- what becomes of requests

void expect_event_refused(const core::RequestEvent& event, const std::string& words,
                          const SessionLimits& limits = kLimits) {
    expect_refused(core::RequestEvents{{}, {core::AcceptRequest{}, event}}, 0, words, limits);
}

TEST(RequestEvents, FieldsOutOfRangeAreRefusedByName) {
    const core::Pipeline whole = {{{1}, {0, 16}}};
    expect_event_refused(core::RejectRequest{{}, behind(core::kLastRejectReason), "", 0},
                         "refusal");
    expect_event_refused(core::RejectRequest{{}, {}, "", -1}, "retry_after_s");
    expect_event_refused(core::RequestRouted{}, "pipeline stages");
    expect_event_refused(core::RequestRouted{{}, {{{1}, {0, 15}}}}, "pipeline ends");
    expect_event_refused(core::RequestRouted{{}, whole, 0, -1}, "cached_tokens");
    expect_event_refused(core::RequestRouted{{}, whole, 0, 0, behind(core::kLastRouteReason)},
                         "reason of a route");
    expect_event_refused(core::StreamToken{{}, -1, {}}, "index");
    expect_event_refused(core::StreamToken{{}, 0, {{}, 0, -1, 0, {}}}, "token");
    expect_event_refused(core::StreamToken{{}, 0, {{}, -1, 0, 0, {}}}, "position");
    expect_event_refused(core::StreamToken{{}, 0, {}, -1}, "choice");
    expect_event_refused(core::StreamToken{{}, 0, {}, kMaxMembers}, "choice");
    expect_event_refused(core::ScoreTokens{}, "scored tokens");
    expect_event_refused(core::ScoreTokens{{}, {{{}, 0, -1, 0, {}}}}, "token");
    expect_event_refused(core::EmbedPrompt{}, "values of an embedding");
    expect_event_refused(core::EmbedPrompt{{}, std::vector<float>(31)}, "values of an embedding");
    expect_event_refused(core::EmbedPrompt{{}, std::vector<float>(32)}, "before the model", {});
    expect_event_refused(core::FinishChoice{{}, kMaxMembers}, "choice");
    expect_event_refused(core::FinishChoice{{}, 0, behind(core::kLastFinishReason)}, "end");
    expect_event_refused(core::FinishRequest{{}, behind(core::kLastFinishReason)}, "end");
    expect_event_refused(core::FinishRequest{{}, {}, behind(core::kLastFailureCause)}, "failure");
    EXPECT_TRUE(decode_again(core::RequestEvents{{}, {core::EmbedPrompt{{}, {0.5F}}}}).ok())
        << "a score";
    EXPECT_TRUE(decode_again(core::RequestEvents{}).ok());
}

TEST(RequestEvents, TimesAreInOrderAndTheirDifferencesDoNotOverflow) {
    using Change = std::function<void(core::StageTimed&)>;
    const core::StageTimed right{{}, 1, {2}, 3, 4, {5}, {-kMaxTimeNs}, {kMaxTimeNs}};
    ASSERT_TRUE(decode_again(core::RequestEvents{{-kMaxTimeNs}, {right}}).ok());
    const std::vector<std::pair<std::string, Change>> wrong = {
        {"batches", [](auto& e) { e.batches = 0; }},
        {"rows", [](auto& e) { e.rows = 0; }},
        {"busy_ns", [](auto& e) { e.busy.ns = -1; }},
        {"first_ns", [](auto& e) { e.first.ns = -kMaxTimeNs - 1; }},
        {"last_ns", [](auto& e) { e.last.ns = kMaxTimeNs + 1; }},
        {"last_ns", [](auto& e) { e.first.ns = 5, e.last.ns = 4; }},
    };
    for (const auto& [words, change] : wrong) {
        core::StageTimed event = right;
        change(event);
        expect_event_refused(event, words);
    }
    expect_refused(core::RequestEvents{{kMost64}, {}}, 0, "said_ns");
}

TEST(RequestEvents, LongTextsAreCutBetweenTwoCharacters) {
    std::string words = "x";
    while (words.size() <= kMaxTextBytes) words += "\u00E4";
    const core::RequestEvents message{
        {},
        {core::FinishRequest{{}, core::FinishReason::error, core::FailureCause::stalled, words},
         core::RejectRequest{{}, {}, words}}};
    const auto decoded = decode_again(message);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    const auto& events = std::get<core::RequestEvents>(*decoded).events;
    const std::string expected = words.substr(0, kMaxTextBytes - 1);
    EXPECT_EQ(std::get<core::FinishRequest>(events[0]).error, expected);
    EXPECT_EQ(std::get<core::RejectRequest>(events[1]).message, expected);
}

TEST(RequestEvents, AnEventOfNoKnownKindIsRefused) {
    // Field 44 of the envelope, in it an event (field 2) that is empty.
    const auto decoded = decode_text(std::string{"\xE2\x02\x02\x12\x00", 5});
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.error().message, "event of no known kind");
}

// ---- the rest of what they say

TEST(Gateway, FieldsOutOfRangeAreRefusedByName) {
    const std::string long_text(kMaxTextBytes + 1, 'x');
    expect_refused(GatewayHello{10, long_text, "", 0}, 0, "name");
    expect_refused(GatewayHello{10, "", long_text, 0}, 0, "public_key");
    expect_refused(core::Ended{{}, behind(core::kLastFinishReason), {}}, 0, "reason");
    expect_refused(core::Ended{{}, {}, -2}, 0, "choice");
    expect_refused(core::Ended{{}, {}, kMaxMembers}, 0, "choice");
    expect_refused(core::RequestNumbers{{7}, 0}, 0, "count");
    expect_refused(core::RequestNumbers{{std::numeric_limits<std::uint64_t>::max()}, 1}, 0,
                   "first");
    EXPECT_TRUE(decode_again(core::RequestNumbers{}).ok()) << "it asks for some";
    expect_refused(GatewayView{true, -1, 0, 0}, 0, "capacity_tokens");
    expect_refused(GatewayView{true, 0, -1, 0}, 0, "waiting");
    expect_refused(GatewayView{true, 0, 0, -1}, 0, "running");
    expect_refused(core::MoveRequest{{3}}, 1, "raw frame");
}

TEST(Gateway, AWelcomeTellsOfAModelThatThereIs) {
    GatewayWelcome right;
    right.model = {"m", 2, 10, 5, 5, 8, 4, 8, 1.0, 64};
    right.hidden_size = 8;
    right.vocab_size = 9;
    right.names = {"m"};
    right.chat_template.assign(kMaxTemplateBytes, '\xFF');
    ASSERT_TRUE(decode_again(right).ok()) << decode_again(right).error().message;
    using Change = std::function<void(GatewayWelcome&)>;
    const std::string long_text(kMaxTextBytes + 1, 'x');
    const std::vector<std::pair<std::string, Change>> wrong = {
        {"n_layers", [](auto& m) { m.model.n_layers = 0; }},
        {"hidden_size", [](auto& m) { m.hidden_size = 0; }},
        {"vocab_size", [](auto& m) { m.vocab_size = kMaxVocabSize + 1; }},
        {"names of the model", [](auto& m) { m.names.clear(); }},
        {"names of the model", [](auto& m) { m.names.resize(kMaxNames + 1); }},
        {"name of the model", [&](auto& m) { m.names.push_back(long_text); }},
        {"created", [](auto& m) { m.created = -1; }},
        {"chat_template", [](auto& m) { m.chat_template += "x"; }},
        {"tool_parser", [&](auto& m) { m.tool_parser = long_text; }},
        {"http_endpoint", [&](auto& m) { m.http_endpoint = long_text; }},
        {"kv_type", [&](auto& m) { m.kv_type = long_text; }},
    };
    for (const auto& [words, change] : wrong) {
        GatewayWelcome message = right;
        change(message);
        expect_refused(message, 0, words);
    }
}

}  // namespace
}  // namespace helix::wire::requests_test
