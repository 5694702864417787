// The last hours of a server: what samples are made of, how many are kept, and how they are asked
// for.

#include "api/history.h"

#include <atomic>

#include "api_fixture.h"

namespace helix::api::history_test {
namespace {

using Json = nlohmann::json;

core::WorkerView worker(std::uint32_t id, core::LayerRange layers, double busy_s) {
    core::WorkerView view;
    view.worker = {id};
    view.node.name = "w" + std::to_string(id);
    view.layers = layers;
    view.ready = true;
    view.total_pages = 100;
    view.used_pages = 25;
    view.busy_ns = base::from_seconds(busy_s).ns;
    return view;
}

// A history, and the time that goes by.
class HistoryTest : public testing::Test {
  protected:
    // What is seen so many seconds later.
    void see(double seconds, core::ClusterView view) {
        now_ = now_ + base::from_seconds(seconds);
        view.taken = now_;
        view.epoch = 1;
        history_.see(now_, 1'000'000 + static_cast<std::int64_t>((now_ - start_).seconds()), view);
    }
    Json column(const std::string& name) const {
        const Json all = history_.to_json(0);
        std::size_t at = 0;
        while (all["columns"].at(at) != name) ++at;
        Json values = Json::array();
        for (const Json& sample : all["samples"]) values.push_back(sample.at(at));
        return values;
    }
    const base::TimePoint start_{base::from_seconds(50).ns};
    base::TimePoint now_ = start_;
    History history_;
};

TEST_F(HistoryTest, ASampleSaysWhatWentOnSinceTheLast) {
    core::ClusterView view;
    view.workers = {worker(1, {0, 2}, 0), worker(2, {2, 4}, 0), worker(3, {}, 0)};
    see(0, view);
    history_.prompt(30);
    for (const double ttft_s : {0.4, 0.1, 0.2, 0.3}) history_.first_token(ttft_s);
    for (int i = 0; i < 50; ++i) history_.token();
    history_.ended(false, 0.02);
    history_.ended(false, -1);
    history_.ended(true, 0.04);
    view.running = 3;
    view.waiting = 2;
    view.workers = {worker(1, {0, 2}, 4), worker(2, {2, 4}, 8), worker(3, {}, 0)};
    see(5, view);
    EXPECT_EQ(column("time"), Json::array()) << "ten seconds are not over";
    see(5, view);
    EXPECT_EQ(column("time"), Json::array({1'000'010}));
    EXPECT_EQ(column("tokens_per_s"), Json::array({5}));
    EXPECT_EQ(column("prompt_tokens_per_s"), Json::array({3}));
    EXPECT_EQ(column("running"), Json::array({3}));
    EXPECT_EQ(column("waiting"), Json::array({2}));
    EXPECT_EQ(column("finished"), Json::array({2}));
    EXPECT_EQ(column("failed"), Json::array({1}));
    EXPECT_EQ(column("ttft_p50_s"), Json::array({0.2}));
    EXPECT_EQ(column("ttft_p95_s"), Json::array({0.4}));
    EXPECT_EQ(column("tpot_p50_s"), Json::array({0.02}));
    EXPECT_EQ(column("kv_used"), Json::array({0.25}));
    EXPECT_EQ(column("busy"), Json::array({0.6})) << "of the two that have layers";
    EXPECT_EQ(column("workers"), Json::array({3}));

    see(10, view);  // nothing goes on
    EXPECT_EQ(column("tokens_per_s")[1], 0);
    EXPECT_TRUE(column("ttft_p50_s")[1].is_null());
    EXPECT_EQ(column("busy")[1], 0);
}

TEST_F(HistoryTest, AWorkerThatBeganAnewIsNotBusyBackwards) {
    core::ClusterView view;
    view.workers = {worker(1, {0, 2}, 8)};
    see(0, view);
    view.workers = {worker(1, {0, 2}, 1)};
    see(10, view);
    EXPECT_TRUE(column("busy")[0].is_null());
}

TEST_F(HistoryTest, KeepsSixHours) {
    core::ClusterView view;
    see(0, view);
    for (int i = 0; i < 2200; ++i) see(10, view);
    const Json times = column("time");
    EXPECT_EQ(times.size(), 2161U);
    EXPECT_EQ(times.back().get<std::int64_t>() - times.front().get<std::int64_t>(), 21600);
}

TEST_F(HistoryTest, EventsAreKeptWithTheirTime) {
    core::ClusterView view;
    view.workers = {worker(1, {0, 2}, 0)};
    see(0, view);
    view.workers = {};
    see(1, view);
    const Json events = history_.to_json(0)["events"];
    ASSERT_EQ(events.size(), 3U) << events;
    EXPECT_EQ(events[0],
              Json::parse(R"({"time":1000000,"event":"joined","worker":1,"name":"w1"})"));
    EXPECT_EQ(events[1], Json::parse(R"({"time":1000000,"event":"placement","epoch":1})"));
    EXPECT_EQ(events[2]["event"], "lost");
    EXPECT_EQ(history_.to_json(1'000'000)["events"].size(), 1U) << "only what is newer";
    for (std::size_t i = 0; i < 3000; ++i) {
        view.workers =
            i % 2 == 0 ? std::vector{worker(1, {0, 2}, 0)} : std::vector<core::WorkerView>{};
        see(1, view);
    }
    EXPECT_EQ(history_.to_json(0)["events"].size(), History::kMostEvents);
}

TEST_F(HistoryTest, AsATableItHasEmptyCells) {
    core::ClusterView view;
    see(0, view);
    see(10, view);
    EXPECT_EQ(history_.to_csv(0),
              "time,tokens_per_s,prompt_tokens_per_s,running,waiting,finished,failed,ttft_p50_s,"
              "ttft_p95_s,tpot_p50_s,tpot_p95_s,kv_used,busy,workers\n"
              "1000010,0,0,0,0,0,0,,,,,,,0\n");
    EXPECT_EQ(history_.to_csv(1'000'010).find("1000010"), std::string::npos);
}

class HistoryRoute : public ApiTest {};

TEST_F(HistoryRoute, GivesWhatTheServerDid) {
    std::atomic<std::int64_t> now_ns{base::from_seconds(100).ns};
    std::atomic<std::int64_t> unix_s{1000};
    options_.clock = [&] { return base::TimePoint{now_ns.load()}; };
    options_.unix_time = [&] { return unix_s.load(); };
    core::ClusterView view;
    view.serving = true;
    view.workers = {worker(1, {0, 2}, 0)};
    service_.set_view(view);
    const auto history = [&](const std::string& query) {
        return Json::parse(get("/helix/history" + query).body);
    };
    const auto eventually = [&](const auto& holds) {
        for (int i = 0; i < 1000; ++i) {
            if (holds()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    };
    // The first look, by which it knows the worker.
    ASSERT_TRUE(eventually([&] { return !history("")["events"].empty(); }));
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"abc"})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->say("xy");
    request->finish(core::FinishReason::stop);
    c.read_response();
    now_ns += base::from_seconds(10).ns;
    unix_s += 10;
    ASSERT_TRUE(eventually([&] { return history("")["samples"].size() == 1; }));
    const Json sample = history("?since=1009")["samples"][0];
    EXPECT_EQ(sample[0], 1010);
    EXPECT_EQ(sample[1], 0.2) << "two tokens in ten seconds";
    EXPECT_EQ(sample[2], 0.3);
    EXPECT_EQ(history("?since=1010")["samples"], Json::array());
    const auto table = get("/helix/history?format=csv");
    EXPECT_EQ(table.header("content-type"), "text/csv; charset=utf-8");
    EXPECT_NE(table.body.find("\n1010,0.2,0.3,"), std::string::npos) << table.body;
    EXPECT_EQ(get("/helix/history?since=yesterday").status, 400);
    EXPECT_EQ(get("/helix/history?format=xml").status, 400);
}

}  // namespace
}  // namespace helix::api::history_test
