// Embeddings over HTTP, in OpenAI's form and in Ollama's.

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "api/embedding/embedding_writer.h"
#include "api_fixture.h"

namespace helix::api::embeddings_test {
namespace {

using core::FinishReason;
using ::testing::HasSubstr;

class EmbeddingsTest : public ApiTest {
  protected:
    EmbeddingsTest() {
        model_.hidden = 4;
        model_.pooling = spec::Pooling::last;
    }
    // Sends the body, and answers every prompt with the values.
    net::TestClient::Response embed(const std::string& path, const Json& body, int prompts,
                                    const std::vector<float>& values = {0.5F, 0.5F, -0.5F, 0.5F}) {
        auto c = client();
        c.request("POST", path, body.dump());
        for (int i = 0; i < prompts; ++i) {
            auto request = service_.next();
            EXPECT_TRUE(request);
            if (!request) break;
            request->accept();
            request->route();
            request->embed(values);
        }
        return c.read_response();
    }
    Json refused(const std::string& path, const Json& body, int status = 400) {
        const auto response = post(path, body.dump());
        EXPECT_EQ(response.status, status) << response.body;
        return Json::parse(response.body)["error"];
    }
    Json param(const Json& body) { return refused("/v1/embeddings", body)["param"]; }
};

TEST_F(EmbeddingsTest, EachInputIsARequestOfItsOwnAndTheyAreAnsweredInOrder) {
    auto c = client();
    c.request("POST", "/v1/embeddings", R"({"model":"gpt-x","input":["one","three"]})");
    auto first = service_.next();
    auto second = service_.next();
    ASSERT_TRUE(first && second) << "both run at once";
    EXPECT_EQ(first->prompt(), "one");
    EXPECT_EQ(second->prompt(), "three");
    EXPECT_EQ(first->request.pooling, spec::Pooling::last);
    EXPECT_EQ(first->request.max_tokens, 1);
    EXPECT_NE(first->request.client, 0U);
    second->embed({0, 1, 0, 0});
    first->embed({1, 0, 0, 0});
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(Json::parse(response.body), Json::parse(R"({"object":"list","data":[
        {"object":"embedding","index":0,"embedding":[1,0,0,0]},
        {"object":"embedding","index":1,"embedding":[0,1,0,0]}],
        "model":"gpt-x","usage":{"prompt_tokens":8,"total_tokens":8}})"));
}

TEST_F(EmbeddingsTest, InputsMayBeTokens) {
    auto c = client();
    c.request("POST", "/v1/embeddings", R"({"input":[72,105]})");
    auto one = service_.next();
    ASSERT_TRUE(one);
    EXPECT_EQ(one->prompt(), "Hi");
    one->embed({1, 0, 0, 0});
    EXPECT_EQ(Json::parse(c.read_response().body)["data"].size(), 1U);
    const auto several = embed("/v1/embeddings", Json::parse(R"({"input":[[72,105],[72]]})"), 2);
    EXPECT_EQ(Json::parse(several.body)["data"].size(), 2U);
    EXPECT_EQ(Json::parse(several.body)["usage"]["prompt_tokens"], 3);
}

TEST_F(EmbeddingsTest, Base64IsLittleEndianFloats) {
    const auto response =
        embed("/v1/embeddings", {{"input", "x"}, {"encoding_format", "base64"}}, 1);
    // 0.5 is 3f000000 and -0.5 bf000000.
    EXPECT_EQ(Json::parse(response.body)["data"][0]["embedding"], "AAAAPwAAAD8AAAC/AAAAPw==");
    EXPECT_EQ(base64_of(std::vector<float>{1.0F, -2.0F, 0.0F}), "AACAPwAAAMAAAAAA");
    EXPECT_EQ(base64_of(std::vector<float>{1.0F, -2.0F}), "AACAPwAAAMA=");
    EXPECT_EQ(base64_of({}), "");
}

TEST_F(EmbeddingsTest, DimensionsAreTheFirstScaledToLengthOne) {
    const auto response =
        embed("/v1/embeddings", {{"input", "x"}, {"dimensions", 2}}, 1, {0.3F, 0.4F, 0.5F, 0.7F});
    const Json values = Json::parse(response.body)["data"][0]["embedding"];
    ASSERT_EQ(values.size(), 2U);
    EXPECT_NEAR(values[0].get<double>(), 0.6, 1e-6);
    EXPECT_NEAR(values[1].get<double>(), 0.8, 1e-6);
    EXPECT_EQ(shortened(std::vector<float>{0, 0, 1}, 2), (std::vector<float>{0, 0}));
    EXPECT_EQ(shortened(std::vector<float>{2, 3}, 0), (std::vector<float>{2, 3}));
}

TEST_F(EmbeddingsTest, WhatIsWrongIsA400ThatNamesTheField) {
    EXPECT_EQ(param(Json::object()), "input");
    EXPECT_EQ(param({{"input", 5}}), "input");
    EXPECT_EQ(param({{"input", Json::array()}}), "input");
    EXPECT_EQ(param({{"input", {"a", 5}}}), "input");
    EXPECT_EQ(param({{"input", {258}}}), "input") << "no token of the model";
    EXPECT_EQ(param({{"input", ""}}), "input");
    EXPECT_EQ(param({{"input", std::vector<std::string>(2049, "a")}}), "input");
    EXPECT_EQ(param({{"input", "a"}, {"encoding_format", "hex"}}), "encoding_format");
    EXPECT_EQ(param({{"input", "a"}, {"dimensions", 5}}), "dimensions");
    EXPECT_EQ(param({{"input", "a"}, {"dimensions", 0}}), "dimensions");
    EXPECT_EQ(refused("/v1/embeddings", {{"input", "a"}, {"model", "other"}}, 404)["param"],
              "model");
    const Json error = refused("/v1/embeddings", {{"input", std::string(200, 'a')}});
    EXPECT_EQ(error["param"], "input");
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("200 tokens"));
    EXPECT_EQ(embed("/v1/embeddings", {{"input", std::string(199, 'a')}}, 1).status, 200);
}

TEST_F(EmbeddingsTest, AModelWithoutAPoolingMakesNone) {
    model_.pooling = spec::Pooling::none;
    const Json error = refused("/v1/embeddings", {{"input", "a"}});
    EXPECT_EQ(error["param"], "model");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("pooling_type"));
}

TEST_F(EmbeddingsTest, AnAnswerThatWouldBeTooLongIsRefusedBeforeItIsComputed) {
    model_.hidden = 1024;
    options_.request_limits.max_answer_bytes = 100'000;
    const Json error = refused("/v1/embeddings", {{"input", {"a", "b", "c", "d", "e"}}});
    EXPECT_EQ(error["param"], "input");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("max_answer_bytes"));
    EXPECT_EQ(embed("/v1/embeddings", {{"input", {"a", "b", "c", "d", "e"}}, {"dimensions", 4}}, 5,
                    std::vector<float>(1024, 0.5F))
                  .status,
              200);
}

TEST_F(EmbeddingsTest, ALongListIsGivenToTheServicePieceByPiece) {
    auto c = client();
    c.request("POST", "/v1/embeddings", Json{{"input", std::vector<std::string>(70, "a")}}.dump());
    std::vector<FakeRequest> running;
    for (int i = 0; i < 64; ++i) running.push_back(*service_.next());
    for (int i = 0; i < 70; ++i) {
        running[static_cast<std::size_t>(i)].embed({1, 0, 0, 0});
        if (i < 6) running.push_back(*service_.next());
    }
    EXPECT_EQ(Json::parse(c.read_response().body)["data"].size(), 70U);
}

TEST_F(EmbeddingsTest, ALongAnswerIsWhole) {
    model_.hidden = 20'000;
    std::vector<float> values(20'000, 0.0F);
    values[19'999] = 1;
    const auto response = embed("/v1/embeddings", {{"input", {"a", "b"}}}, 2, values);
    const Json data = Json::parse(response.body)["data"];
    ASSERT_EQ(data.size(), 2U);
    EXPECT_EQ(data[1]["embedding"].get<std::vector<float>>(), values);
}

TEST_F(EmbeddingsTest, WhenTheClientGoesAwayWhatRunsIsCancelled) {
    auto c = client();
    c.request("POST", "/v1/embeddings", R"({"input":["one","two"]})");
    auto first = service_.next();
    auto second = service_.next();
    ASSERT_TRUE(first && second);
    first->embed({1, 0, 0, 0});
    ASSERT_TRUE(metric_becomes("vllm:request_success_total", "1"));
    c.close();
    EXPECT_EQ(service_.wait_ended(second->id), FinishReason::cancelled);
    EXPECT_FALSE(service_.was_ended(first->id));
}

TEST_F(EmbeddingsTest, TheFirstThatFailsEndsTheOthersWithItsError) {
    auto c = client();
    c.request("POST", "/v1/embeddings", R"({"input":["one","two"]})");
    auto first = service_.next();
    auto second = service_.next();
    ASSERT_TRUE(first && second);
    first->finish(FinishReason::error, "a worker broke");
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 503);
    EXPECT_THAT(response.body, HasSubstr("a worker broke"));
    EXPECT_EQ(service_.wait_ended(second->id), FinishReason::cancelled);

    core::RejectRequest full;
    full.message = "the queue is full";
    full.retry_after_s = 1;
    service_.reject_all(full);
    const auto refused = post("/v1/embeddings", R"({"input":["one","two"]})");
    EXPECT_EQ(refused.status, 429) << refused.body;
}

TEST_F(EmbeddingsTest, TheLogNamesTheEndpoint) {
    embed("/v1/embeddings", {{"input", "abc"}}, 1);
    const Json request = Json::parse(get("/helix/cluster").body)["requests"][0];
    EXPECT_EQ(request["endpoint"], "embeddings");
    EXPECT_EQ(request["prompt_tokens"], 3);
    EXPECT_EQ(request["state"], "stop");
}

TEST_F(EmbeddingsTest, OllamasEmbedTakesOneTextOrSeveral) {
    auto one = Json::parse(embed("/api/embed", {{"model", "gpt-x"}, {"input", "abc"}}, 1).body);
    EXPECT_GE(one["total_duration"].get<std::int64_t>(), 0);
    one.erase("total_duration");
    EXPECT_EQ(one, Json::parse(R"({"model":"gpt-x","embeddings":[[0.5,0.5,-0.5,0.5]],
                                   "load_duration":0,"prompt_eval_count":3})"));
    const auto two = embed("/api/embed", {{"input", {"a", "b"}}, {"dimensions", 1}}, 2);
    EXPECT_EQ(Json::parse(two.body)["embeddings"], Json::parse("[[1],[1]]"));
    EXPECT_EQ(Json::parse(post("/api/embed", R"({"input":""})").body)["embeddings"], Json::array());
}

TEST_F(EmbeddingsTest, OllamasTextsLoseTheirEndUnlessThatIsRefused) {
    auto c = client();
    c.request("POST", "/api/embed", Json{{"input", std::string(300, 'a')}}.dump());
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.prompt.size(), 199U);
    request->embed({1, 0, 0, 0});
    EXPECT_EQ(c.read_response().status, 200);
    const auto response =
        post("/api/embed", Json{{"input", std::string(300, 'a')}, {"truncate", false}}.dump());
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(Json::parse(response.body)["error"].get<std::string>(), HasSubstr("300"));
    // A mark at the end stays there.
    std::vector<core::Token> tokens(300, 'a');
    tokens.back() = kByteEnd;
    auto d = client();
    d.request("POST", "/api/embed", Json{{"input", tokens}}.dump());
    request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.prompt.size(), 199U);
    EXPECT_EQ(request->request.prompt.back(), kByteEnd);
    request->embed({1, 0, 0, 0});
    EXPECT_EQ(d.read_response().status, 200);
}

TEST_F(EmbeddingsTest, AnEncoderMakesEmbeddingsOfWholeContextsAndAnswersNothingElse) {
    model_.encoder = true;
    for (const auto& [path, body] :
         {std::pair("/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}]})"),
          {"/v1/completions", R"({"prompt":"Hi"})"},
          {"/v1/messages", R"({"max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})"}}) {
        const auto response = post(path, body);
        EXPECT_EQ(response.status, 400) << response.body;
        EXPECT_THAT(response.body,
                    HasSubstr("is an encoder: it makes embeddings (/v1/embeddings)"));
    }
    const auto whole =
        embed("/v1/embeddings", {{"input", std::string(200, 'a')}}, 1);  // of a context of 200
    EXPECT_EQ(whole.status, 200) << whole.body;
    EXPECT_THAT(refused("/v1/embeddings", {{"input", std::string(201, 'a')}})["message"],
                HasSubstr("of which an input may have 200; an input has 201"));
}

TEST_F(EmbeddingsTest, OllamasOlderEndpointHasOnePrompt) {
    const auto response = embed("/api/embeddings", {{"prompt", "abc"}}, 1);
    EXPECT_EQ(Json::parse(response.body), Json::parse(R"({"embedding":[0.5,0.5,-0.5,0.5]})"));
    EXPECT_EQ(Json::parse(post("/api/embeddings", "{}").body), Json::parse(R"({"embedding":[]})"));
}

}  // namespace
}  // namespace helix::api::embeddings_test
