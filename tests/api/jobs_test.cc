// Files and batches over HTTP, with a cluster that the test plays.

#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "api/api_fixture.h"
#include "base/temp_folder.h"
#include "store/sqlite.h"

namespace helix::api::jobs_test {
namespace {

using ::testing::HasSubstr;

class JobsTest : public ApiTest {
  protected:
    JobsTest() {
        options_.jobs = JobOptions{};
        options_.jobs->place.folder = folder_.path() + "/state";
        options_.unix_time = [this] { return time_.load(); };
    }
    void restart() {
        server_.reset();
        start();
    }
    static std::string form(const std::string& content, const std::string& purpose = "batch") {
        return "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose +
               "\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
               "Content-Type: application/octet-stream\r\n\r\n" +
               content + "\r\n--B--\r\n";
    }
    net::TestClient::Response post_form(const std::string& body) {
        return post("/v1/files", body, "content-type: multipart/form-data; boundary=B\r\n");
    }
    std::string upload(const std::string& content) {
        const auto response = post_form(form(content));
        EXPECT_EQ(response.status, 200) << response.body;
        return Json::parse(response.body)["id"];
    }
    Json get_json(const std::string& path, int status = 200) {
        const auto response = get(path);
        EXPECT_EQ(response.status, status) << response.body;
        return Json::parse(response.body);
    }
    net::TestClient::Response remove(const std::string& path) {
        auto c = client();
        c.request("DELETE", path);
        return c.read_response();
    }
    static Json line(const std::string& id, Json body) {
        return {{"custom_id", id},
                {"method", "POST"},
                {"url", "/v1/completions"},
                {"body", std::move(body)}};
    }
    static std::string lines(int n) {
        std::string text;
        for (int i = 1; i <= n; ++i) {
            const std::string number = std::to_string(i);
            text += line("id-" + number, {{"model", "gpt-x"}, {"prompt", "p" + number}}).dump();
            text += '\n';
        }
        return text;
    }
    std::string create(const std::string& file, Json more = Json::object()) {
        Json body = {
            {"input_file_id", file}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}};
        body.update(more);
        const auto response = post("/v1/batches", body.dump());
        EXPECT_EQ(response.status, 200) << response.body;
        return Json::parse(response.body)["id"];
    }
    Json wait_for(const std::string& batch, const std::string& status) {
        Json now;
        for (int i = 0; i < 500; ++i) {
            now = get_json("/v1/batches/" + batch);
            if (now["status"] == status) return now;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        ADD_FAILURE() << "not " << status << ": " << now.dump();
        return now;
    }
    // The lines by custom_id, each of which comes once.
    std::map<std::string, Json> result_lines(const Json& file_id) {
        std::map<std::string, Json> out;
        if (file_id.is_null()) return out;
        const auto response = get("/v1/files/" + file_id.get<std::string>() + "/content");
        EXPECT_EQ(response.status, 200);
        std::istringstream in(response.body);
        std::string text;
        while (std::getline(in, text)) {
            const Json parsed = Json::parse(text);
            EXPECT_TRUE(out.emplace(parsed["custom_id"], parsed).second) << text;
        }
        return out;
    }
    // Answers with the prompt in capitals: "P3!" for "p3".
    void answer(FakeRequest& request) {
        request.accept();
        request.route();
        std::string text = request.prompt();
        text[0] = 'P';
        request.say(text + "!");
        request.token(kByteEnd);
        request.finish(core::FinishReason::stop);
    }

    TempFolder folder_;
    std::atomic<std::int64_t> time_{1000};
};

TEST_F(JobsTest, WithoutAStateDirTheAnswerNamesTheOption) {
    options_.jobs.reset();
    for (const char* path : {"/v1/files", "/v1/batches", "/files/file-1/content"}) {
        const Json error = get_json(path, 404)["error"];
        EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("--state-dir"));
        EXPECT_EQ(error["code"], "no_state_dir");
    }
}

TEST_F(JobsTest, ABatchOfEmbeddingsIsAnswered) {
    Json one = line("e", {{"model", "gpt-x"}, {"input", "abc"}});
    one["url"] = "/v1/embeddings";
    const std::string batch = create(upload(one.dump()), {{"endpoint", "/v1/embeddings"}});
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_TRUE(request->request.wants_embedding());
    EXPECT_LT(request->request.priority, 0) << "behind all others";
    request->embed({0.6F, 0.8F});
    const Json done = wait_for(batch, "completed");
    const auto results = result_lines(done["output_file_id"]);
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results.at("e")["response"]["body"]["data"][0]["embedding"].size(), 2U);
}

TEST_F(JobsTest, FilesAreUploadedListedReadAndDeleted) {
    const std::string content = "{\"a\": 1}\n\xff\n--B no boundary\n";
    const auto uploaded = post_form(form(content));
    ASSERT_EQ(uploaded.status, 200) << uploaded.body;
    const Json file = Json::parse(uploaded.body);
    EXPECT_EQ(file["object"], "file");
    EXPECT_EQ(file["bytes"], content.size());
    EXPECT_EQ(file["filename"], "in.jsonl");
    EXPECT_EQ(file["purpose"], "batch");
    EXPECT_EQ(file["status"], "processed");
    EXPECT_EQ(file["created_at"], 1000);
    const std::string id = file["id"];
    const std::string second = upload("x");
    EXPECT_EQ(get_json("/v1/files/" + id), file);
    EXPECT_EQ(get("/v1/files/" + id + "/content").body, content);
    Json list = get_json("/v1/files?limit=1");
    EXPECT_EQ(list["data"][0]["id"], second);
    EXPECT_EQ(list["has_more"], true);
    list = get_json("/v1/files?limit=1&after=" + second);
    EXPECT_EQ(list["data"][0]["id"], id);
    EXPECT_EQ(list["has_more"], false);
    EXPECT_EQ(get_json("/v1/files?order=asc")["first_id"], id);
    EXPECT_TRUE(get_json("/v1/files?purpose=other")["data"].empty());
    restart();
    EXPECT_EQ(get("/v1/files/" + id + "/content").body, content);
    EXPECT_EQ(Json::parse(remove("/v1/files/" + id).body)["deleted"], true);
    get_json("/v1/files/" + id, 404);
    get_json("/v1/files/" + id + "/content", 404);
    EXPECT_EQ(remove("/v1/files/" + id).status, 404);
}

TEST_F(JobsTest, UploadsThatAreRefusedOrBrokenLeaveNothingInTheFolder) {
    options_.http.max_body_bytes = 10'000;
    options_.jobs->max_file_bytes = 300'000;
    start();
    const auto names = [this] {
        std::set<std::string> out;
        for (const auto& entry : std::filesystem::directory_iterator(options_.jobs->place.folder)) {
            out.insert(entry.path().filename());
        }
        return out;
    };
    upload(lines(3));
    const std::set<std::string> kept = names();
    EXPECT_EQ(post_form(form(std::string(400'000, 'x'))).status, 413);
    EXPECT_EQ(post_form("--B\r\n" + std::string(200'000, 'x')).status, 400);
    auto broken = client();
    broken.send(
        "POST /v1/files HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
        "content-type: multipart/form-data; boundary=B\r\ncontent-length: 200000\r\n\r\n" +
        std::string(100'000, 'x'));
    EXPECT_EQ(broken.read_head().status, 100);
    EXPECT_EQ(names(), kept);
    broken.close();
    upload(lines(2));
    EXPECT_EQ(names(), kept);
    EXPECT_EQ(get_json("/v1/files")["data"].size(), 2U);
}

TEST_F(JobsTest, AFileThatIsLargerThanWhatMayWaitForAClientIsDownloadedWhole) {
    options_.http.max_queued_bytes = 100'000;
    options_.http.send_buffer_bytes = 10'000;
    std::string content;
    for (int i = 0; content.size() < 3'000'000; ++i) content += std::to_string(i * 7919LL) + "\n";
    const std::string path = "/v1/files/" + upload(content) + "/content";
    auto c = client();
    c.request("HEAD", path);
    EXPECT_EQ(c.read_response(false).header("content-length"), std::to_string(content.size()));
    c.request("GET", path);
    const auto response = c.read_response();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.header("content-type"), "application/octet-stream");
    EXPECT_TRUE(response.body == content);
    c.request("GET", "/v1/files/" + upload("") + "/content");
    EXPECT_EQ(c.read_response().body, "") << "on the same connection";
    c.request("POST", path);
    EXPECT_EQ(c.read_response().status, 405);
}

TEST_F(JobsTest, BatchesAndTheirLinesAreInTheMetrics) {
    const std::string batch = create(upload(lines(3)));
    const auto metric = [&](const std::string& name, const std::string& label) {
        const std::string text = get("/metrics").body;
        std::istringstream in(text);
        for (std::string line; std::getline(in, line);) {
            if (!line.starts_with(name + "{") || line.find(label) == std::string::npos) continue;
            return line.substr(line.find("} ") + 2);
        }
        return std::string("nothing");
    };
    const auto becomes = [&](const std::string& name, const std::string& label,
                             const std::string& value) {
        for (int i = 0; i < 500 && metric(name, label) != value; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return metric(name, label) == value;
    };
    EXPECT_TRUE(becomes("helix_batch_lines_running", "", "3"));
    EXPECT_TRUE(becomes("helix_batches", "status=\"in_progress\"", "1"));
    EXPECT_TRUE(becomes("helix_batch_lines_open", "", "3"));
    for (int i = 0; i < 3; ++i) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        answer(*request);
    }
    wait_for(batch, "completed");
    EXPECT_TRUE(becomes("helix_batches", "status=\"completed\"", "1"));
    EXPECT_TRUE(becomes("helix_batch_lines_total", "outcome=\"completed\"", "3"));
    EXPECT_EQ(metric("helix_batch_lines_total", "outcome=\"failed\""), "0");
    EXPECT_TRUE(becomes("helix_batch_lines_running", "", "0"));
    EXPECT_EQ(metric("helix_batches", "status=\"in_progress\""), "0");
}

TEST_F(JobsTest, BadUploadsAndPathsAreRefusedByName) {
    EXPECT_EQ(post("/v1/files", "{}").status, 415);
    const auto purpose = post_form(form("x", "fine-tune"));
    EXPECT_EQ(purpose.status, 400);
    EXPECT_THAT(purpose.body, HasSubstr("expected batch, got 'fine-tune'"));
    const auto nothing = post_form("--B--\r\n");
    EXPECT_EQ(nothing.status, 400);
    EXPECT_THAT(nothing.body, HasSubstr("'file' is missing"));
    get_json("/v1/files?limit=0", 400);
    get_json("/v1/files?order=up", 400);
    get_json("/v1/files?after=file-none", 404);
    get_json("/v1/files/", 404);
    get_json("/v1/files/a/b", 404);
    get_json("/v1/batches/a/cancel", 405);
    EXPECT_EQ(remove("/v1/batches/a").status, 405);
    EXPECT_EQ(post("/v1/batches/batch_none/cancel", "").status, 404);
}

TEST_F(JobsTest, OnlyFilesMayBeLargeAndOnlyWithAKey) {
    options_.http.max_body_bytes = 10'000;
    options_.jobs->max_file_bytes = 300'000;
    options_.api_keys = {"secret"};
    start();
    const std::string type = "content-type: multipart/form-data; boundary=B\r\n";
    const std::string key = "authorization: Bearer secret\r\n";
    const std::string large = form(std::string(250'000, 'x'));
    EXPECT_EQ(post("/v1/files", large, type + key).status, 200);
    EXPECT_EQ(post("/v1/files", large, type).status, 413);
    EXPECT_EQ(post("/v1/files", form("x"), type).status, 401);
    EXPECT_EQ(post("/v1/completions", large, key).status, 413);
    const auto refused = post("/v1/files", form(std::string(400'000, 'x')), type + key);
    EXPECT_EQ(refused.status, 413);
    EXPECT_THAT(refused.body, HasSubstr("at most 365536 bytes"));
    EXPECT_EQ(get("/v1/batches").status, 401);
}

TEST_F(JobsTest, WhatIsKeptHasALimitAndDeletingMakesRoom) {
    options_.jobs->max_kept_bytes = 1'000'000;
    start();
    const std::string type = "content-type: multipart/form-data; boundary=B\r\n";
    const std::string content(600'000, 'x');
    const auto first = post("/v1/files", form(content), type);
    ASSERT_EQ(first.status, 200);
    const auto refused = post("/v1/files", form(content), type);
    EXPECT_EQ(refused.status, 507);
    EXPECT_THAT(refused.body, HasSubstr("--kept-limit"));
    EXPECT_EQ(post("/v1/files", form("small"), type).status, 200);
    const std::string id = Json::parse(first.body)["id"];
    const std::string batch = R"({"endpoint":"/v1/completions","completion_window":"24h",)"
                              R"("input_file_id":")" +
                              id + "\"}";
    EXPECT_EQ(post("/v1/batches", batch).status, 507);
    EXPECT_EQ(remove("/v1/files/" + id).status, 200);
    EXPECT_EQ(post("/v1/files", form(content), type).status, 200);
}

TEST_F(JobsTest, AnUploadThatFillsTheDiskIsToldSo) {
    options_.jobs->max_kept_bytes = 1'000'000;
    start();
    const std::string type = "content-type: multipart/form-data; boundary=B\r\n";
    const auto refused = post("/v1/files", form(std::string(1'100'000, 'x')), type);
    EXPECT_EQ(refused.status, 507);
    EXPECT_THAT(refused.body, HasSubstr("on disk; try again later"));
    EXPECT_THAT(refused.body, HasSubstr("storage_full"));
    // One after the other these fit, however soon the next one comes.
    for (int i = 0; i < 20; ++i) {
        const auto taken = post("/v1/files", form(std::string(600'000, 'x')), type);
        ASSERT_EQ(taken.status, 200) << taken.body;
        ASSERT_EQ(remove("/v1/files/" + std::string(Json::parse(taken.body)["id"])).status, 200);
    }
}

TEST_F(JobsTest, ABatchRunsItsLinesBehindOthersAndEachHasOneAnswer) {
    const std::string batch = create(upload(lines(5)), {{"metadata", {{"who", "me"}}}});
    std::map<std::string, std::uint64_t> seeds;
    for (int i = 0; i < 5; ++i) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        EXPECT_EQ(request->request.priority, -1000);
        seeds[request->prompt()] = request->request.sampling.seed;
        answer(*request);
    }
    EXPECT_EQ(seeds.size(), 5U);
    EXPECT_NE(seeds["p1"], seeds["p2"]);
    const Json done = wait_for(batch, "completed");
    EXPECT_EQ(done["object"], "batch");
    EXPECT_EQ(done["request_counts"], (Json{{"total", 5}, {"completed", 5}, {"failed", 0}}));
    EXPECT_EQ(done["metadata"], (Json{{"who", "me"}}));
    EXPECT_EQ(done["expires_at"], 1000 + 24 * 3600);
    EXPECT_EQ(done["model"], "gpt-x");
    for (const char* time : {"created_at", "in_progress_at", "finalizing_at", "completed_at"}) {
        EXPECT_EQ(done[time], 1000) << time;
    }
    EXPECT_TRUE(done["error_file_id"].is_null());
    EXPECT_TRUE(done["errors"].is_null());
    const auto results = result_lines(done["output_file_id"]);
    ASSERT_EQ(results.size(), 5U);
    const Json third = results.at("id-3");
    EXPECT_TRUE(third["error"].is_null());
    EXPECT_EQ(third["response"]["status_code"], 200);
    EXPECT_EQ(third["response"]["body"]["choices"][0]["text"], "P3!");
    EXPECT_EQ(third["response"]["body"]["object"], "text_completion");
    EXPECT_THAT(third["response"]["request_id"].get<std::string>(), HasSubstr("req_"));
    EXPECT_THAT(third["id"].get<std::string>(), HasSubstr("batch_req_"));
    const Json file = get_json("/v1/files/" + done["output_file_id"].get<std::string>());
    EXPECT_EQ(file["purpose"], "batch_output");
    EXPECT_EQ(get_json("/v1/batches")["data"][0]["id"], batch);
}

TEST_F(JobsTest, LinesAskForWhatTheyLikeAndBadOnesFailAlone) {
    std::string text =
        line("own", {{"prompt", "p1"}, {"seed", 42}, {"priority", -5}}).dump() + "\n";
    text += line("bad", {{"prompt", "p2"}, {"temperature", "hot"}}).dump() + "\n\n";
    text += line("stream", {{"prompt", "p3"}, {"stream", true}}).dump() + "\r\n";
    text += line("long", {{"prompt", std::string(300, 'x')}}).dump();  // without a line end
    const std::string batch = create(upload(text));
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.sampling.seed, 42U);
    EXPECT_EQ(request->request.priority, -995);
    answer(*request);
    const Json done = wait_for(batch, "completed");
    EXPECT_EQ(done["request_counts"], (Json{{"total", 4}, {"completed", 1}, {"failed", 3}}));
    EXPECT_EQ(result_lines(done["output_file_id"]).count("own"), 1U);
    const auto errors = result_lines(done["error_file_id"]);
    ASSERT_EQ(errors.size(), 3U);
    EXPECT_EQ(errors.at("bad")["response"]["status_code"], 400);
    EXPECT_EQ(errors.at("bad")["response"]["body"]["error"]["param"], "temperature");
    EXPECT_EQ(errors.at("stream")["response"]["body"]["error"]["param"], "stream");
    EXPECT_EQ(errors.at("long")["response"]["body"]["error"]["code"], "context_length_exceeded");
}

TEST_F(JobsTest, ALineOverALimitEndsWithAnErrorOfItsOwnAndTheOthersRun) {
    options_.request_limits.max_json_values = 500;
    std::string deep;
    for (int i = 0; i < 200; ++i) deep += '[';
    deep += std::string(200, ']');
    std::string text = line("one", {{"prompt", "x"}}).dump() + "\n";
    std::string nested = line("deep", {{"prompt", "x"}, {"ignored", "HERE"}}).dump();
    nested.replace(nested.find("\"HERE\""), 6, deep);
    text += nested + "\n";
    text += line("full", {{"prompt", "x"}, {"ignored", std::vector<int>(600, 1)}}).dump() + "\n";
    text += line("stops", {{"prompt", "x"}, {"stop", std::string(5000, 's')}}).dump() + "\n";
    text += line("two", {{"prompt", "x"}}).dump() + "\n";
    const std::string batch = create(upload(text));
    for (int i = 0; i < 2; ++i) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        answer(*request);
    }
    const Json done = wait_for(batch, "completed");
    EXPECT_EQ(done["request_counts"], (Json{{"total", 5}, {"completed", 2}, {"failed", 3}}));
    const auto errors = result_lines(done["error_file_id"]);
    ASSERT_EQ(errors.size(), 3U);
    const auto message = [&](const std::string& id) -> std::string {
        EXPECT_EQ(errors.at(id)["response"]["status_code"], 400);
        return errors.at(id)["response"]["body"]["error"]["message"];
    };
    EXPECT_THAT(message("deep"), HasSubstr("64 deep"));
    EXPECT_THAT(message("full"), HasSubstr("max_json_values"));
    EXPECT_THAT(message("stops"), HasSubstr("max_stop_bytes"));
}

TEST_F(JobsTest, HeadsOfLinesAreReadWhateverTheirBodiesHold) {
    // Names of the head inside the body, twice, or of another kind.
    const std::string rest = R"("method":"POST","url":"/v1/completions")";
    std::string text = R"({"body":{"prompt":"x","custom_id":"no","body":{"model":"no"}},)";
    text += R"("custom_id":"yes",)" + rest + "}\n";
    const std::string batch = create(upload(text));
    auto request = service_.next();
    ASSERT_TRUE(request);
    answer(*request);
    const Json done = wait_for(batch, "completed");
    EXPECT_EQ(result_lines(done["output_file_id"]).count("yes"), 1U);
    const std::string wrong = R"({"custom_id":7,"body":{},)" + rest + "}\n" +
                              R"({"custom_id":"a","body":[{}],)" + rest + "}\n" +
                              R"({"custom_id":"b","body":{"model":[]},)" + rest + "}\n";
    const Json failed = wait_for(create(upload(wrong)), "failed");
    const Json& data = failed["errors"]["data"];
    ASSERT_EQ(data.size(), 3U) << data.dump(1);
    EXPECT_EQ(data[0]["param"], "custom_id");
    EXPECT_EQ(data[1]["param"], "body");
    EXPECT_EQ(data[2]["param"], "body.model");
}

TEST_F(JobsTest, ABatchWithWrongLinesFailsAndSaysWhichAndWhy) {
    std::string text = "not json\n";
    text += line("a", {{"model", "gpt-x"}, {"prompt", "x"}}).dump() + "\n";
    text += line("a", {{"model", "gpt-x"}, {"prompt", "x"}}).dump() + "\n";
    text += line("b", {{"model", "other"}, {"prompt", "x"}}).dump() + "\n";
    Json wrong = line("c", {{"prompt", "x"}});
    wrong["url"] = "/v1/chat/completions";
    text += wrong.dump() + "\n";
    wrong = line("d", {{"prompt", "x"}});
    wrong["method"] = "GET";
    text += wrong.dump() + "\n";
    text += line("", {{"prompt", "x"}}).dump() + "\n";
    wrong = line("e", {});
    wrong.erase("body");
    text += wrong.dump() + "\n[1]\n";
    const Json failed = wait_for(create(upload(text)), "failed");
    const std::vector<std::pair<int, std::string>> expected = {{1, "invalid_json_line"},
                                                               {3, "duplicate_custom_id"},
                                                               {4, "mismatched_model"},
                                                               {5, "mismatched_url"},
                                                               {6, "invalid_method"},
                                                               {7, "missing_required_parameter"},
                                                               {8, "missing_required_parameter"},
                                                               {9, "invalid_json_line"}};
    EXPECT_EQ(failed["errors"]["object"], "list");
    const Json& data = failed["errors"]["data"];
    ASSERT_EQ(data.size(), expected.size()) << data.dump(1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(data[i]["line"], expected[i].first) << data[i].dump();
        EXPECT_EQ(data[i]["code"], expected[i].second) << data[i].dump();
    }
    EXPECT_EQ(failed["failed_at"], 1000);
    EXPECT_EQ(wait_for(create(upload("\n \n")), "failed")["errors"]["data"][0]["code"],
              "empty_file");
    const std::string stranger = line("a", {{"model", "gpt-9"}, {"prompt", "x"}}).dump();
    EXPECT_EQ(wait_for(create(upload(stranger)), "failed")["errors"]["data"][0]["code"],
              "model_not_found");
}

TEST_F(JobsTest, LimitsOfLinesAndTheirLengthAreHeldAlsoAcrossParts) {
    options_.jobs->max_lines = 3000;
    options_.http.max_body_bytes = 5000;
    options_.jobs->max_file_bytes = 8'000'000;
    std::string text = line("first", {{"prompt", "x"}}).dump() + "\n";
    text += std::string(3'000'000, 'y') + "\n";
    text += line("last", {{"prompt", std::string(4000, 'x')}}).dump();
    const Json failed = wait_for(create(upload(text)), "failed");
    ASSERT_EQ(failed["errors"]["data"].size(), 1U) << failed.dump(1);
    EXPECT_EQ(failed["errors"]["data"][0]["code"], "line_too_long");
    EXPECT_EQ(failed["errors"]["data"][0]["line"], 2);
    const Json many = wait_for(create(upload(lines(3001))), "failed");
    ASSERT_EQ(many["errors"]["data"].size(), 1U);
    EXPECT_EQ(many["errors"]["data"][0]["code"], "too_many_requests");
}

TEST_F(JobsTest, ABatchThatCannotBeAskedForIsA400ThatNamesTheField) {
    const std::string file = upload(lines(1));
    const auto refused = [&](Json more) {
        Json body = {
            {"input_file_id", file}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}};
        body.update(more);
        const auto response = post("/v1/batches", body.dump());
        EXPECT_EQ(response.status, 400) << response.body;
        return Json::parse(response.body)["error"]["param"];
    };
    EXPECT_EQ(refused({{"endpoint", "/v1/moderations"}}), "endpoint");
    EXPECT_EQ(refused({{"completion_window", "soon"}}), "completion_window");
    EXPECT_EQ(refused({{"completion_window", "999999999999h"}}), "completion_window");
    EXPECT_EQ(refused({{"metadata", {{"a", 1}}}}), "metadata");
    EXPECT_EQ(refused({{"input_file_id", nullptr}}), "input_file_id");
    EXPECT_EQ(post("/v1/batches", "nonsense").status, 400);
    const auto unknown = post("/v1/batches", R"({"input_file_id": "file-none",
        "endpoint": "/v1/completions", "completion_window": "24h"})");
    EXPECT_EQ(unknown.status, 404);
    EXPECT_THAT(unknown.body, HasSubstr("file-none"));
}

TEST_F(JobsTest, LinesUnderWayAtARestartRunAgainWithTheSameSeed) {
    options_.jobs->max_in_flight = 2;
    const std::string batch = create(upload(lines(4)));
    auto first = service_.next();
    auto second = service_.next();
    ASSERT_TRUE(first && second);
    answer(*first);
    auto third = service_.next();
    ASSERT_TRUE(third);
    restart();
    EXPECT_TRUE(service_.wait_ended(second->id));
    EXPECT_TRUE(service_.wait_ended(third->id));
    std::map<std::string, std::uint64_t> seeds;
    for (int i = 0; i < 3; ++i) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        seeds[request->prompt()] = request->request.sampling.seed;
        answer(*request);
    }
    EXPECT_EQ(seeds[second->prompt()], second->request.sampling.seed);
    EXPECT_EQ(seeds[third->prompt()], third->request.sampling.seed);
    EXPECT_EQ(result_lines(wait_for(batch, "completed")["output_file_id"]).size(), 4U);
}

TEST_F(JobsTest, ACancelledBatchKeepsWhatItHas) {
    options_.jobs->max_in_flight = 2;
    const std::string batch = create(upload(lines(4)));
    auto first = service_.next();
    auto second = service_.next();
    ASSERT_TRUE(first && second);
    answer(*first);
    auto third = service_.next();
    ASSERT_TRUE(third);
    EXPECT_EQ(get_json("/v1/batches/" + batch)["request_counts"]["completed"], 1);
    const auto cancelled = post("/v1/batches/" + batch + "/cancel", "");
    EXPECT_EQ(cancelled.status, 200) << cancelled.body;
    EXPECT_EQ(Json::parse(cancelled.body)["status"], "cancelling");
    const Json over = wait_for(batch, "cancelled");
    EXPECT_EQ(service_.wait_ended(second->id), core::FinishReason::cancelled);
    EXPECT_EQ(service_.wait_ended(third->id), core::FinishReason::cancelled);
    EXPECT_EQ(over["request_counts"], (Json{{"total", 4}, {"completed", 1}, {"failed", 0}}));
    EXPECT_EQ(result_lines(over["output_file_id"]).size(), 1U);
    const auto errors = result_lines(over["error_file_id"]);
    ASSERT_EQ(errors.size(), 3U);
    for (const auto& [id, error] : errors) {
        EXPECT_EQ(error["error"]["code"], "batch_cancelled");
        EXPECT_TRUE(error["response"].is_null());
    }
    EXPECT_EQ(post("/v1/batches/" + batch + "/cancel", "").status, 400);
}

TEST_F(JobsTest, WhatHasNotRunWhenTimeIsUpIsSaidToHaveExpired) {
    options_.jobs->max_in_flight = 1;
    const std::string batch = create(upload(lines(3)), {{"completion_window", "2m"}});
    auto first = service_.next();
    ASSERT_TRUE(first);
    answer(*first);
    auto second = service_.next();
    ASSERT_TRUE(second);
    time_ = 1120;
    const Json over = wait_for(batch, "expired");
    EXPECT_EQ(over["expired_at"], 1120);
    EXPECT_EQ(result_lines(over["output_file_id"]).size(), 1U);
    const auto errors = result_lines(over["error_file_id"]);
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_EQ(errors.at("id-2")["error"]["code"], "batch_expired");
}

TEST_F(JobsTest, ALineWhoseWorkerDiesIsRunAgain) {
    const std::string batch = create(upload(lines(1)));
    for (int i = 0; i < 2; ++i) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        request->accept();
        request->route();
        request->say("half an ans");
        request->finish(core::FinishReason::error, "worker a was lost");
    }
    auto request = service_.next();
    ASSERT_TRUE(request);
    answer(*request);
    const Json done = wait_for(batch, "completed");
    const auto results = result_lines(done["output_file_id"]);
    EXPECT_EQ(results.at("id-1")["response"]["body"]["choices"][0]["text"], "P1!");
}

TEST_F(JobsTest, LinesWaitWhileTheClusterIsFullOrNotServing) {
    core::ClusterView down;
    service_.set_view(down);
    const std::string batch = create(upload(lines(1)));
    wait_for(batch, "in_progress");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    core::RejectRequest full;
    full.reason = core::RejectReason::queue_full;
    service_.reject_all(full);
    core::ClusterView up;
    up.serving = true;
    service_.set_view(up);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(get_json("/v1/batches/" + batch)["status"], "in_progress");
    service_.reject_all({});
    auto request = service_.next();
    ASSERT_TRUE(request);
    answer(*request);
    wait_for(batch, "completed");
}

TEST_F(JobsTest, ABatchForAnotherModelWaitsUntilThatIsServedAgain) {
    service_.set_view({});
    const std::string batch = create(upload(lines(1)));
    wait_for(batch, "in_progress");
    core::ClusterView up;
    up.serving = true;
    service_.set_view(up);
    server_.reset();
    model_.aliases = {};
    start();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(get_json("/v1/batches/" + batch)["status"], "in_progress");
    server_.reset();
    model_.aliases = {"gpt-x"};
    start();
    auto request = service_.next();
    ASSERT_TRUE(request);
    answer(*request);
    wait_for(batch, "completed");
}

TEST_F(JobsTest, AFolderInUseIsRefusedAtTheStart) {
    start();
    auto second = ApiServer::start(options_, models());
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

// By the length that was stored, the client would be promised another length than it is sent.
TEST_F(JobsTest, ADownloadOfAFileThatIsDamagedIsAnErrorThatNamesIt) {
    start();
    const std::string id = upload("some content");
    const auto damage = [&](const std::string& sql) {
        server_.reset();
        {
            auto database = store::open_sqlite(options_.jobs->place.folder + "/helix.db");
            ASSERT_TRUE(database.ok() && (*database)->execute(sql).ok());
        }
        start();
    };
    for (const char* sql :
         {"UPDATE files SET bytes=bytes-1", "UPDATE files SET bytes=bytes+2",
          "UPDATE files SET bytes=12; UPDATE pieces SET data=zeroblob(length(data))"}) {
        damage(sql);
        const auto response = get("/v1/files/" + id + "/content");
        EXPECT_EQ(response.status, 500) << sql;
        EXPECT_THAT(response.body, HasSubstr("'" + id + "' is damaged"));
    }
}

TEST_F(JobsTest, ABatchOfADamagedFileFailsAndTheOthersRun) {
    start();
    const std::string bad = upload(lines(2));
    server_.reset();
    {
        auto database = store::open_sqlite(options_.jobs->place.folder + "/helix.db");
        ASSERT_TRUE(database.ok() && (*database)->execute("UPDATE pieces SET hash=x'00'").ok());
    }
    start();
    const std::string good = upload("");
    const std::string failing = create(bad);
    const std::string other = create(good);
    const Json batch = wait_for(failing, "failed");
    EXPECT_THAT(batch["errors"]["data"][0]["message"].get<std::string>(),
                HasSubstr("'" + bad + "' is damaged"));
    wait_for(other, "failed");  // it is empty
}

}  // namespace
}  // namespace helix::api::jobs_test
