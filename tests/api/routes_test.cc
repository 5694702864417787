#include <set>
#include <string_view>
#include <utility>

#include "api/guard.h"
#include "api/routes.h"
#include "api_fixture.h"
#include "spec/text_file.h"

namespace helix::api::routes_test {
namespace {

std::string many_members(int count) {
    std::string body = "{\"m\":0";
    for (int i = 0; i < count; ++i) body += ",\"" + std::to_string(i) + "\":0";
    return body + "}";
}

TEST_F(ApiTest, MalformedBodiesAreA400ThatNamesTheFieldAndTheServerLives) {
    start();
    const std::string user = R"("messages":[{"role":"user","content":"x"}])";
    struct Case {
        std::string path;
        std::string body;
        std::string param;  // "" = null
    };
    const std::string chat = "/v1/chat/completions";
    const std::string plain = "/v1/completions";
    const std::vector<Case> cases = {
        {chat, "{", ""},
        {chat, "[1,2]", ""},
        {chat, "{\"messages\":\"\xFF\"}", ""},
        {chat, std::string(100000, '['), ""},
        {chat, many_members(5000), "messages"},  // many are read like few
        {chat, "{}", "messages"},
        {chat, R"({"messages":{}})", "messages"},
        {chat, R"({"messages":[]})", "messages"},
        {chat, R"({"messages":["x"]})", "messages[0]"},
        {chat, R"({"messages":[{"content":"x"}]})", "messages[0].role"},
        {chat, R"({"messages":[{"role":"emperor","content":"x"}]})", "messages[0].role"},
        {chat, R"({"messages":[{"role":"user"}]})", "messages[0].content"},
        {chat, R"({"messages":[{"role":"user","content":7}]})", "messages[0].content"},
        {chat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
         "messages[0].content[0].type"},
        {chat, R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
         "messages[0].content[0].text"},
        {chat, R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})",
         "messages[0].tool_calls[0].function"},
        {chat, "{" + user + R"(,"temperature":"hot"})", "temperature"},
        {chat, "{" + user + R"(,"temperature":-1})", "temperature"},
        {chat, "{" + user + R"(,"top_p":1.5})", "top_p"},
        {chat, "{" + user + R"(,"top_k":1.5})", "top_k"},
        {chat, "{" + user + R"(,"max_tokens":0})", "max_tokens"},
        {chat, "{" + user + R"(,"max_completion_tokens":"9"})", "max_completion_tokens"},
        {chat, "{" + user + R"(,"max_tokens":99999999999999999999})", "max_tokens"},
        {chat, "{" + user + R"(,"stop":""})", "stop"},
        {chat, "{" + user + R"(,"stop":[1]})", "stop"},
        {chat, "{" + user + R"(,"stop_token_ids":[100000]})", "stop_token_ids"},
        {chat, "{" + user + R"(,"logit_bias":{"x":1}})", "logit_bias"},
        {chat, "{" + user + R"(,"logit_bias":{"1":101}})", "logit_bias"},
        {chat, "{" + user + R"(,"n":200})", "n"},
        {chat, "{" + user + R"(,"n":0})", "n"},
        {chat, "{" + user + R"(,"stream":"yes"})", "stream"},
        {chat, "{" + user + R"(,"stream_options":{"include_usage":1}})",
         "stream_options.include_usage"},
        {chat, "{" + user + R"(,"top_logprobs":3})", "top_logprobs"},
        {chat, "{" + user + R"(,"logprobs":true,"top_logprobs":21})", "top_logprobs"},
        {chat, "{" + user + R"(,"response_format":{"type":"xml"}})", "response_format"},
        {chat, "{" + user + R"(,"response_format":"json"})", "response_format"},
        {chat, "{" + user + R"(,"response_format":{"type":"json_schema"}})",
         "response_format.json_schema"},
        {chat,
         "{" + user + R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a"}}})",
         "response_format.json_schema.schema"},
        {chat,
         "{" + user +
             R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}}})",
         "response_format.json_schema.schema"},
        {chat, "{" + user + R"(,"grammar":"root ::= x"})", "grammar"},
        {chat,
         "{" + user + R"(,"grammar":"root ::= [a]","response_format":{"type":"json_object"}})",
         "grammar"},
        {chat, "{" + user + R"(,"ignore_eos":true,"response_format":{"type":"json_object"}})",
         "ignore_eos"},
        {chat, "{" + user + R"(,"tools":[{}]})", "tools[0].function.name"},
        {chat, "{" + user + R"(,"tool_choice":"required"})", "tool_choice"},
        {chat, "{" + user + R"(,"chat_template_kwargs":[]})", "chat_template_kwargs"},
        {chat, "{" + user + R"(,"min_tokens":9,"max_tokens":5})", "min_tokens"},
        {chat, "{" + user + R"(,"model":5})", "model"},
        {chat, "{" + user + R"(,"speculative.n_max":-1})", "speculative.n_max"},
        {chat, "{" + user + R"(,"prediction":"text"})", "prediction"},
        {chat, "{" + user + R"(,"prediction":{"type":"content","content":[{"type":"text"}]}})",
         "prediction"},
        {plain, "{}", "prompt"},
        {plain, R"({"prompt":[]})", "prompt"},
        {plain, R"({"prompt":[1,"a"]})", "prompt"},
        {plain, R"({"prompt":[-1]})", "prompt"},
        {plain, R"({"prompt":""})", "prompt"},
        {plain, R"({"prompt":"a","n":4,"best_of":3})", "best_of"},
        {plain, R"({"prompt":"a","suffix":"b"})", "suffix"},
        {plain, R"({"prompt":"a","max_tokens":0})", "max_tokens"},
        {"/tokenize", "{}", "prompt"},
        {"/detokenize", R"({"tokens":[1,-1]})", "tokens"},
    };
    auto c = client();
    for (const Case& bad : cases) {
        c.request("POST", bad.path, bad.body);
        const auto response = c.read_response();
        ASSERT_EQ(response.status, 400) << bad.body.substr(0, 200) << "\n" << response.body;
        const Json error = Json::parse(response.body).at("error");
        EXPECT_EQ(error["type"], "invalid_request_error");
        EXPECT_FALSE(error["message"].get<std::string>().empty());
        EXPECT_LT(error["message"].get<std::string>().size(), 500U);
        if (bad.param.empty()) {
            EXPECT_TRUE(error["param"].is_null()) << response.body;
        } else {
            EXPECT_EQ(error["param"], bad.param) << response.body;
        }
    }
    EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ApiTest, UnknownModelsAreA404WithTheCodeThatClientsKnow) {
    const auto response = post("/v1/completions", R"({"model":"gpt-9","prompt":"a"})");
    EXPECT_EQ(response.status, 404);
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["code"], "model_not_found");
    EXPECT_NE(error["message"].get<std::string>().find("gpt-9"), std::string::npos);
    EXPECT_EQ(get("/v1/models/gpt-9").status, 404);
}

TEST_F(ApiTest, TheModelListHasTheModelAndItsAliases) {
    const Json list = Json::parse(get("/v1/models").body);
    EXPECT_EQ(list["object"], "list");
    ASSERT_EQ(list["data"].size(), 1U);
    EXPECT_EQ(list["data"][0]["id"], "byte-model");
    EXPECT_EQ(list["data"][0]["object"], "model");
    EXPECT_EQ(list["data"][0]["created"], 1700000000);
    EXPECT_EQ(list["data"][0]["max_model_len"], 200);
    EXPECT_EQ(list["data"][0]["aliases"], Json::array({"gpt-x"}));
    EXPECT_EQ(Json::parse(get("/v1/models/gpt-x").body)["id"], "gpt-x");
}

TEST_F(ApiTest, ThePageOfLlamaCppFindsWhatItAsksFor) {
    core::ClusterView view;
    view.serving = true;
    view.running = 2;
    service_.set_view(view);
    const Json props = Json::parse(get("/props").body);
    EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 200);
    EXPECT_EQ(props["total_slots"], 3);
    EXPECT_EQ(props["model_path"], "byte-model");
    EXPECT_EQ(props["modalities"], (Json{{"vision", false}, {"audio", false}}));
    const Json slots = Json::parse(get("/slots").body);
    ASSERT_EQ(slots.size(), 3U);
    EXPECT_EQ(slots[1]["is_processing"], true);
    EXPECT_EQ(slots[2]["is_processing"], false);
}

TEST_F(ApiTest, HealthFollowsTheClusterAndReadinessAlsoTheDrain) {
    EXPECT_EQ(get("/health").status, 200);
    EXPECT_EQ(get("/v1/health").body, R"({"status":"ok"})");
    EXPECT_EQ(get("/health/ready").status, 200);
    service_.set_view({});
    const auto loading = get("/health");
    EXPECT_EQ(loading.status, 503);
    EXPECT_EQ(Json::parse(loading.body)["error"]["message"], "Loading model");
    EXPECT_EQ(get("/health/live").status, 200);
    core::ClusterView view;
    view.serving = true;
    service_.set_view(view);
    server_->drain();
    EXPECT_EQ(get("/health").status, 200);
    EXPECT_EQ(get("/health/ready").status, 503);
    const auto refused = post("/v1/completions", R"({"prompt":"a"})");
    EXPECT_EQ(refused.status, 503);
    EXPECT_FALSE(refused.header("retry-after").empty());
}

TEST_F(ApiTest, AServerThatIsFullIsNotReadyUntilARequestIsOver) {
    options_.limits.max_requests = 1;
    auto streaming = client();
    streaming.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
    auto request = service_.next();
    ASSERT_TRUE(request.has_value());
    const auto full = get("/health/ready");
    EXPECT_EQ(full.status, 503);
    EXPECT_NE(full.body.find("no more are taken"), std::string::npos) << full.body;
    EXPECT_EQ(get("/health").status, 200);
    EXPECT_EQ(get("/health/live").status, 200);
    request->sink->on_finish(core::FinishReason::stop, "");
    const auto is_ready = [&] { return get("/health/ready").status == 200; };
    bool ready = is_ready();
    for (int i = 0; i < 1000 && !ready; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ready = is_ready();
    }
    EXPECT_TRUE(ready);
}

TEST_F(ApiTest, WhatAServiceWaitsForIsSaidByReadinessAlone) {
    service_.wait_for("No coordinator is there.");
    const auto waiting = get("/health/ready");
    EXPECT_EQ(waiting.status, 503);
    EXPECT_EQ(Json::parse(waiting.body)["error"]["message"], "No coordinator is there.");
    EXPECT_EQ(get("/health").status, 200);
    service_.wait_for("");
    EXPECT_EQ(get("/health/ready").status, 200);
}

TEST_F(ApiTest, WrongMethodsPathsAndTypesAreToldApart) {
    const auto method = get("/v1/chat/completions");
    EXPECT_EQ(method.status, 405);
    EXPECT_EQ(method.header("allow"), "POST, OPTIONS");
    EXPECT_EQ(get("/v1/nothing").status, 404);
    EXPECT_EQ(post("/v1/completions", "a=b", "content-type: application/x-www-form-urlencoded\r\n")
                  .status,
              415);
    EXPECT_EQ(
        post("/v1/completions", "{", "content-type: application/json; charset=utf-8\r\n").status,
        400);
    auto c = client();
    c.request("HEAD", "/health");
    EXPECT_EQ(c.read_response(false).status, 200);
    c.request("POST", "/v1/completions");
    EXPECT_EQ(c.read_response().status, 400);
}

TEST_F(ApiTest, ALargeBodyIs413WithAnOpenAiError) {
    options_.http.max_body_bytes = 1000;
    const auto response = post("/v1/completions", std::string(2000, ' '));
    EXPECT_EQ(response.status, 413);
    EXPECT_EQ(Json::parse(response.body)["error"]["code"], "request_too_large");
    EXPECT_EQ(response.header("content-type"), "application/json");
}

TEST_F(ApiTest, WithAKeyOnlyHealthIsOpen) {
    options_.api_keys = {"secret", "other"};
    EXPECT_EQ(get("/health").status, 200);
    EXPECT_EQ(get("/v1/health").status, 200);
    for (const char* path : {"/v1/models", "/v1/models/byte-model", "/nothing"}) {
        const auto refused = get(path);
        EXPECT_EQ(refused.status, 401) << path;
        EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "invalid_api_key");
    }
    EXPECT_EQ(get("/v1/models", "authorization: Bearer secre\r\n").status, 401);
    EXPECT_EQ(get("/v1/models", "authorization: Bearer secret2\r\n").status, 401);
    EXPECT_EQ(get("/v1/models", "authorization: Bearer secret\r\n").status, 200);
    EXPECT_EQ(get("/v1/models", "authorization: Bearer other\r\n").status, 200);
}

TEST_F(ApiTest, TokenizeAndDetokenizeSpeakBothDialects) {
    EXPECT_EQ(Json::parse(post("/tokenize", R"({"prompt":"ab"})").body),
              (Json{{"count", 2}, {"max_model_len", 200}, {"tokens", {97, 98}}}));
    EXPECT_EQ(Json::parse(post("/tokenize", R"({"content":"ab"})").body)["tokens"], (Json{97, 98}));
    EXPECT_EQ(
        Json::parse(
            post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})").body)["count"],
        17);
    const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"tools":)";
    const std::string tools = R"([{"type":"function","function":{"name":"look"}}])";
    EXPECT_EQ(Json::parse(post("/tokenize", chat + tools + "}").body)["count"],
              17 + std::string("tools:\n").size() + tools.size())
        << "they are part of the prompt";
    EXPECT_EQ(Json::parse(post("/tokenize", chat + "[]}").body)["count"], 17);
    EXPECT_EQ(Json::parse(post("/tokenize", chat + "[{}]}").body)["error"]["param"],
              "tools[0].function.name");
    const Json text = Json::parse(post("/detokenize", R"({"tokens":[97,257,98]})").body);
    EXPECT_EQ(text["prompt"], "a<special>b");
    EXPECT_EQ(text["content"], "a<special>b");
}

core::ClusterView small_cluster();

TEST_F(ApiTest, WorkersAreListedDrainedAndRemovedByName) {
    core::ClusterView view = small_cluster();
    core::WorkerView other;
    other.worker = {2};
    other.node.name = "den";
    other.layers = {2, 4};
    other.draining = true;
    other.running = 3;
    other.drain_refused = "too small";
    other.drain_waits = "request 7 needs it";
    view.workers.push_back(other);
    view.drained_away = {{"shed", true}};
    service_.set_view(view);
    const Json list = Json::parse(get("/helix/nodes").body);
    ASSERT_EQ(list["data"].size(), 2U);
    EXPECT_EQ(list["data"][0]["state"], "serving");
    EXPECT_EQ(list["data"][0]["layers"], Json({0, 1}));
    EXPECT_EQ(list["data"][1]["state"], "draining");
    EXPECT_EQ(list["data"][1]["requests"], 3);
    EXPECT_EQ(list["data"][1]["drain_refused"], "too small");
    EXPECT_EQ(list["data"][1]["drain_waits"], "request 7 needs it");
    EXPECT_FALSE(list["data"][0].contains("drain_refused"));
    EXPECT_FALSE(list["data"][0].contains("drain_waits"));

    EXPECT_EQ(list["drained_away"], Json::parse(R"([{"name":"shed","remove":true}])"));

    EXPECT_EQ(post("/helix/nodes/den/drain", "").status, 202);
    EXPECT_EQ(post("/helix/nodes/left%20%22one%22/remove", "").status, 202);
    EXPECT_EQ(post("/helix/nodes/den/undrain", "").status, 202);
    EXPECT_EQ(post("/helix/nodes/shed/undrain", "").status, 202) << "it is not here";
    EXPECT_EQ(post("/helix/nodes/shed/drain", "").status, 404);
    for (const char* path :
         {"/helix/nodes/attic/drain", "/helix/nodes/den/paint", "/helix/nodes/den/",
          "/helix/nodes//drain", "/helix/nodes/%zz/drain", "/helix/nodes/%2/drain"}) {
        EXPECT_EQ(post(path, "").status, 404) << path;
    }
    const auto drains = service_.drains();
    ASSERT_EQ(drains.size(), 4U);
    EXPECT_EQ(drains[0].worker, core::WorkerId{2});
    EXPECT_FALSE(drains[0].remove || drains[0].off);
    EXPECT_EQ(drains[1].worker, core::WorkerId{1});
    EXPECT_TRUE(drains[1].remove);
    EXPECT_TRUE(drains[2].off);
    EXPECT_TRUE(drains[3].off);
    EXPECT_EQ(drains[3].name, "shed");
}

TEST_F(ApiTest, ARequestMovesByItsId) {
    start();
    net::TestClient asker(server_->port());
    ASSERT_TRUE(asker.connected());
    asker.request("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":3,"n":2})");
    ASSERT_TRUE(service_.next());
    const Json cluster = Json::parse(get("/helix/cluster").body);
    const std::string id = cluster["requests"][0]["id"];
    EXPECT_EQ(post("/helix/requests/" + id + "/move", "").status, 202);
    EXPECT_EQ(service_.moves().size(), 1U) << "both choices are of one request";
    EXPECT_EQ(post("/helix/requests/" + id + "/hide", "").status, 404);
    EXPECT_EQ(post("/helix/requests/" + id, "").status, 404);
    EXPECT_EQ(post("/helix/requests/cmpl-unknown/move", "").status, 404);
    EXPECT_EQ(service_.moves().size(), 1U);
}

TEST_F(ApiTest, WorkersAreDrainedOnlyWithTheKey) {
    options_.api_keys = {"secret"};
    service_.set_view(small_cluster());
    EXPECT_EQ(get("/helix/nodes").status, 200) << "it is asked from this machine";
    EXPECT_EQ(post("/helix/nodes/left%20%22one%22/drain", "").status, 401);
    EXPECT_TRUE(service_.drains().empty());
}

core::ClusterView small_cluster() {
    core::ClusterView view;
    view.serving = true;
    view.epoch = 3;
    view.running = 4;
    view.waiting = 2;
    core::WorkerView worker;
    worker.worker = {1};
    worker.node.name = "left \"one\"";
    worker.node.core_share = 0.5;
    worker.layers = {0, 2};
    worker.ready = true;
    worker.total_pages = 80;
    worker.used_pages = 20;
    view.workers.push_back(worker);
    view.flows.push_back({spec::kCoordinator, 1, 12.5});
    view.prefix_queried_tokens = 100;
    view.prefix_hit_tokens = 64;
    view.drafts = 3;
    view.draft_tokens = 12;
    view.accepted_draft_tokens = 5;
    view.migrations.of(core::MigrationReason::balance, core::MigrationPhase::committed) = 7;
    view.migrations.of(core::MigrationReason::drain, core::MigrationPhase::committed) = 2;
    view.migrations.of(core::MigrationReason::drain, core::MigrationPhase::copying) = 3;
    view.weight_bytes = {1000, 3000, 500};
    return view;
}

TEST_F(ApiTest, MetricsCountWhatHappened) {
    service_.set_view(small_cluster());
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"abc","stream":true})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->say("xy");
    request->finish(core::FinishReason::length);
    EXPECT_TRUE(c.read_response().complete);
    EXPECT_EQ(post("/v1/completions", "{").status, 400);
    const std::string text = get("/metrics").body;
    const std::string labels = R"({model_name="byte-model",engine="0")";
    for (const std::string& line :
         {"vllm:num_requests_running" + labels + "} 4\n",
          "vllm:num_requests_waiting" + labels + "} 2\n",
          "vllm:prefix_cache_queries_total" + labels + "} 100\n",
          "vllm:prefix_cache_hits_total" + labels + "} 64\n",
          "vllm:spec_decode_num_drafts_total" + labels + "} 3\n",
          "vllm:spec_decode_num_draft_tokens_total" + labels + "} 12\n",
          "vllm:spec_decode_num_accepted_tokens_total" + labels + "} 5\n",
          "vllm:kv_cache_usage_perc" + labels + "} 0.25\n",
          "vllm:request_success_total" + labels + R"(,finished_reason="length"} 1)" + "\n",
          "vllm:request_success_total" + labels + R"(,finished_reason="stop"} 0)" + "\n",
          "vllm:prompt_tokens_total" + labels + "} 3\n",
          "vllm:generation_tokens_total" + labels + "} 2\n",
          "vllm:time_to_first_token_seconds_count" + labels + "} 1\n",
          "vllm:time_per_output_token_seconds_count" + labels + "} 1\n",
          "vllm:request_prompt_tokens_bucket" + labels + R"(,le="2"} 0)" + "\n",
          "vllm:request_prompt_tokens_bucket" + labels + R"(,le="5"} 1)" + "\n",
          "vllm:request_queue_time_seconds_count" + labels + "} 1\n",
          "helix_migrations_total" + labels + R"(,reason="balance",outcome="committed"} 7)" + "\n",
          "helix_migrations_total" + labels + R"(,reason="drain",outcome="copying"} 3)" + "\n",
          "helix_migrations_total" + labels + R"(,reason="handover",outcome="committed"} 0)" + "\n",
          "helix_weight_bytes_total" + labels + R"(,from="coordinator"} 1000)" + "\n",
          "helix_weight_bytes_total" + labels + R"(,from="peer"} 3000)" + "\n",
          "helix_weight_bytes_total" + labels + R"(,from="cache"} 500)" + "\n",
          "helix_worker_kv_pages" + labels + R"(,worker="1",name="left \"one\""} 80)" + "\n",
          "helix_link_flow_tokens_per_second" + labels + R"(,from="-1",to="1"} 12.5)" + "\n",
          "helix_http_errors_total" + labels + "} 1\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line;
    }
}

TEST_F(ApiTest, TheClusterPageShowsWorkersAndThePipelineOfEachRequest) {
    service_.set_view(small_cluster());
    options_.recent_requests = 2;
    for (int i = 0; i < 3; ++i) {
        auto c = client();
        c.request("POST", "/v1/completions", R"({"prompt":"abc"})");
        auto request = service_.next();
        ASSERT_TRUE(request);
        request->route();
        request->say("xy");
        request->finish(core::FinishReason::stop);
        c.read_response();
    }
    const Json body = Json::parse(get("/helix/cluster").body);
    EXPECT_EQ(body["epoch"], 3);
    EXPECT_EQ(body["workers"][0]["layers"], (Json{0, 2}));
    EXPECT_EQ(body["workers"][0]["host"], body["workers"][0]["id"]);
    EXPECT_EQ(body["workers"][0]["core_share"], 0.5);
    EXPECT_EQ(body["flows"][0]["tokens_per_s"], 12.5);
    EXPECT_EQ(body["migrations"]["committed"], 9);
    EXPECT_EQ(body["migrations"]["given_up"]["copying"], 3);
    EXPECT_EQ(body["migrations"]["by_reason"]["drain"]["committed"], 2);
    EXPECT_EQ(body["migrations"]["by_reason"]["drain"]["given_up"]["copying"], 3);
    ASSERT_EQ(body["requests"].size(), 2U);
    const Json& request = body["requests"][0];
    EXPECT_EQ(request["state"], "stop");
    EXPECT_EQ(request["pipeline"],
              Json::parse(R"([{"worker":1,"layers":[0,2]},{"worker":2,"layers":[2,4]}])"));
    EXPECT_EQ(request["completion_tokens"], 2);
    EXPECT_GE(request["ttft_s"].get<double>(), 0);
    EXPECT_GE(request["queue_s"].get<double>(), 0);
}

TEST(Routes, EachMethodAndPathIsThereOnce) {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const Route& one : all_routes()) {
        EXPECT_TRUE(one.path.starts_with('/')) << one.path;
        EXPECT_TRUE(seen.emplace(one.method, one.path).second) << one.method << " " << one.path;
    }
}

// What looks after the cluster is never a client's to ask for, whatever the table says.
TEST(Routes, PathsOfTheClusterAreClosedToClients) {
    for (const Route& one : all_routes()) {
        if (!one.path.starts_with("/helix/") || one.path == "/helix/join") continue;
        if (one.path == "/helix/session") continue;             // there one logs in
        if (one.path.starts_with("/helix/pairing/")) continue;  // there a code counts
        if (one.path.starts_with("/helix/models")) continue;  // what clients may use they may have
        const Access access = access_of(one.method, one.path);
        // A what-if question changes nothing, whatever its method, and who reads of pairing is
        // shown the code.
        const bool reads =
            (one.method == "GET" && one.path != "/helix/pairing") || one.path == "/helix/what-if";
        EXPECT_EQ(access, reads ? Access::internals : Access::admin) << one.path;
    }
}

TEST(Routes, EachIsInTheDocumentation) {
    const auto text = spec::read_text_file(std::string(HELIX_SOURCE_DIR) + "/docs/api.md");
    ASSERT_TRUE(text.ok()) << text.error().message;
    for (const Route& one : all_routes()) {
        if (one.path == "/") continue;  // a page that names the others
        const std::string_view fixed = one.path.substr(0, one.path.find("/{"));
        EXPECT_NE(text->find(fixed), std::string::npos) << one.path;
    }
}

TEST_F(ApiTest, PagesOfTheProgramAreThereWhereItMakesThem) {
    options_.pages.join = [] { return std::string("{}"); };
    options_.pages.plan_svg = [] { return std::string("<svg/>"); };
    EXPECT_EQ(get("/helix/join").header("content-type"), "application/json");
    const auto picture = get("/helix/plan.svg");
    EXPECT_EQ(picture.header("content-type"), "image/svg+xml");
    EXPECT_EQ(picture.body, "<svg/>");
    EXPECT_EQ(get("/helix/plan").status, 404);
    EXPECT_EQ(post("/helix/plan.svg", "").status, 404);
    EXPECT_NE(get("/").body.find("POST /v1/chat/completions"), std::string::npos);
}

}  // namespace
}  // namespace helix::api::routes_test
