// Documents ranked by how well they fit a query, and pairs scored, over HTTP.

#include <gmock/gmock.h>

#include "api/rerank/rank_template.h"
#include "api_fixture.h"

namespace helix::api::rerank_test {
namespace {

using core::FinishReason;
using ::testing::HasSubstr;

class RankCodec final : public ByteCodec {
  public:
    explicit RankCodec(std::string written) : written_(std::move(written)) {}
    std::string_view rerank_template() const override { return written_; }
    std::optional<std::vector<Token>> encode_pair(std::string_view query,
                                                  std::string_view document) const override {
        if (written_ == "no ends") return {};
        return encode("(" + std::string(query) + ")(" + std::string(document) + ")", false);
    }

  private:
    std::string written_;
};

class RerankTest : public ApiTest {
  protected:
    RerankTest() { model_.ranks = true; }
    std::unique_ptr<const TextCodec> make_codec() override {
        return std::make_unique<RankCodec>(template_);
    }
    // Sends the body, answers prompts with these scores in turn, and returns what came.
    net::TestClient::Response rank(const std::string& path, const Json& body,
                                   const std::vector<float>& scores) {
        auto c = client();
        c.request("POST", path, body.dump());
        prompts_.clear();
        for (const float score : scores) {
            auto request = service_.next();
            EXPECT_TRUE(request);
            if (!request) break;
            EXPECT_EQ(request->request.pooling, spec::Pooling::rank);
            EXPECT_EQ(request->request.max_tokens, 1);
            prompts_.push_back(request->prompt());
            request->accept();
            request->route();
            request->embed({score});
        }
        return c.read_response();
    }
    Json refused(const std::string& path, const Json& body, int status = 400) {
        const auto response = post(path, body.dump());
        EXPECT_EQ(response.status, status) << response.body;
        return Json::parse(response.body)["error"];
    }
    Json rerank_param(const Json& body) { return refused("/v1/rerank", body)["param"]; }
    Json score_param(const Json& body) { return refused("/v1/score", body)["param"]; }

    std::string template_ = "{instruction}|{query}|{document}";
    std::vector<std::string> prompts_;
};

const std::string kDefault{kDefaultInstruction};

TEST_F(RerankTest, DocumentsComeBestFirst) {
    const auto response =
        rank("/v1/rerank",
             {{"model", "gpt-x"}, {"query", "q"}, {"documents", {"one", {{"text", "two"}}, "tre"}}},
             {0.25F, 0.75F, 0.5F});
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(prompts_, (std::vector<std::string>{kDefault + "|q|one", kDefault + "|q|two",
                                                  kDefault + "|q|tre"}));
    Json answer = Json::parse(response.body);
    EXPECT_TRUE(answer["id"].get<std::string>().starts_with("rerank-"));
    answer.erase("id");
    const auto tokens = 3 * prompts_[0].size();
    EXPECT_EQ(answer, (Json{{"model", "gpt-x"},
                            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
                            {"results", Json::parse(R"([
        {"index":1,"document":{"text":"two"},"relevance_score":0.75},
        {"index":2,"document":{"text":"tre"},"relevance_score":0.5},
        {"index":0,"document":{"text":"one"},"relevance_score":0.25}])")}}));
}

TEST_F(RerankTest, OnlyTheBestAreShownAndTheirTextOnlyIfItIsWanted) {
    const Json body = {
        {"query", "q"}, {"documents", {"a", "b", "c"}}, {"top_n", 2}, {"return_documents", false}};
    for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank"}) {
        const auto response = rank(path, body, {0.5F, 0.25F, 0.5F});
        EXPECT_EQ(Json::parse(response.body)["results"],
                  Json::parse(R"([{"index":0,"relevance_score":0.5},
                                  {"index":2,"relevance_score":0.5}])"))
            << path;
    }
    const auto count = [&](const Json& top_n) {
        const auto all = rank(
            "/rerank", {{"query", "q"}, {"documents", {"a", "b"}}, {"top_n", top_n}}, {0.5F, 1});
        return Json::parse(all.body)["results"].size();
    };
    EXPECT_EQ(count(0), 2U) << "all";
    EXPECT_EQ(count(nullptr), 2U);
    EXPECT_EQ(count(9), 2U);
}

TEST_F(RerankTest, TheInstructionMayBeAnother) {
    const Json body = {{"query", "q"}, {"documents", "d"}, {"instruction", "Be kind"}};
    EXPECT_EQ(rank("/rerank", body, {0.5F}).status, 200);
    EXPECT_EQ(prompts_, std::vector<std::string>{"Be kind|q|d"});
}

TEST_F(RerankTest, ATemplateWithoutAPlaceForAnInstructionTakesNone) {
    template_ = "{query}?{document}";
    Json body = {{"query", "q"}, {"documents", "d"}};
    EXPECT_EQ(rank("/rerank", body, {0.5F}).status, 200);
    EXPECT_EQ(prompts_, std::vector<std::string>{"q?d"});
    body["instruction"] = "Be kind";
    EXPECT_EQ(rerank_param(body), "instruction");
}

TEST_F(RerankTest, ATemplateWithoutAPlaceForDocumentsIsNone) {
    template_ = "{query}";
    const Json error = refused("/rerank", {{"query", "q"}, {"documents", "d"}});
    EXPECT_EQ(error["param"], "model");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("{document}"));
}

TEST_F(RerankTest, ScoresAreOfPairsInOrder) {
    template_ = "{query}|{document}";
    const auto response = rank(
        "/v1/score", {{"model", "gpt-x"}, {"text_1", "q"}, {"text_2", {"a", "b"}}}, {0.25F, 0.75F});
    EXPECT_EQ(prompts_, (std::vector<std::string>{"q|a", "q|b"}));
    Json answer = Json::parse(response.body);
    EXPECT_TRUE(answer["id"].get<std::string>().starts_with("score-"));
    answer.erase("id");
    EXPECT_EQ(answer, Json::parse(R"({"object":"list","created":1234567890,"model":"gpt-x","data":[
        {"index":0,"object":"score","score":0.25},{"index":1,"object":"score","score":0.75}],
        "usage":{"prompt_tokens":6,"total_tokens":6}})"));
    EXPECT_EQ(rank("/score", {{"queries", {"p", "q"}}, {"documents", {"a", "b"}}}, {0, 1}).status,
              200);
    EXPECT_EQ(prompts_, (std::vector<std::string>{"p|a", "q|b"}));
    EXPECT_EQ(rank("/score", {{"text_1", {"p"}}, {"text_2", "a"}}, {1}).status, 200);
    EXPECT_EQ(prompts_, (std::vector<std::string>{"p|a"}));
}

TEST_F(RerankTest, WhatIsWrongIsA400ThatNamesTheField) {
    EXPECT_EQ(rerank_param(Json::object()), "query");
    EXPECT_EQ(rerank_param({{"query", 5}, {"documents", {"a"}}}), "query");
    EXPECT_EQ(rerank_param({{"query", "q"}}), "documents");
    EXPECT_EQ(rerank_param({{"query", "q"}, {"documents", Json::array()}}), "documents");
    EXPECT_EQ(rerank_param({{"query", "q"}, {"documents", {"a", 5}}}), "documents");
    EXPECT_EQ(rerank_param({{"query", "q"}, {"documents", {{{"body", "a"}}}}}), "documents");
    EXPECT_EQ(rerank_param({{"query", "q"}, {"documents", std::vector<std::string>(2049, "a")}}),
              "documents");
    const Json good = {{"query", "q"}, {"documents", {"a"}}};
    const auto with = [&](const char* name, const Json& value) {
        Json body = good;
        body[name] = value;
        return rerank_param(body);
    };
    EXPECT_EQ(with("top_n", -1), "top_n");
    EXPECT_EQ(with("top_n", "2"), "top_n");
    EXPECT_EQ(with("return_documents", 1), "return_documents");
    EXPECT_EQ(with("instruction", 1), "instruction");
    EXPECT_EQ(with("truncate_prompt_tokens", 100), "truncate_prompt_tokens");
    Json other = good;
    other["model"] = "other";
    EXPECT_EQ(refused("/v1/rerank", other, 404)["param"], "model");
    EXPECT_EQ(score_param({{"text_2", "a"}}), "text_1");
    EXPECT_EQ(score_param({{"text_1", "a"}}), "text_2");
    EXPECT_EQ(score_param({{"queries", 5}, {"documents", "a"}}), "queries");
    EXPECT_EQ(score_param({{"queries", {"a", "b"}}, {"documents", {"a"}}}), "queries");
    EXPECT_EQ(score_param({{"text_1", {"a", "b"}}, {"text_2", {"a", "b", "c"}}}), "text_1");
}

TEST_F(RerankTest, ATextThatIsTooLongIsRefused) {
    template_ = "{query}|{document}";
    const std::string text(198, 'a');  // 200 with the query, of which one is the answer's
    const Json error = refused("/rerank", {{"query", "q"}, {"documents", {"b", text}}});
    EXPECT_EQ(error["param"], "documents");
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("document 1"));
    EXPECT_EQ(refused("/score", {{"text_1", "q"}, {"text_2", text}})["param"], "text_2");
    EXPECT_EQ(rank("/rerank", {{"query", ""}, {"documents", text}}, {0.5F}).status, 200);
}

TEST_F(RerankTest, AnAnswerThatWouldBeTooLongIsRefusedBeforeItIsComputed) {
    template_ = "{query}|{document}";
    options_.request_limits.max_answer_bytes = 5000;
    Json body = {{"query", "q"}, {"documents", {std::string(180, 'a'), "b"}}};
    EXPECT_EQ(rerank_param(body), "documents");
    body["return_documents"] = false;
    EXPECT_EQ(rank("/rerank", body, {0.5F, 0.25F}).status, 200);
}

TEST_F(RerankTest, AModelThatCannotRankSaysSo) {
    model_.ranks = false;
    for (const char* path : {"/v1/rerank", "/v1/score"}) {
        const Json error =
            refused(path, {{"query", "q"}, {"text_1", "q"}, {"text_2", "a"}, {"documents", {"a"}}});
        EXPECT_EQ(error["param"], "model");
        EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("cannot rank"));
    }
}

TEST_F(RerankTest, ACrossEncoderReadsPairsOfTexts) {
    model_.encoder = true;
    EXPECT_EQ(rank("/rerank", {{"query", "q"}, {"documents", {"a", "b"}}}, {0.25F, 0.5F}).status,
              200);
    EXPECT_EQ(prompts_, (std::vector<std::string>{"(q)(a)", "(q)(b)"}));
    EXPECT_EQ(rank("/score", {{"text_1", {"p", "q"}}, {"text_2", {"a", "b"}}}, {0, 1}).status, 200);
    EXPECT_EQ(prompts_, (std::vector<std::string>{"(p)(a)", "(q)(b)"}));
    const Json error =
        refused("/rerank", {{"query", "q"}, {"documents", "d"}, {"instruction", "Be kind"}});
    EXPECT_EQ(error["param"], "instruction");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("cross-encoder"));
    // Of a context of 200 all, since nothing is drawn behind it.
    const auto of_length = [](std::size_t length) {
        return Json{{"query", "q"}, {"documents", std::string(length - 5, 'a')}};
    };
    EXPECT_EQ(rank("/rerank", of_length(200), {0.5F}).status, 200);
    EXPECT_EQ(refused("/rerank", of_length(201))["code"], "context_length_exceeded");
    const Json chat =
        refused("/v1/chat/completions",
                Json::parse(R"({"messages":[{"role":"user","content":"Hi"}]})"))["message"];
    EXPECT_THAT(chat.get<std::string>(), HasSubstr("is a cross-encoder: it ranks documents"));
}

TEST_F(RerankTest, AnEncoderThatIsNoCrossEncoderCannotRank) {
    model_.encoder = true;
    model_.ranks = false;
    const Json error = refused("/rerank", {{"query", "q"}, {"documents", "d"}});
    EXPECT_THAT(error["message"].get<std::string>(),
                HasSubstr("an encoder without the head of a cross-encoder"));
}

TEST_F(RerankTest, ACrossEncoderWhoseVocabularyHasNoEndsOfTextsSaysSo) {
    model_.encoder = true;
    template_ = "no ends";
    const Json error = refused("/rerank", {{"query", "q"}, {"documents", "d"}});
    EXPECT_EQ(error["param"], "model");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("no tokens for the ends"));
}

TEST_F(RerankTest, WhenTheClientGoesAwayWhatRunsIsCancelled) {
    auto c = client();
    c.request("POST", "/v1/rerank", R"({"query":"q","documents":["a","b"]})");
    auto first = service_.next();
    auto second = service_.next();
    ASSERT_TRUE(first && second) << "both run at once";
    first->embed({0.5F});
    ASSERT_TRUE(metric_becomes("vllm:request_success_total", "1"));
    c.close();
    EXPECT_EQ(service_.wait_ended(second->id), FinishReason::cancelled);
    EXPECT_FALSE(service_.was_ended(first->id));
}

TEST_F(RerankTest, TheFirstThatFailsEndsTheOthersWithItsError) {
    auto c = client();
    c.request("POST", "/v1/score", R"({"text_1":"q","text_2":["a","b"]})");
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
    EXPECT_EQ(post("/rerank", R"({"query":"q","documents":["d"]})").status, 429);
}

TEST_F(RerankTest, TheLogNamesTheEndpoint) {
    rank("/v1/rerank", {{"query", "q"}, {"documents", "d"}}, {0.5F});
    const Json request = Json::parse(get("/helix/cluster").body)["requests"][0];
    EXPECT_EQ(request["endpoint"], "rerank");
    EXPECT_EQ(request["prompt_tokens"], kDefault.size() + 4);
    EXPECT_EQ(request["state"], "stop");
}

std::string filled(std::string_view source, const RankTexts& texts) {
    const auto parsed = RankTemplate::parse(source);
    if (!parsed.ok()) return parsed.error().message;
    std::string text;
    for (const PromptPiece& piece : parsed->fill(texts))
        text += piece.by_user ? "[" + std::string(piece.text) + "]" : std::string(piece.text);
    return text;
}

TEST(RankTemplate, PutsTextsInTheirPlacesAsTheyAre) {
    EXPECT_EQ(filled("a{query}b{document}", {"i", "{document}", "{query}"}),
              "a[{document}]b[{query}]");
    EXPECT_EQ(filled("{document}{query}{query}", {"i", "q", "d"}), "[d][q][q]");
    EXPECT_EQ(filled("<" + kDefault + ">{query}{document}.", {"i", "q", "d"}), "<[i]>[q][d].");
}

// The text of Qwen3-Reranker's model card.
TEST(RankTemplate, IsThatOfQwen3RerankerWhereTheFileHasNone) {
    EXPECT_EQ(filled("", {"i", "q", "d"}),
              "<|im_start|>system\nJudge whether the Document meets the requirements based on the "
              "Query and the Instruct provided. Note that the answer can only be \"yes\" or "
              "\"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: [i]\n<Query>: [q]\n<Document>: "
              "[d]<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

}  // namespace
}  // namespace helix::api::rerank_test
