// GET /helix/events: the whole state, then what changes. The clock is the test's, the ticks are the
// server's own.

#include "api/cluster_feed.h"

#include <atomic>
#include <optional>
#include <utility>

#include "api_fixture.h"

namespace helix::api::cluster_feed_test {
namespace {

using Json = nlohmann::json;

core::WorkerView worker(std::uint32_t id, const std::string& name, core::LayerRange layers) {
    core::WorkerView view;
    view.worker = {id};
    view.node.name = name;
    view.node.region = "here";
    view.layers = layers;
    view.ready = true;
    view.total_pages = 100;
    return view;
}

core::ClusterView two_workers() {
    core::ClusterView view;
    view.taken = {base::from_ms(1).ns};
    view.serving = true;
    view.epoch = 3;
    view.workers = {worker(1, "left", {0, 2}), worker(2, "right", {2, 4})};
    view.flows = {{-1, 1, 12.5}, {1, 2, 12.5}, {2, -1, 12.5}};
    view.link_rows = {{-1, 1, 7}, {1, 2, 7}, {2, -1, 7}};
    return view;
}

struct Event {
    std::string name;
    Json data;
};

// A reader of the feed: what comes, event by event.
class Reader {
  public:
    explicit Reader(std::uint16_t port, int receive_buffer = 0, const std::string& query = "")
        : client_(port, receive_buffer) {
        client_.request("GET", "/helix/events" + query);
        head_ = client_.read_head();
    }
    const net::TestClient::Response& head() const { return head_; }
    // The next event, or nothing when the feed has ended. Comments are counted.
    std::optional<Event> next() {
        while (true) {
            const std::size_t end = text_.find("\n\n");
            if (end == std::string::npos) {
                std::string chunk;
                if (!client_.read_chunk(chunk) || chunk.empty()) return {};
                text_ += chunk;
                continue;
            }
            const std::string block = text_.substr(0, end);
            text_.erase(0, end + 2);
            if (block.starts_with(":")) ++comments;
            if (!block.starts_with("event: ")) continue;
            const std::size_t line = block.find("\ndata: ");
            return Event{block.substr(7, line - 7), Json::parse(block.substr(line + 7))};
        }
    }
    // Whether a comment comes before the next event.
    bool comment() {
        const int before = comments;
        while (comments == before) {
            std::string chunk;
            if (!client_.read_chunk(chunk) || chunk.starts_with("event:")) return false;
            if (chunk.starts_with(":")) ++comments;
        }
        return true;
    }
    int comments = 0;

  private:
    net::TestClient client_;
    net::TestClient::Response head_;
    std::string text_;
};

class ClusterFeedTest : public ApiTest {
  protected:
    ClusterFeedTest() {
        options_.clock = [this] { return base::TimePoint{now_ns_.load()}; };
        service_.set_view(two_workers());
    }
    // So much time goes by.
    void wait(base::Duration time) { now_ns_ += time.ns; }
    // The view of half a second later.
    void show(core::ClusterView view) {
        view.taken = {now_ns_.load() + 1};
        service_.set_view(std::move(view));
        wait(base::from_ms(500));
    }
    std::uint16_t port() {
        if (!server_) start();
        return server_->port();
    }
    std::atomic<std::int64_t> now_ns_{base::from_seconds(100).ns};
};

TEST_F(ClusterFeedTest, AReaderGetsTheWholeStateFirst) {
    Reader reader(port());
    EXPECT_EQ(reader.head().status, 200);
    EXPECT_EQ(reader.head().header("content-type"), "text/event-stream");
    EXPECT_EQ(reader.head().header("cache-control"), "no-store");
    const auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name, "cluster");
    EXPECT_EQ(event->data["workers"]["1"]["name"], "left");
    EXPECT_EQ(event->data["workers"]["2"]["state"], "serving");
    EXPECT_EQ(event->data["flows"]["1>2"], 12.5);
    EXPECT_EQ(event->data["links"]["-1>1"], 7);
    EXPECT_EQ(event->data["model"], "byte-model");
    EXPECT_FALSE(event->data.contains("plan")) << "nothing was planned here";
    EXPECT_FALSE(event->data.contains("requests"));
}

TEST_F(ClusterFeedTest, ThePlanIsThatOfThePlacementInForce) {
    PlanFigures plan;
    plan.epoch = 3;
    plan.method = "search";
    plan.max_flow_tokens_per_s = 9;
    plan.nodes = {{core::WorkerId{2}, 20, 9}};
    using Kind = PlanFigures::CutKind;
    plan.cut = {{Kind::machine, 2}, {Kind::link, 1, 2}, {Kind::trunk, -1, -1, "a", "b"}};
    service_.set_plan(plan);
    Reader reader(port());
    auto event = reader.next();
    ASSERT_TRUE(event);
    const Json& told = event->data["plan"];
    EXPECT_EQ(told["max_flow_tokens_per_s"], 9);
    EXPECT_EQ(told["nodes"][0],
              Json::parse(R"({"worker":2,"most_tokens_per_s":20.0,"flow_tokens_per_s":9.0})"));
    EXPECT_EQ(told["min_cut"], Json::parse(R"([{"kind":"machine","worker":2},
        {"kind":"link","from":1,"to":2},{"kind":"trunk","from_region":"a","to_region":"b"}])"));
    EXPECT_EQ(Json::parse(get("/helix/cluster").body)["plan"], told);

    core::ClusterView view = two_workers();
    view.epoch = 4;
    show(view);
    ASSERT_EQ(reader.next()->name, "placement");
    event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->data.contains("plan") && event->data["plan"].is_null());
    EXPECT_EQ(Json::parse(get("/helix/cluster").body)["plan"], Json());
}

TEST_F(ClusterFeedTest, WhatChangesIsToldAndNothingElse) {
    Reader reader(port());
    ASSERT_TRUE(reader.next());
    show(two_workers());  // nothing but the time
    core::ClusterView view = two_workers();
    view.workers[1].used_pages = 50;
    view.link_rows[1].rows = 9;
    show(view);
    const auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name, "change");
    Json changed = event->data;
    EXPECT_TRUE(changed.contains("time_s"));
    changed.erase("time_s");
    EXPECT_EQ(changed, Json::parse(R"({"workers":{"2":{"kv_pages_used":50}},"links":{"1>2":9}})"));
}

TEST_F(ClusterFeedTest, ChangesAreGatheredForHalfASecond) {
    Reader reader(port());
    ASSERT_TRUE(reader.next());
    core::ClusterView view = two_workers();
    for (int i = 1; i <= 9; ++i) {
        view.workers[0].rows = i;
        view.taken = {now_ns_.load() + i};
        service_.set_view(view);
        wait(base::from_ms(50));
    }
    view.workers[0].rows = 10;
    show(view);
    const auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->data["workers"]["1"]["rows"], 10);
}

TEST_F(ClusterFeedTest, MachinesJoinDrainAndAreLost) {
    Reader reader(port());
    ASSERT_TRUE(reader.next());
    const auto expect = [&](const std::string& name, const std::string& of) {
        const auto event = reader.next();
        ASSERT_TRUE(event);
        EXPECT_EQ(event->name, name);
        if (!of.empty()) {
            EXPECT_EQ(event->data["name"], of);
        }
    };
    core::ClusterView view = two_workers();
    view.workers.push_back(worker(3, "third \xff", {}));
    show(view);
    expect("joined", "third \xEF\xBF\xBD");
    expect("change", "");

    view.workers[1].draining = true;
    show(view);
    expect("draining", "right");
    expect("change", "");
    view.workers[1].drained = true;
    view.epoch = 4;
    show(view);
    expect("drained", "right");
    expect("placement", "");
    expect("change", "");
    view.workers[1].draining = view.workers[1].drained = false;
    show(view);
    expect("undrained", "right");
    expect("change", "");

    view.workers[2].incarnation = 2;  // it came back before anybody saw that it was away
    show(view);
    expect("lost", "third \xEF\xBF\xBD");
    expect("joined", "third \xEF\xBF\xBD");
    expect("change", "");
    view.workers[2].draining = view.workers[2].drained = view.workers[2].remove = true;
    view.workers.erase(view.workers.begin());
    show(view);
    expect("lost", "left");
    expect("drained", "third \xEF\xBF\xBD");
    const auto gone = reader.next();
    ASSERT_TRUE(gone);
    EXPECT_EQ(gone->data["workers"]["1"], Json());
    view.workers.pop_back();
    show(view);
    expect("removed", "third \xEF\xBF\xBD");
}

TEST_F(ClusterFeedTest, ARequestThatMovesIsToldWithItsWay) {
    Reader reader(port());
    ASSERT_TRUE(reader.next());
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"abc"})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->sink->on_routed(
        {request->id, {{core::WorkerId{2}, {0, 4}}}, 2, 0, core::RouteReason::worker_lost});
    request->say("x");
    request->finish(core::FinishReason::stop);
    c.read_response();  // all of this is known by now
    show(two_workers());
    const auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name, "moved");
    EXPECT_EQ(event->data["from"], (Json{1, 2}));
    EXPECT_EQ(event->data["to"], Json::array({2}));
    EXPECT_EQ(event->data["reason"], "worker_lost");
    EXPECT_TRUE(event->data["request"].get<std::string>().starts_with("cmpl-"));
}

TEST_F(ClusterFeedTest, WhoWantsRequestsIsToldHowTheyGo) {
    Reader plain(port());
    ASSERT_TRUE(plain.next());
    Reader reader(port(), 0, "?requests=1");
    ASSERT_EQ(reader.next()->name, "cluster");
    auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name, "requests");
    EXPECT_EQ(event->data, Json::object());

    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"abc","n":2})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    wait(base::from_ms(500));
    event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name, "requests_change");
    ASSERT_EQ(event->data.size(), 2U) << event->data;
    const std::string key = event->data.begin().key();
    EXPECT_TRUE(key.starts_with("cmpl-") && key.ends_with("/0")) << key;
    EXPECT_EQ(event->data[key]["state"], "queued");
    EXPECT_FALSE(event->data[key].contains("ended_s"));

    request->route();
    request->sink->on_routed(
        {request->id, {{core::WorkerId{2}, {0, 4}}}, 2, 0, core::RouteReason::worker_lost});
    request->finish(core::FinishReason::stop);
    c.read_response();  // all of this is known by now
    wait(base::from_ms(500));
    EXPECT_EQ(reader.next()->name, "moved");
    event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name, "requests_change");
    const Json& changed = event->data[key];
    EXPECT_EQ(changed["state"], "stop");
    EXPECT_EQ(changed["ended_s"], 0.5);
    EXPECT_FALSE(changed.contains("id")) << "it did not change";
    ASSERT_EQ(changed["attempts"].size(), 2U);
    EXPECT_EQ(changed["attempts"][0]["reason"], "first");
    EXPECT_EQ(changed["attempts"][0]["at_s"], 0.5);
    EXPECT_EQ(changed["attempts"][1]["reason"], "worker_lost");
    EXPECT_EQ(changed["attempts"][1]["pipeline"], Json::parse(R"([{"worker":2,"layers":[0,4]}])"));

    core::ClusterView view = two_workers();
    view.running = 1;
    show(view);
    EXPECT_EQ(plain.next()->name, "moved");
    EXPECT_EQ(plain.next()->name, "change") << "who did not ask for requests gets none";
}

TEST_F(ClusterFeedTest, SilenceIsBrokenByComments) {
    options_.ping_interval = base::from_seconds(15);
    Reader reader(port());
    ASSERT_TRUE(reader.next());
    wait(base::from_seconds(15));
    EXPECT_TRUE(reader.comment());
    core::ClusterView view = two_workers();
    view.running = 1;
    show(view);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.comments, 1) << "it is not said again and again";
}

TEST_F(ClusterFeedTest, ReadersAreLimitedAndMakeRoomWhenTheyLeave) {
    options_.limits.max_event_readers = 2;
    Reader first(port());
    {
        Reader second(port());
        EXPECT_EQ(second.head().status, 200);
        EXPECT_EQ(Reader(port()).head().status, 503);
    }
    int status = 503;
    for (int i = 0; i < 1000 && status != 200; ++i) status = Reader(port()).head().status;
    EXPECT_EQ(status, 200);
}

// What waits for it does not grow, and it misses no state when it reads on.
TEST_F(ClusterFeedTest, ASlowReaderIsToldEverythingOnceItReads) {
    // Here the clock goes on by itself, so that it is looked at who has read.
    options_.clock = [this] { return base::TimePoint{now_ns_ += base::from_ms(5).ns}; };
    options_.http.send_buffer_bytes = 4096;
    options_.http.max_queued_bytes = std::size_t{256} << 10U;
    // On a busy machine the quick one takes its time.
    options_.http.write_timeout = base::from_seconds(600);
    core::ClusterView view = two_workers();
    for (std::uint32_t id = 3; id < 150; ++id) {
        view.workers.push_back(worker(id, std::string(400, 'n'), {}));
    }
    service_.set_view(view);
    Reader slow(port(), 4096);
    Reader quick(port());
    ASSERT_TRUE(quick.next());
    for (int i = 1; i <= 40; ++i) {
        for (core::WorkerView& one : view.workers) one.rows = i;
        show(view);
        const auto event = quick.next();
        ASSERT_TRUE(event);
        ASSERT_EQ(event->data["workers"]["149"]["rows"], i) << "it is not kept waiting";
    }
    std::int64_t rows = 0;
    int events = 0;
    while (rows != 41) {
        const auto event = slow.next();
        ASSERT_TRUE(event) << "it was disconnected";
        ++events;
        if (event->name == "cluster" && event->data["workers"]["149"]["rows"] == 40) {
            for (core::WorkerView& one : view.workers) one.rows = 41;
            show(view);
        }
        const auto& all = event->data["workers"];
        if (all.contains("149")) rows = all["149"].value("rows", std::int64_t{0});
    }
    EXPECT_LT(events, 10) << "changes waited for it";
}

TEST_F(ClusterFeedTest, AFeedEndsWithTheServer) {
    Reader reader(port());
    ASSERT_TRUE(reader.next());
    server_->stop(base::from_seconds(5));
    EXPECT_FALSE(reader.next());
}

TEST_F(ClusterFeedTest, TheHeadAloneIsNoFeed) {
    if (!server_) start();
    auto c = client();
    c.request("HEAD", "/helix/events");
    const auto response = c.read_response(false);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("content-type"), "text/event-stream");
}

TEST(MergePatch, SaysWhatBecameOfEachMember) {
    const Json before = {{"same", 1},       {"other", 1}, {"gone", 1}, {"in", {{"a", 1}, {"b", 2}}},
                         {"null", nullptr}, {"nulled", 1}};
    Json after = {{"same", 1},         {"other", 2},      {"in", {{"a", 1}, {"b", 3}}},
                  {"new", {{"c", 1}}}, {"null", nullptr}, {"nulled", nullptr}};
    const Json patch = merge_patch_between(before, after);
    EXPECT_EQ(patch, (Json{{"other", 2},
                           {"gone", nullptr},
                           {"in", {{"b", 3}}},
                           {"new", {{"c", 1}}},
                           {"nulled", nullptr}}));
    Json patched = before;
    patched.merge_patch(patch);
    patched.erase("null");
    after.erase("null");
    after.erase("nulled");
    EXPECT_EQ(patched, after);
    EXPECT_TRUE(merge_patch_between(after, after).empty());
}

}  // namespace
}  // namespace helix::api::cluster_feed_test
