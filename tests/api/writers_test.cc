// What the writers make of every kind of part, also of those that no answer has yet.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/writers/make_writers.h"
#include "byte_codec.h"
#include "fake_service.h"
#include "net/sse.h"

namespace helix::api::writers_test {
namespace {

using core::FinishReason;
using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;
using Json = nlohmann::json;
using Parts = std::vector<OutputPart>;

class WritersTest : public ::testing::Test {
  protected:
    WritersTest() {
        model_.info.name = "byte-model";
        model_.info.context_length = 100;
        model_.codec = std::make_unique<ByteCodec>();
        model_.service = &service_;
        prepared_.model = &model_;
        prepared_.prompts = {{'h', 'i'}};
    }
    std::unique_ptr<StreamWriter> stream(Endpoint endpoint) {
        prepared_.request.endpoint = endpoint;
        return make_stream_writer(prepared_, head_);
    }
    Json whole(Endpoint endpoint, std::vector<WholeChoice> choices) {
        prepared_.request.endpoint = endpoint;
        WholeAnswer answer;
        answer.choices = std::move(choices);
        answer.usage = {7, 3, 5};
        return Json::parse(make_whole_writer(prepared_, head_)->write(answer));
    }
    static WholeChoice choice(Parts parts, FinishReason reason = FinishReason::stop) {
        WholeChoice made;
        made.parts = std::move(parts);
        made.end.reason = reason;
        return made;
    }
    // The chunks of a stream. That it ends with [DONE] is checked.
    static std::vector<Json> chunks(const std::string& events) {
        std::vector<std::string> data;
        net::SseParser parser([&](std::string_view event) { data.emplace_back(event); });
        parser.push(events);
        EXPECT_FALSE(data.empty());
        EXPECT_EQ(data.back(), "[DONE]");
        data.pop_back();
        std::vector<Json> parsed;
        for (const std::string& event : data) parsed.push_back(Json::parse(event));
        return parsed;
    }
    static Json delta(const Json& chunk) { return chunk["choices"][0]["delta"]; }

    FakeService service_;
    ModelEntry model_;
    PreparedCompletion prepared_;
    AnswerHead head_{"id-1", 1234, "m", ""};
};

TEST_F(WritersTest, AChatStreamHasAFieldOfItsOwnForEachKindOfPart) {
    const auto writer = stream(Endpoint::chat);
    std::string out;
    writer->begin(out, {2, 0, 0});
    EXPECT_EQ(out, "");
    writer->add_parts(out, 0, {ReasoningText{"let me see"}}, {{2, 0, 1}, 1});
    writer->add_parts(out, 0, {ContentText{"I look."}, ToolCallDelta{0, "call_1", "look", ""}},
                      {{2, 0, 2}, 2});
    writer->add_parts(out, 0, {ToolCallDelta{0, "", "", "{\"at\":\"sky\"}", true}}, {{2, 0, 3}, 3});
    writer->finish(out, 0, {FinishReason::stop}, {{2, 0, 4}, 4});
    writer->end(out, {2, 0, 4});
    const auto all = chunks(out);
    ASSERT_EQ(all.size(), 6U);
    EXPECT_EQ(delta(all[0]), (Json{{"role", "assistant"}, {"content", ""}}));
    EXPECT_EQ(delta(all[1]),
              (Json{{"reasoning_content", "let me see"}, {"reasoning", "let me see"}}));
    EXPECT_EQ(delta(all[2]), (Json{{"content", "I look."}}));
    EXPECT_EQ(delta(all[3]), Json::parse(R"({"tool_calls":[{"index":0,"id":"call_1",
        "type":"function","function":{"name":"look","arguments":""}}]})"));
    EXPECT_EQ(delta(all[4]), Json::parse(R"({"tool_calls":[{"index":0,
        "function":{"arguments":"{\"at\":\"sky\"}"}}]})"));
    EXPECT_EQ(delta(all[5]), Json::object());
    EXPECT_EQ(all[5]["choices"][0]["finish_reason"], "tool_calls");
    for (const Json& chunk : all) {
        EXPECT_EQ(chunk["object"], "chat.completion.chunk");
        EXPECT_EQ(chunk["id"], "id-1");
        EXPECT_EQ(chunk["created"], 1234);
        EXPECT_EQ(chunk["model"], "m");
    }
}

TEST_F(WritersTest, ACallThatIsCutOffEndsByLengthAndOtherChoicesEndAsTheyDo) {
    prepared_.request.n = prepared_.request.best_of = 2;
    const auto writer = stream(Endpoint::chat);
    std::string out;
    writer->add_parts(out, 0, {ToolCallDelta{0, "call_1", "look", "{"}}, {{}, 1});
    writer->add_parts(out, 1, {ContentText{"no"}}, {{}, 1});
    writer->finish(out, 0, {FinishReason::length}, {{}, 1});
    writer->finish(out, 1, {FinishReason::stop}, {{}, 1});
    writer->end(out, {});
    const auto all = chunks(out);
    ASSERT_EQ(all.size(), 7U);
    // Who is called comes before the first arguments.
    EXPECT_EQ(delta(all[1])["tool_calls"][0]["function"]["arguments"], "");
    EXPECT_EQ(delta(all[2]),
              Json::parse(R"({"tool_calls":[{"index":0,"function":{"arguments":"{"}}]})"));
    EXPECT_EQ(all[5]["choices"][0]["index"], 0);
    EXPECT_EQ(all[5]["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(all[6]["choices"][0]["index"], 1);
    EXPECT_EQ(all[6]["choices"][0]["finish_reason"], "stop");
}

TEST_F(WritersTest, LogProbabilitiesGoOutWithTheFirstPartAfterThem) {
    prepared_.request.sampling.n_logprobs = 0;
    const auto writer = stream(Endpoint::chat);
    std::string out;
    core::ProducedToken token;
    token.token = 'x';
    token.logprob = -0.5F;
    writer->add_tokens(0, {&token, 1});
    writer->add_parts(out, 0, {}, {{}, 1});
    EXPECT_EQ(out, "");
    writer->add_tokens(0, {&token, 1});
    writer->add_parts(out, 0, {ContentText{"x"}, ReasoningText{"y"}}, {{}, 2});
    writer->end(out, {});
    const auto all = chunks(out);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[1]["choices"][0]["logprobs"]["content"].size(), 2U);
    EXPECT_TRUE(all[2]["choices"][0]["logprobs"].is_null());
}

TEST_F(WritersTest, AStreamThatBreaksOffEndsWithTheErrorAndNoDone) {
    for (const Endpoint endpoint : {Endpoint::chat, Endpoint::completions}) {
        std::string out;
        stream(endpoint)->error(out, unavailable("gone", 1));
        EXPECT_EQ(out, "data: " + error_json(unavailable("gone", 1)) + "\n\n");
    }
}

TEST_F(WritersTest, AWholeMessageJoinsWhatWasSaidAndListsTheCalls) {
    const Json answer = whole(
        Endpoint::chat,
        {choice({ReasoningText{"hm"}, ContentText{"I "}, ToolCallDelta{0, "call_1", "look", "{"},
                 ToolCallDelta{1, "call_2", "find", "{}", true},
                 ToolCallDelta{0, "", "", "}", true}, ContentText{"look."}})});
    const Json& only = answer["choices"][0];
    EXPECT_EQ(only["message"], Json::parse(R"({"role":"assistant","content":"I look.",
        "reasoning_content":"hm","reasoning":"hm","refusal":null,"tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"}},
        {"id":"call_2","type":"function","function":{"name":"find","arguments":"{}"}}]})"));
    EXPECT_EQ(only["finish_reason"], "tool_calls");
    EXPECT_EQ(answer["usage"]["prompt_tokens"], 7);
    EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
    EXPECT_EQ(answer["usage"]["completion_tokens"], 5);
}

TEST_F(WritersTest, AMessageOfCallsAloneHasNoContentAndAnEmptyOneHasEmptyContent) {
    prepared_.request.n = prepared_.request.best_of = 2;
    const Json answer =
        whole(Endpoint::chat,
              {choice({ToolCallDelta{0, "c", "f", "{}"}}, FinishReason::length), choice({})});
    EXPECT_TRUE(answer["choices"][0]["message"]["content"].is_null());
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(answer["choices"][1]["message"],
              Json::parse(R"({"role":"assistant","content":"","refusal":null})"));
    EXPECT_EQ(answer["choices"][1]["finish_reason"], "stop");
}

TEST_F(WritersTest, APlainCompletionBeginsWithTheEchoOfItsPrompt) {
    prepared_.prompts = {{'h', 'i'}, {'y', 'o'}};
    prepared_.request.echo = true;
    prepared_.echoes = {std::make_shared<const std::string>("hi"),
                        std::make_shared<const std::string>("yo")};
    const Json answer = whole(Endpoint::completions, {choice({ContentText{"!"}}), choice({})});
    EXPECT_EQ(answer["choices"][0]["text"], "hi!");
    EXPECT_EQ(answer["choices"][1]["text"], "yo");

    const auto writer = stream(Endpoint::completions);
    std::string out;
    writer->add_parts(out, 1, {}, {{}, 1});
    writer->add_parts(out, 0, {ContentText{"!"}}, {{}, 1});
    writer->add_parts(out, 0, {ContentText{"?"}}, {{}, 2});
    writer->finish(out, 0, {FinishReason::stop}, {{}, 2});
    writer->end(out, {});
    const auto all = chunks(out);
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0]["choices"][0]["text"], "yo");
    EXPECT_EQ(all[1]["choices"][0]["text"], "hi!");
    EXPECT_EQ(all[2]["choices"][0]["text"], "?");
    EXPECT_EQ(all[3]["choices"][0]["text"], "");
}

TEST_F(WritersTest, APlainCompletionShowsNothingButContent) {
    const auto writer = stream(Endpoint::completions);
    std::string out;
    EXPECT_DEATH(writer->add_parts(out, 0, {ReasoningText{"hm"}}, {{}, 1}), "openai_shape");
    EXPECT_DEATH(writer->add_parts(out, 0, {ToolCallDelta{}}, {{}, 1}), "openai_shape");
}

TEST_F(WritersTest, UsageIsTokenByTokenWhereItIsAskedFor) {
    prepared_.request.include_usage = prepared_.request.continuous_usage = true;
    const auto writer = stream(Endpoint::completions);
    std::string out;
    writer->add_parts(out, 0, {}, {{2, 0, 1}, 1});
    writer->add_parts(out, 0, {}, {{2, 0, 1}, 1});  // nothing new
    writer->finish(out, 0, {FinishReason::length}, {{2, 0, 1}, 1});
    writer->end(out, {2, 0, 1});
    const auto all = chunks(out);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0]["usage"]["completion_tokens"], 1);
    EXPECT_EQ(all[1]["choices"][0]["finish_reason"], "length");
    EXPECT_TRUE(all[2]["choices"].empty());
    EXPECT_EQ(all[2]["usage"]["total_tokens"], 3);
}

}  // namespace
}  // namespace helix::api::writers_test
