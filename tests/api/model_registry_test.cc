// One server with several models, each with a codec and a service of its own.

#include "api/model_registry.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>

#include "api_fixture.h"

namespace helix::api::model_registry_test {
namespace {

using core::FinishReason;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Token kLoudEnd = 299;

// A model of capital letters.
class LoudCodec final : public ByteCodec {
  public:
    std::vector<Token> encode(std::string_view text, bool add_special) const override {
        std::vector<Token> tokens = ByteCodec::encode(text, add_special);
        for (Token& token : tokens) token = std::toupper(token);
        return tokens;
    }
    std::string decode(std::span<const Token> tokens, bool skip_special) const override {
        return ByteCodec::decode(tokens, skip_special) + "!";
    }
    std::unique_ptr<text::IncrementalDetokenizer> detokenizer(bool) const override {
        return std::make_unique<Loud>();
    }
    const std::vector<Token>& end_tokens() const override { return end_tokens_; }
    std::int32_t vocab_size() const override { return 300; }

  private:
    class Loud final : public text::IncrementalDetokenizer {
      public:
        std::string push(Token token) override {
            return std::string(1, static_cast<char>(std::toupper(token)));
        }
        std::string flush() override { return {}; }
    };
    std::vector<Token> end_tokens_ = {kLoudEnd};
};

ModelEntry entry(std::string name, std::vector<std::string> aliases, Service& service) {
    ModelEntry made;
    made.info.name = std::move(name);
    made.info.aliases = std::move(aliases);
    made.info.context_length = 100;
    made.codec = std::make_unique<ByteCodec>();
    made.service = &service;
    return made;
}

TEST(ModelRegistry, EntriesAreFoundByNameAndAliasAndTheFirstByNone) {
    FakeService service;
    ModelRegistry models;
    models.add(entry("a", {"x", "y"}, service));
    models.add(entry("b", {}, service));
    ASSERT_EQ(models.all().size(), 2U);
    EXPECT_EQ(models.find("a"), &models.all()[0]);
    EXPECT_EQ(models.find("y"), &models.all()[0]);
    EXPECT_EQ(models.find("b"), &models.all()[1]);
    EXPECT_EQ(models.find(""), &models.first());
    EXPECT_EQ(models.find("c"), nullptr);
    EXPECT_EQ(models.find("A"), nullptr);
}

TEST(ModelRegistryDeathTest, TwoEntriesOfOneNameAreABug) {
    FakeService service;
    ModelRegistry models;
    models.add(entry("a", {"x"}, service));
    EXPECT_DEATH(models.add(entry("x", {}, service)), "serves");
    EXPECT_DEATH(models.add(entry("b", {"a"}, service)), "serves");
}

class TwoModelsTest : public ApiTest {
  protected:
    ModelRegistry models() override {
        ModelRegistry models = ApiTest::models();
        ModelEntry loud = entry("loud", {"shout"}, loud_service_);
        loud.codec = std::make_unique<LoudCodec>();
        models.add(std::move(loud));
        return models;
    }
    TwoModelsTest() { loud_service_.set_view(service_.view()); }
    ~TwoModelsTest() override { server_.reset(); }

    FakeService loud_service_;
};

TEST_F(TwoModelsTest, EachRequestIsReadAndAnsweredByTheModelThatItNames) {
    auto quiet = client();
    quiet.request("POST", "/v1/completions", R"({"prompt":"ab"})");
    auto quiet_request = service_.next();
    ASSERT_TRUE(quiet_request);
    auto loud = client();
    loud.request("POST", "/v1/completions", R"({"model":"shout","prompt":"ab","echo":true})");
    auto loud_request = loud_service_.next();
    ASSERT_TRUE(loud_request);
    EXPECT_EQ(quiet_request->prompt(), "ab");
    EXPECT_EQ(quiet_request->request.stop_tokens, std::vector<Token>{kByteEnd});
    EXPECT_EQ(loud_request->prompt(), "AB");
    EXPECT_EQ(loud_request->request.stop_tokens, std::vector<Token>{kLoudEnd});

    loud_request->say("c");
    loud_request->token(kLoudEnd);
    loud_request->finish(FinishReason::stop);
    const Json loud_answer = Json::parse(loud.read_response().body);
    EXPECT_EQ(loud_answer["model"], "shout");
    EXPECT_EQ(loud_answer["choices"][0]["text"], "AB!C");
    quiet_request->say("c");
    quiet_request->finish(FinishReason::length);
    const Json quiet_answer = Json::parse(quiet.read_response().body);
    EXPECT_EQ(quiet_answer["model"], "byte-model");
    EXPECT_EQ(quiet_answer["choices"][0]["text"], "c");
}

TEST_F(TwoModelsTest, AnAnswerThatStopsEarlyIsEndedInTheServiceThatMakesIt) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"model":"loud","prompt":"ab","stop":"."})");
    auto request = loud_service_.next();
    ASSERT_TRUE(request);
    request->say("X.");
    EXPECT_EQ(loud_service_.wait_ended(request->id), FinishReason::stop);
    EXPECT_FALSE(service_.was_ended(request->id));
    EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(TwoModelsTest, TheLimitsOfARequestAreThoseOfItsModel) {
    const std::string body = Json{{"prompt", std::string(150, 'x')}, {"model", "loud"}}.dump();
    const auto too_long = post("/v1/completions", body);
    EXPECT_EQ(too_long.status, 400);
    EXPECT_THAT(too_long.body, HasSubstr("maximum context length is 100 tokens"));
    const auto no_token = post("/v1/completions", R"({"prompt":"a","stop_token_ids":[299]})");
    EXPECT_EQ(no_token.status, 400);
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"model":"loud","prompt":"a","stop_token_ids":[298],"max_tokens":1})");
    auto request = loud_service_.next();
    ASSERT_TRUE(request);
    request->finish(FinishReason::length);
    EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(TwoModelsTest, AllAreListedWithTheirAliases) {
    const Json list = Json::parse(get("/v1/models").body)["data"];
    std::vector<std::string> ids;
    for (const Json& model : list) ids.push_back(model["id"]);
    EXPECT_EQ(ids, (std::vector<std::string>{"byte-model", "loud"}));
    EXPECT_EQ(list[1]["aliases"], Json::array({"shout"}));
    EXPECT_EQ(list[1]["meta"]["n_vocab"], 300);
    EXPECT_EQ(Json::parse(get("/v1/models/shout").body)["root"], "loud");
    EXPECT_EQ(Json::parse(get("/v1/models/shout").body)["max_model_len"], 100);
    EXPECT_EQ(get("/v1/models/none").status, 404);
}

TEST_F(TwoModelsTest, TextIsTokenizedByTheModelThatIsNamed) {
    EXPECT_EQ(Json::parse(post("/tokenize", R"({"prompt":"ab"})").body)["tokens"], (Json{97, 98}));
    const Json loud = Json::parse(post("/tokenize", R"({"model":"loud","prompt":"ab"})").body);
    EXPECT_EQ(loud["tokens"], (Json{65, 66}));
    EXPECT_EQ(loud["max_model_len"], 100);
    EXPECT_EQ(Json::parse(post("/detokenize", R"({"tokens":[65],"model":"loud"})").body)["prompt"],
              "A!");
    EXPECT_EQ(post("/detokenize", R"({"tokens":[290],"model":"loud"})").status, 200);
    EXPECT_EQ(post("/detokenize", R"({"tokens":[290]})").status, 400);
}

TEST_F(TwoModelsTest, AnUnknownModelIsNotFoundWhereTextIsTokenizedEither) {
    for (const char* path : {"/tokenize", "/detokenize"}) {
        const auto response = post(path, R"({"model":"gpt-9","prompt":"a","tokens":[1]})");
        EXPECT_EQ(response.status, 404) << path;
        const Json error = Json::parse(response.body)["error"];
        EXPECT_EQ(error["code"], "model_not_found");
        EXPECT_EQ(error["param"], "model");
        EXPECT_EQ(post(path, R"({"model":7,"prompt":"a","tokens":[1]})").status, 400) << path;
        const std::string long_name = Json{{"model", std::string(1000, 'x')}}.dump();
        EXPECT_THAT(post(path, long_name).body, HasSubstr("max_name_bytes")) << path;
    }
}

TEST_F(TwoModelsTest, MetricsCountTheRequestsOfEachAndHoldAFamilyTogether) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"model":"loud","prompt":"ab"})");
    auto request = loud_service_.next();
    ASSERT_TRUE(request);
    request->say("XYZ");
    request->finish(FinishReason::length);
    EXPECT_EQ(c.read_response().status, 200);
    const std::string text = get("/metrics").body;
    const auto line = [](const char* model, const char* value) {
        return std::string("vllm:generation_tokens_total{model_name=\"") + model +
               "\",engine=\"0\"} " + value + "\n";
    };
    EXPECT_THAT(text, HasSubstr(line("byte-model", "0") + line("loud", "3")));
    EXPECT_EQ(text.find("# HELP vllm:generation_tokens_total"),
              text.rfind("# HELP vllm:generation_tokens_total"));
    EXPECT_THAT(text, Not(HasSubstr("helix_http_requests_total{model_name=\"loud\"")));
}

TEST_F(TwoModelsTest, TheServerIsHealthyWhenAllServe) {
    EXPECT_EQ(get("/health").status, 200);
    loud_service_.set_view({});
    EXPECT_EQ(get("/health").status, 503);
    EXPECT_THAT(get("/").body, HasSubstr("Helix serves byte-model, loud here"));
}

TEST_F(TwoModelsTest, AMoveIsAskedOfTheServiceThatRunsTheRequest) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"model":"loud","prompt":"ab"})");
    auto request = loud_service_.next();
    ASSERT_TRUE(request);
    request->route();
    ASSERT_TRUE(metric_becomes("helix_requests_held", "1"));
    const Json log = Json::parse(get("/helix/cluster").body)["requests"];
    ASSERT_EQ(log.size(), 1U);
    const std::string id = log[0]["id"];
    EXPECT_EQ(post("/helix/requests/" + id + "/move", "").status, 202);
    EXPECT_EQ(loud_service_.moves(), std::vector<core::RequestId>{request->id});
    EXPECT_TRUE(service_.moves().empty());
    request->finish(FinishReason::length);
    EXPECT_EQ(c.read_response().status, 200);
}

}  // namespace
}  // namespace helix::api::model_registry_test
