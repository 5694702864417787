// POST /helix/what-if, and what a plan and a machine are put in force with.

#include "api/what_if.h"

#include <condition_variable>
#include <mutex>

#include "api_fixture.h"

namespace helix::api::what_if_test {
namespace {

using Json = nlohmann::json;

// What works the questions out does as the test says.
class WhatIfTest : public ApiTest {
  protected:
    WhatIfTest() {
        options_.pages.what_if = [this](const WhatIfQuestion& question, const WhatIfWatch& watch) {
            std::unique_lock lock(mutex_);
            asked_.push_back(question);
            ++running_;
            changed_.notify_all();
            watch.progress("what if", 0.25);
            while (holds_ && !watch.stopped())
                changed_.wait_for(lock, std::chrono::milliseconds(5));
            stopped_ = watch.stopped();
            --running_;
            changed_.notify_all();
            return answer_;
        };
    }
    ~WhatIfTest() override {
        hold(false);
        server_.reset();
    }
    WhatIfTest(const WhatIfTest&) = delete;
    WhatIfTest& operator=(const WhatIfTest&) = delete;

    void hold(bool holds) {
        const std::lock_guard lock(mutex_);
        holds_ = holds;
        changed_.notify_all();
    }
    // Whether so many are worked on within ten seconds.
    bool running_becomes(int running) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(10),
                                 [&] { return running_ == running; });
    }
    Json error_of(const std::string& body) {
        const auto response = post("/helix/what-if", body);
        EXPECT_EQ(response.status, 400) << body << "\n" << response.body;
        return Json::parse(response.body)["error"];
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<WhatIfQuestion> asked_;
    base::Result<std::string> answer_ = std::string(R"({"what_if":1})");
    int running_ = 0;
    bool holds_ = false;
    bool stopped_ = false;
};

TEST_F(WhatIfTest, AQuestionIsReadAsItIsWritten) {
    const auto response = post("/helix/what-if", R"({"seconds":5,"suggest":true,"changes":[
        {"add":"RTX 4090","count":2,"region":"west","bandwidth_bytes_per_s":1.25e8,"latency_s":0.004},
        {"add":"L4"}, {"remove":"den"}, {"slow":"attic","factor":2.5},
        {"link":["atlas","den"],"bandwidth_bytes_per_s":1e6}]})");
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.body, R"({"what_if":1})");
    ASSERT_EQ(asked_.size(), 1U);
    const WhatIfQuestion& question = asked_[0];
    EXPECT_EQ(question.seconds, 5);
    EXPECT_TRUE(question.suggest);
    ASSERT_EQ(question.changes.size(), 5U);
    const auto& add = std::get<WhatIfAdd>(question.changes[0]);
    EXPECT_EQ(add.type, "RTX 4090");
    EXPECT_EQ(add.count, 2);
    EXPECT_EQ(add.region, "west");
    ASSERT_TRUE(add.network);
    EXPECT_EQ(add.network->bandwidth_bytes_per_s, 1.25e8);
    EXPECT_EQ(add.network->latency_s, 0.004);
    EXPECT_FALSE(std::get<WhatIfAdd>(question.changes[1]).network);
    EXPECT_EQ(std::get<WhatIfRemove>(question.changes[2]).name, "den");
    EXPECT_EQ(std::get<WhatIfSlow>(question.changes[3]).factor, 2.5);
    const auto& link = std::get<WhatIfLink>(question.changes[4]);
    EXPECT_EQ(link.from + ">" + link.to, "atlas>den");
    EXPECT_FALSE(link.latency_s);
}

TEST_F(WhatIfTest, AMistakeIsNamed) {
    const auto names = [&](const std::string& body, const std::string& param) {
        const Json named = error_of(body)["param"];
        EXPECT_EQ(named.is_null() ? "" : named.get<std::string>(), param) << body.substr(0, 200);
    };
    names(R"({"changes":{}})", "changes");
    names(R"({"changes":[5]})", "changes[0]");
    names(R"({"changes":[{"remove":"a"},{}]})", "changes[1]");
    names(R"({"changes":[{"remove":"a","slow":"a","factor":2}]})", "changes[0]");
    names(R"({"changes":[{"remove":""}]})", "changes[0].remove");
    names(R"({"changes":[{"remove":7}]})", "changes[0].remove");
    names(R"({"changes":[{"slow":"a"}]})", "changes[0].factor");
    names(R"({"changes":[{"slow":"a","factor":0}]})", "changes[0].factor");
    names(R"({"changes":[{"slow":"a","factor":"2"}]})", "changes[0].factor");
    names(R"({"changes":[{"add":"L4","count":0}]})", "changes[0].count");
    names(R"({"changes":[{"add":"L4","count":1.5}]})", "changes[0].count");
    names(R"({"changes":[{"add":"L4","count":101}]})", "changes[0].count");
    names(R"({"changes":[{"add":"L4","latency_s":1}]})", "changes[0].bandwidth_bytes_per_s");
    names(R"({"changes":[{"link":"a:b","bandwidth_bytes_per_s":1e6}]})", "changes[0].link");
    names(R"({"changes":[{"link":["a","b"]}]})", "changes[0].bandwidth_bytes_per_s");
    names(R"({"changes":[{"link":["a","b"],"bandwidth_bytes_per_s":1e6,"latency_s":-1}]})",
          "changes[0].latency_s");
    names(R"({"changes":[{"add":"L4","count":60},{"add":"A100","count":41}]})", "changes");
    names(R"({"changes":[{"remove":")" + std::string(70'000, 'x') + R"("}]})", "");
    names(R"({"seconds":61})", "seconds");
    names(R"({"seconds":0})", "seconds");
    names(R"({"suggest":1})", "suggest");
    EXPECT_TRUE(asked_.empty());
}

TEST_F(WhatIfTest, WhatIsNotThereIsAMistakeInTheQuestion) {
    answer_ = base::Error{base::Errc::not_found, "\"attic\" is no machine of this cluster"};
    const Json error = error_of(R"({"changes":[{"remove":"attic"}]})");
    EXPECT_EQ(error["message"], "\"attic\" is no machine of this cluster");
    answer_ = base::Error{base::Errc::unavailable, "no placement yet"};
    EXPECT_EQ(post("/helix/what-if", "{}").status, 503);
}

TEST_F(WhatIfTest, ProgressAndAnswerComeAsEvents) {
    const auto response = post("/helix/what-if", R"({"stream":true})");
    EXPECT_EQ(response.status, 200);
    EXPECT_NE(response.header("content-type").find("text/event-stream"), std::string::npos);
    const std::size_t progress = response.body.find(
        "event: progress\ndata: {\"phase\":\"what if\",\"share_done\":0.25}\n\n");
    const std::size_t answer = response.body.find("event: answer\ndata: {\"what_if\":1}\n\n");
    EXPECT_NE(progress, std::string::npos) << response.body;
    EXPECT_NE(answer, std::string::npos) << response.body;
    EXPECT_LT(progress, answer);
    answer_ = base::Error{base::Errc::invalid, "no such type"};
    const std::string failed = post("/helix/what-if", R"({"stream":true})").body;
    EXPECT_NE(failed.find("event: error\n"), std::string::npos) << failed;
    EXPECT_NE(failed.find("no such type"), std::string::npos) << failed;
}

TEST_F(WhatIfTest, OneAtATimeIsAnswered) {
    hold(true);
    auto first = client();
    first.request("POST", "/helix/what-if", "{}");
    ASSERT_TRUE(running_becomes(1));
    const auto second = post("/helix/what-if", "{}");
    EXPECT_EQ(second.status, 409) << second.body;
    EXPECT_NE(second.body.find("Another what-if question"), std::string::npos);
    hold(false);
    EXPECT_EQ(first.read_response().status, 200);
    ASSERT_TRUE(running_becomes(0));
    EXPECT_EQ(post("/helix/what-if", "{}").status, 200);
}

TEST_F(WhatIfTest, AClientThatLeavesEndsTheWork) {
    hold(true);
    {
        auto gone = client();
        gone.request("POST", "/helix/what-if", R"({"stream":true})");
        ASSERT_TRUE(running_becomes(1));
    }
    ASSERT_TRUE(running_becomes(0));
    EXPECT_TRUE(stopped_);
    hold(false);
    for (int i = 0; i < 100; ++i) {  // the server hears of the end a little later
        if (post("/helix/what-if", "{}").status == 200) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << "the next question is not answered";
}

TEST_F(WhatIfTest, AServerThatStopsEndsTheWork) {
    hold(true);
    auto waits = client();
    waits.request("POST", "/helix/what-if", "{}");
    ASSERT_TRUE(running_becomes(1));
    server_->stop();
    EXPECT_TRUE(running_becomes(0));
    EXPECT_TRUE(stopped_);
}

TEST_F(WhatIfTest, QuestionsAreInternalsAndWhatChangesTheClusterIsForAdmins) {
    EXPECT_EQ(access_of("POST", "/helix/what-if"), Access::internals);
    EXPECT_EQ(access_of("GET", "/helix/joining"), Access::internals);
    EXPECT_EQ(access_of("POST", "/helix/plan"), Access::admin);
    EXPECT_EQ(access_of("POST", "/helix/keys"), Access::admin);
    options_.api_keys = {"for-clients"};
    options_.access.admin_keys = {"for-admins"};
    options_.pages.worker_key = [](const std::string& name) {
        return base::Result<std::string>("{\"name\":\"" + name + "\"}");
    };
    const std::string client_key = "authorization: Bearer for-clients\r\n";
    const std::string admin_key = "authorization: Bearer for-admins\r\n";
    EXPECT_EQ(post("/helix/what-if", "{}", client_key).status, 200);
    EXPECT_EQ(post("/helix/keys", R"({"name":"den"})", client_key).status, 401);
    EXPECT_EQ(post("/helix/plan", R"({"layers":{}})", client_key).status, 401);
    const auto made = post("/helix/keys", R"({"name":"den"})", admin_key);
    EXPECT_EQ(made.status, 200) << made.body;
    EXPECT_EQ(made.body, R"({"name":"den"})");
    EXPECT_NE(made.header("cache-control").find("no-store"), std::string::npos);
    EXPECT_EQ(get("/helix/keys", admin_key).status, 404);
    EXPECT_EQ(post("/helix/keys", "{}", admin_key).status, 400);
}

// ---- another placement

class PlaceTest : public ApiTest {
  protected:
    PlaceTest() {
        model_.n_layers = 12;
        core::ClusterView view;
        view.serving = true;
        view.epoch = 3;
        for (std::uint32_t id : {1U, 2U}) {
            core::WorkerView worker;
            worker.worker = core::WorkerId{id};
            worker.node.name = id == 1 ? "atlas" : "den";
            view.workers.push_back(worker);
        }
        service_.set_view(view);
    }
    std::string refused(const std::string& layers) {
        const auto response = post("/helix/plan", R"({"layers":)" + layers + "}");
        EXPECT_EQ(response.status, 400) << layers << "\n" << response.body;
        EXPECT_TRUE(service_.placed().empty());
        return Json::parse(response.body)["error"]["message"];
    }
};

TEST_F(PlaceTest, LayersOfAllMachinesAreHandedOn) {
    const auto response = post("/helix/plan", R"({"layers":{"atlas":[0,7],"den":[5,12]}})");
    EXPECT_EQ(response.status, 202) << response.body;
    const auto placed = service_.placed();
    ASSERT_EQ(placed.size(), 2U);
    EXPECT_EQ(placed.at("atlas"), (spec::LayerRange{0, 7}));
    EXPECT_EQ(placed.at("den"), (spec::LayerRange{5, 12}));
}

TEST_F(PlaceTest, WhatCannotServeIsRefusedByName) {
    EXPECT_NE(refused(R"({"atlas":[0,7]})").find("layer 7 is on no machine"), std::string::npos);
    EXPECT_NE(refused(R"({"attic":[0,12]})").find("no machine \"attic\""), std::string::npos);
    EXPECT_NE(refused(R"({"atlas":[0,13]})").find("\"atlas\""), std::string::npos);
    EXPECT_NE(refused(R"({"atlas":[3,3]})").find("\"atlas\""), std::string::npos);
    EXPECT_NE(refused(R"({"atlas":[0,1.5]})").find("\"atlas\""), std::string::npos);
    EXPECT_NE(refused(R"({"atlas":"all"})").find("\"atlas\""), std::string::npos);
    EXPECT_NE(refused("{}").find("expected an object"), std::string::npos);
    EXPECT_NE(refused("[1]").find("expected an object"), std::string::npos);
}

}  // namespace
}  // namespace helix::api::what_if_test
