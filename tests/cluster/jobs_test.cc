// A batch, and a coordinator that is killed while it runs.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../net/http_test_client.h"
#include "base/random.h"
#include "cluster/process.h"
#include "model/synth.h"

namespace helix::cluster::jobs_test {
namespace {

using Json = nlohmann::json;

// Many more lines than the kills wait for, so that most of the batch lies behind the last kill.
constexpr int kLines = 160;
constexpr int kBadLines = 2;

class BatchJobs : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    std::unique_ptr<Process> serve(const std::string& state) {
        return std::make_unique<Process>(
            std::vector<std::string>{"serve", "--model", folder_.file("tiny.gguf"), "--listen",
                                     "127.0.0.1:" + std::to_string(port_), "--no-worker",
                                     "--state-dir", folder_.file(state), "--batch-lines", "4"},
            folder_.file("serve.log"));
    }
    std::unique_ptr<Process> worker() {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", "127.0.0.1:" + std::to_string(port_),
                                     "--name", "a", "--memory", "64MB", "--threads", "1", "--speed",
                                     "0.05", "--cache", folder_.file("cache")},
            folder_.file("worker.log"));
    }
    // The answer's JSON; null while nobody answers.
    Json call(const std::string& method, const std::string& path, const std::string& body = "",
              const std::string& headers = "") const {
        net::TestClient client(static_cast<std::uint16_t>(port_));
        if (!client.connected()) return {};
        client.request(method, path, body, headers);
        const auto response = client.read_response();
        if (!response.complete || response.status != 200) return {};
        return Json::parse(response.body, nullptr, false);
    }
    std::string content(const Json& file) const {
        net::TestClient client(static_cast<std::uint16_t>(port_));
        client.request("GET", "/v1/files/" + file.get<std::string>() + "/content");
        return client.read_response().body;
    }
    // Requests that are greedy or drawn, and some that fail.
    static std::string requests() {
        std::string text;
        for (int i = 0; i < kLines; ++i) {
            Json body = {{"model", "default"},
                         {"prompt", "once " + std::to_string(i)},
                         {"max_tokens", 8 + i % 9},
                         {"temperature", i % 2},
                         {"ignore_eos", true}};
            if (i < kBadLines) body["temperature"] = "hot";
            text += Json{{"custom_id", "request-" + std::to_string(i)},
                         {"method", "POST"},
                         {"url", "/v1/completions"},
                         {"body", body}}
                        .dump() +
                    "\n";
        }
        return text;
    }
    std::string submit() const {
        const std::string form =
            "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" +
            requests() + "\r\n--B--\r\n";
        const Json file =
            call("POST", "/v1/files", form, "content-type: multipart/form-data; boundary=B\r\n");
        const Json batch = call("POST", "/v1/batches",
                                Json{{"input_file_id", file.value("id", "")},
                                     {"endpoint", "/v1/completions"},
                                     {"completion_window", "24h"}}
                                    .dump());
        return batch.value("id", "");
    }
    Json batch(const std::string& id) const { return call("GET", "/v1/batches/" + id); }
    bool has_status(const std::string& id, const std::string& status, int seconds) const {
        return eventually(
            [&] {
                const Json now = batch(id);
                return now.is_object() && now["status"] == status;
            },
            seconds);
    }
    std::string log() const {
        std::ifstream file(folder_.file("serve.log"));
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    Folder folder_;
    int port_ = free_port();
};

// Adds what was answered by custom_id; a second answer for one is a failure.
void add_answers(const std::string& lines, std::map<std::string, std::string>& answers) {
    std::istringstream in(lines);
    std::string text;
    while (std::getline(in, text)) {
        const Json line = Json::parse(text, nullptr, false);
        ASSERT_TRUE(line.is_object()) << text;
        const Json& body = line["response"]["body"];
        const Json answer = body.contains("choices") ? body["choices"] : body["error"];
        EXPECT_TRUE(answers.emplace(line["custom_id"], answer.dump()).second) << text;
    }
}

TEST_F(BatchJobs, ABatchOutlivesThreeKillsOfTheCoordinatorAndEachLineIsAnsweredOnce) {
    auto coordinator = serve("state");
    ASSERT_TRUE(eventually([&] { return call("GET", "/v1/files").is_object(); }, 60)) << log();
    // The batch is accepted, and nothing has run since there is no worker.
    const std::string id = submit();
    ASSERT_TRUE(has_status(id, "in_progress", 60)) << log();
    coordinator->stop(SIGKILL);
    std::filesystem::copy(folder_.file("state"), folder_.file("undisturbed"),
                          std::filesystem::copy_options::recursive);

    const auto runs_to_the_end = [&](std::map<std::string, std::string>& answers) {
        ASSERT_TRUE(has_status(id, "completed", 240)) << log();
        const Json done = batch(id);
        EXPECT_EQ(done["request_counts"]["completed"], kLines - kBadLines);
        EXPECT_EQ(done["request_counts"]["failed"], kBadLines);
        add_answers(content(done["output_file_id"]), answers);
        EXPECT_EQ(answers.size(), static_cast<std::size_t>(kLines - kBadLines));
        add_answers(content(done["error_file_id"]), answers);
        EXPECT_EQ(answers.size(), static_cast<std::size_t>(kLines));
    };
    const auto one_worker = worker();
    coordinator = serve("undisturbed");
    std::map<std::string, std::string> expected;
    ASSERT_NO_FATAL_FAILURE(runs_to_the_end(expected));
    coordinator->stop(SIGKILL);

    constexpr std::uint64_t kSeed = 1;  // of the moments
    base::Random random(kSeed);
    int kills_on_the_way = 0;
    for (int kill = 1; kill <= 3; ++kill) {
        coordinator = serve("state");
        const std::int64_t enough = kill * 8 + random.between(0, 6);
        ASSERT_TRUE(eventually(
            [&] {
                const Json now = batch(id);
                return now.is_object() && now["request_counts"]["completed"] >= enough;
            },
            120))
            << log();
        std::this_thread::sleep_for(std::chrono::microseconds(random.between(0, 30'000)));
        if (batch(id)["status"] == "in_progress") ++kills_on_the_way;
        coordinator->stop(SIGKILL);
    }
    // On a fast machine one kill may come too late, but not all three: most lines are left by then.
    EXPECT_GE(kills_on_the_way, 1);
    coordinator = serve("state");
    std::map<std::string, std::string> answers;
    ASSERT_NO_FATAL_FAILURE(runs_to_the_end(answers));
    EXPECT_EQ(answers, expected);
    EXPECT_EQ(coordinator->stop(SIGTERM), 0) << log();
}

}  // namespace
}  // namespace helix::cluster::jobs_test
