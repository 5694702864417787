#include "api/guard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/access_log.h"
#include "api_fixture.h"
#include "base/temp_folder.h"
#include "net/private_file.h"

namespace helix::api::guard_test {
namespace {

constexpr base::TimePoint kStart{1'000'000'000'000};

net::HttpRequest request(const std::string& method, const std::string& path,
                         net::HttpHeaders headers = {}, const std::string& peer = "127.0.0.1") {
    net::HttpRequest r;
    r.method = method;
    r.path = path;
    r.headers = std::move(headers);
    const bool told = std::any_of(r.headers.begin(), r.headers.end(),
                                  [](const auto& header) { return header.first == "host"; });
    if (!told) r.headers.emplace_back("host", "127.0.0.1:8080");
    r.peer = peer;
    if (method == "POST") r.body = "{}";
    return r;
}

constexpr const char* kElsewhere = "192.0.2.9";
const std::pair<std::string, std::string> kJson = {"content-type", "application/json"};
std::pair<std::string, std::string> key(const std::string& text) {
    return {"authorization", "Bearer " + text};
}

std::unique_ptr<Guard> guard(std::vector<std::string> api_keys = {},
                             const AccessOptions& options = {}) {
    auto made = Guard::create(std::move(api_keys), options);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(*made);
}

AccessOptions with_admin() {
    AccessOptions options;
    options.admin_keys = {"boss"};
    return options;
}

// The status of the guard's answer; 0 = the request passes.
int status(Guard& guard, const net::HttpRequest& r, base::TimePoint now = kStart) {
    const Passage passage = guard.check(now, r);
    return passage.response ? passage.response->status : 0;
}

TEST(Guard, AWebPageOfAnotherOriginChangesNothing) {
    const auto g = guard();
    for (const char* path :
         {"/helix/nodes/den/drain", "/v1/helix/nodes/den/drain", "/helix/requests/cmpl-1/move",
          "/v1/completions", "/tokenize", "/v1/batches"}) {
        EXPECT_EQ(status(*g, request("POST", path, {kJson})), 0) << path;
        for (const char* origin :
             {"http://evil.example", "null", "http://127.0.0.1:9090", "http://127.0.0.1",
              "https://127.0.0.1:8080.evil.example", "file://127.0.0.1:8080"}) {
            EXPECT_EQ(status(*g, request("POST", path, {kJson, {"origin", origin}})), 403)
                << path << " " << origin;
        }
        EXPECT_EQ(status(*g, request("POST", path, {kJson, {"origin", "http://127.0.0.1:8080"}})),
                  0);
        for (const char* site : {"cross-site", "same-site"}) {
            EXPECT_EQ(status(*g, request("POST", path, {kJson, {"sec-fetch-site", site}})), 403);
        }
        EXPECT_EQ(status(*g, request("POST", path, {kJson, {"sec-fetch-site", "same-origin"}})), 0);
        // What a page can send without a preflight.
        for (const char* type : {"text/plain", "application/x-www-form-urlencoded",
                                 "multipart/form-data; boundary=B", ""}) {
            EXPECT_EQ(status(*g, request("POST", path, {{"content-type", type}})), 415)
                << path << " " << type;
        }
        EXPECT_EQ(status(*g, request("POST", path, {{"content-type", "Application/JSON ; x=y"}})),
                  0);
    }
    EXPECT_EQ(
        status(*g, request("DELETE", "/v1/files/file-1", {{"origin", "http://evil.example"}})),
        403);
}

TEST(Guard, AnAdminCallNamesItsTypeAlsoWithoutABody) {
    const auto g = guard();
    net::HttpRequest bare = request("POST", "/helix/nodes/den/drain");
    bare.body.clear();
    EXPECT_EQ(status(*g, bare), 415);
    net::HttpRequest cancel = request("POST", "/v1/batches/b/cancel");
    cancel.body.clear();
    EXPECT_EQ(status(*g, cancel), 0) << "as OpenAI's clients send it";
    EXPECT_EQ(status(*g, request("POST", "/v1/files", {kJson})), 415);
    EXPECT_EQ(status(*g, request("POST", "/v1/files",
                                 {{"content-type", "multipart/form-data; boundary=B"}})),
              0);
}

TEST(Guard, AnUnknownNameOfTheServerIsRefusedWithTheFlagThatAllowsIt) {
    const auto g = guard();
    const auto asked = [&](const std::string& host, Guard& by) {
        return status(by, request("GET", "/helix/cluster", {{"host", host}}));
    };
    for (const char* host :
         {"localhost", "LOCALHOST:8080", "localhost.:8080", "127.0.0.1", "127.0.0.1:8080",
          "[::1]:8080", "192.0.2.7:8080", "[2001:db8::7]", "app.localhost:8080"}) {
        EXPECT_EQ(asked(host, *g), 0) << host;
    }
    for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                             "127.0.0.1.evil.example", "::1.evil", "notlocalhost", "[evil]"}) {
        EXPECT_EQ(asked(host, *g), 421) << host;
    }
    const Passage refused =
        g->check(kStart, request("POST", "/helix/nodes/den/drain", {kJson, {"host", "hall:80"}}));
    ASSERT_TRUE(refused.response);
    EXPECT_NE(refused.response->body.find("--host-name hall"), std::string::npos)
        << refused.response->body;
    AccessOptions options;
    options.host_names = {"hall"};
    EXPECT_EQ(asked("Hall:8080", *guard({}, options)), 0);
    // Two names, of which one is known, are no known name.
    EXPECT_EQ(status(*g, request("GET", "/helix/cluster",
                                 {{"host", "localhost"}, {"host", "evil.example"}})),
              421);
    EXPECT_EQ(status(*g, request("GET", "/health/ready", {{"host", "evil.example"}})), 0);
    EXPECT_EQ(status(*g, request("GET", "/helix/join", {{"host", "evil.example"}})), 0);
}

TEST(Guard, WhoBringsAKeyMayUseAnyName) {
    const auto g = guard({"secret"});
    EXPECT_EQ(status(*g, request("POST", "/v1/completions",
                                 {kJson, key("secret"), {"host", "api.example"}}, kElsewhere)),
              0);
    EXPECT_EQ(status(*g, request("POST", "/v1/completions",
                                 {kJson, key("guess"), {"host", "api.example"}}, kElsewhere)),
              421);
}

TEST(Guard, WithoutKeysAdminsAndInternalsAreForThisMachineOnly) {
    const auto g = guard();
    for (const char* path : {"/helix/cluster", "/helix/nodes", "/helix/plan", "/helix/plan.svg",
                             "/metrics", "/v1/metrics", "/v1/helix/cluster"}) {
        EXPECT_EQ(status(*g, request("GET", path)), 0) << path;
        EXPECT_EQ(status(*g, request("GET", path, {}, kElsewhere)), 403) << path;
        EXPECT_EQ(status(*g, request("GET", path, {{"x-forwarded-for", "203.0.113.1"}})), 403)
            << path << " behind a proxy";
    }
    const std::string drain = "/helix/nodes/den/drain";
    EXPECT_EQ(status(*g, request("POST", drain, {kJson})), 0);
    EXPECT_EQ(status(*g, request("POST", drain, {kJson}, "::1")), 0);
    EXPECT_EQ(status(*g, request("POST", drain, {kJson}, kElsewhere)), 403);
    EXPECT_EQ(status(*g, request("POST", drain, {kJson, {"via", "1.1 proxy"}})), 403);
    EXPECT_EQ(status(*g, request("POST", "/helix/whatever/comes", {kJson}, kElsewhere)), 403);
    EXPECT_EQ(status(*g, request("POST", "/v1/completions", {kJson}, kElsewhere)), 0);
}

TEST(Guard, AnAdminKeyIsAskedForEverywhereAndAnApiKeyIsNone) {
    const auto g = guard({"secret"}, with_admin());
    const std::string drain = "/helix/nodes/den/drain";
    for (const char* peer : {"127.0.0.1", kElsewhere}) {
        EXPECT_EQ(status(*g, request("POST", drain, {kJson}, peer)), 401);
        EXPECT_EQ(status(*g, request("POST", drain, {kJson, key("secret")}, peer)), 401);
        EXPECT_EQ(status(*g, request("POST", drain, {kJson, key("boss")}, peer)), 0);
        EXPECT_EQ(status(*g, request("POST", "/v1/completions", {kJson, key("boss")}, peer)), 0)
            << "an admin may do what clients may";
    }
    EXPECT_EQ(status(*g, request("GET", "/metrics", {}, kElsewhere)), 401);
    EXPECT_EQ(status(*g, request("GET", "/metrics", {key("secret")}, kElsewhere)), 0);
    EXPECT_EQ(status(*g, request("GET", "/metrics", {key("boss")}, kElsewhere)), 0);
    EXPECT_EQ(status(*g, request("GET", "/metrics")), 0);
}

TEST(Guard, WithAnApiKeyOnlyAdminsAreOnThisMachineAndBringIt) {
    const auto g = guard({"secret"});
    const std::string drain = "/helix/nodes/den/drain";
    EXPECT_EQ(status(*g, request("POST", drain, {kJson})), 401);
    EXPECT_EQ(status(*g, request("POST", drain, {kJson, key("secret")})), 0);
    EXPECT_EQ(status(*g, request("POST", drain, {kJson, key("secret")}, kElsewhere)), 403);
}

TEST(Guard, PagesOfNamedOriginsUseTheApiAndNothingElse) {
    AccessOptions options = with_admin();
    options.cors_origins = {"https://chat.example"};
    const auto g = guard({"secret"}, options);
    const std::pair<std::string, std::string> page = {"origin", "https://chat.example"};
    const std::pair<std::string, std::string> cross = {"sec-fetch-site", "cross-site"};
    const Passage preflight =
        g->check(kStart, request("OPTIONS", "/v1/completions",
                                 {page, {"access-control-request-headers", "authorization,x-y"}}));
    ASSERT_TRUE(preflight.response);
    EXPECT_EQ(preflight.response->status, 204);
    EXPECT_EQ(preflight.allow_origin, "https://chat.example");
    EXPECT_EQ(preflight.response->headers[1].second, "authorization,x-y");
    const Passage passed =
        g->check(kStart, request("POST", "/v1/completions", {kJson, key("secret"), page, cross}));
    EXPECT_FALSE(passed.response);
    EXPECT_EQ(passed.allow_origin, "https://chat.example");

    for (const char* path : {"/helix/nodes/den/drain", "/v1/helix/nodes/den/drain"}) {
        EXPECT_EQ(status(*g, request("OPTIONS", path, {page})), 403) << path;
        EXPECT_EQ(status(*g, request("POST", path, {kJson, key("boss"), page, cross})), 403);
    }
    for (const char* origin : {"https://chat.example.evil", "http://chat.example", "null"}) {
        EXPECT_EQ(status(*g, request("OPTIONS", "/v1/completions", {{"origin", origin}})), 403);
    }
    EXPECT_EQ(status(*guard(), request("OPTIONS", "/v1/completions", {page})), 403);
    options.cors_origins = {"chat.example"};
    EXPECT_FALSE(Guard::create({}, options).ok());
    options.cors_origins = {"https://chat.example/page"};
    EXPECT_FALSE(Guard::create({}, options).ok());
}

TEST(Guard, WhoGuessesKeysWaitsLongerEachTimeAndOthersDoNot) {
    const auto g = guard({"secret"});
    const auto with = [](const std::string& k, const char* peer) {
        return request("GET", "/v1/models", {key(k)}, peer);
    };
    EXPECT_EQ(status(*g, with("secret", "192.0.2.1")), 0);
    base::TimePoint now = kStart;
    for (int i = 0; i <= KeyThrottle::kFreeTries; ++i) {
        EXPECT_EQ(status(*g, with("guess", kElsewhere), now), 401) << i;
    }
    EXPECT_EQ(status(*g, with("secret", kElsewhere), now), 429) << "a right guess is not told";
    EXPECT_EQ(status(*g, with("secret", "192.0.2.1"), now), 0);
    EXPECT_EQ(status(*g, request("GET", "/v1/models", {}, kElsewhere), now), 401)
        << "no key is no guess";
    std::int64_t pause_s = 0;
    for (const std::int64_t expected : {1, 2, 4, 8, 16, 32, 60, 60}) {
        const Passage waits = g->check(now, with("guess", kElsewhere));
        ASSERT_TRUE(waits.response);
        EXPECT_EQ(waits.response->status, 429);
        for (const auto& [name, value] : waits.response->headers) {
            if (name == "retry-after") pause_s = std::stoll(value);
        }
        EXPECT_EQ(pause_s, expected);
        now = now + base::from_seconds(static_cast<double>(pause_s));
        EXPECT_EQ(status(*g, with("guess", kElsewhere), now), 401);
    }
    EXPECT_EQ(status(*g, with("secret", kElsewhere), now + base::from_seconds(61)), 0);
    EXPECT_EQ(status(*g, with("guess", kElsewhere), now + base::from_seconds(62)), 401);
    EXPECT_EQ(status(*g, with("secret", kElsewhere), now + base::from_seconds(62)), 0)
        << "who has used a key from there goes on";
}

TEST(KeyThrottle, RemembersABoundedNumberOfAddresses) {
    KeyThrottle throttle;
    for (std::size_t i = 0; i < KeyThrottle::kMostAddresses + 100; ++i) {
        throttle.failed({kStart.ns + static_cast<std::int64_t>(i)},
                        fmt::format("10.{}.{}.1", i / 256, i % 256));
    }
    EXPECT_EQ(throttle.addresses(), KeyThrottle::kMostAddresses);
    for (int i = 0; i < 10; ++i) throttle.failed(kStart, fmt::format("2001:db8::{}", i + 1));
    EXPECT_GT(throttle.pause_s(kStart, "2001:db8::ffff"), 0) << "one network is one address";
    EXPECT_EQ(throttle.pause_s(kStart, "2001:db8:1::1"), 0);
}

TEST_F(ApiTest, AWebPageDoesNotDrainAWorker) {
    core::ClusterView view;
    view.serving = true;
    view.workers.emplace_back();
    view.workers[0].node.name = "den";
    service_.set_view(view);
    EXPECT_EQ(post("/helix/nodes/den/remove", "x",
                   "origin: http://evil.example\r\ncontent-type: text/plain\r\n")
                  .status,
              403);
    EXPECT_EQ(post("/helix/nodes/den/remove", "x", "content-type: text/plain\r\n").status, 415);
    auto rebound = client();
    rebound.send(
        "POST /helix/nodes/den/remove HTTP/1.1\r\nhost: evil.example:8080\r\n"
        "content-type: application/json\r\ncontent-length: 0\r\n\r\n");
    EXPECT_EQ(rebound.read_response().status, 421);
    EXPECT_TRUE(service_.drains().empty());
    EXPECT_EQ(post("/helix/nodes/den/remove", "").status, 202);
    EXPECT_EQ(service_.drains().size(), 1U);
}

TEST_F(ApiTest, StreamsToAPageOfANamedOriginSaySo) {
    options_.access.cors_origins = {"https://chat.example"};
    const std::string page = "origin: https://chat.example\r\nsec-fetch-site: cross-site\r\n";
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","max_tokens":1,"stream":true})", page);
    auto asked = service_.next();
    ASSERT_TRUE(asked);
    asked->say("x");
    asked->finish(core::FinishReason::length);
    const auto answer = c.read_response();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("access-control-allow-origin"), "https://chat.example");
    EXPECT_EQ(get("/helix/cluster", page).header("access-control-allow-origin"), "");
    EXPECT_EQ(get("/v1/models").header("access-control-allow-origin"), "");
}

TEST_F(ApiTest, TheAccessLogSaysWhoDidWhatAndNeverAKey) {
    const TempFolder folder;
    options_.access.log = folder.path() + "/access.log";
    options_.access.admin_keys = {"boss-key"};
    options_.api_keys = {"client-key"};
    const std::string log = options_.access.log;
    const std::string id = "x-request-id: mine-1\r\n";
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":2})",
              "authorization: Bearer client-key\r\n" + id);
    auto asked = service_.next();
    ASSERT_TRUE(asked);
    asked->route();
    asked->say("xy");
    asked->finish(core::FinishReason::length);
    c.read_response();
    post("/helix/nodes/none/drain", "", "authorization: Bearer boss-key\r\n");
    get("/v1/models%0a%22", "authorization: Bearer wrong-key\r\n");
    auto large = client();
    large.send(
        "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999999\r\n\r\n");
    EXPECT_EQ(large.read_response().status, 413);
    auto unfit = client();
    unfit.send("G\"T / nothing\r\n\r\n");
    EXPECT_EQ(unfit.read_response().status, 400);
    ASSERT_EQ(std::filesystem::file_size(log) > 0, true);
    struct stat info = {};
    ASSERT_EQ(::stat(log.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    server_.reset();
    std::ifstream file(log);
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) {
        EXPECT_EQ(line.find("-key\""), std::string::npos) << line;
        lines.push_back(Json::parse(line));
    }
    ASSERT_EQ(lines.size(), 5U);
    EXPECT_EQ(lines[3]["status"], 413);
    EXPECT_EQ(lines[3]["path"], "/v1/completions");
    EXPECT_FALSE(lines[3]["refused"].get<std::string>().empty());
    EXPECT_EQ(lines[4]["status"], 400);
    EXPECT_EQ(lines[4]["peer"], "127.0.0.1");
    EXPECT_FALSE(lines[4].contains("path"));
    EXPECT_EQ(lines[0]["peer"], "127.0.0.1");
    EXPECT_EQ(lines[0]["method"], "POST");
    EXPECT_EQ(lines[0]["path"], "/v1/completions");
    EXPECT_EQ(lines[0]["status"], 200);
    EXPECT_GT(lines[0]["bytes"], 50);
    EXPECT_GE(lines[0]["seconds"], 0);
    EXPECT_EQ(lines[0]["request_id"], "mine-1");
    EXPECT_EQ(lines[0]["prompt_tokens"], 3);
    EXPECT_EQ(lines[0]["completion_tokens"], 2);
    EXPECT_TRUE(lines[0]["key"].get<std::string>().starts_with("key-"));
    EXPECT_TRUE(lines[0]["time"].get<std::string>().ends_with("Z"));
    EXPECT_EQ(lines[1]["admin"], true);
    EXPECT_EQ(lines[1]["status"], 404);
    EXPECT_EQ(lines[2]["status"], 401);
    EXPECT_EQ(lines[2]["path"], "/v1/models\n\"");
    EXPECT_FALSE(lines[2].contains("key"));
}

TEST_F(ApiTest, EveryAdminActionIsALineOfTheProgramsLog) {
    ::testing::internal::CaptureStderr();
    post("/helix/nodes/no%1b[2Jne%0aforged/drain", "");
    get("/helix/nodes");
    post("/helix/nodes/none/drain", "{}", "origin: http://evil.example\r\n");
    server_.reset();
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(
        log.find("admin: no key from 127.0.0.1: POST /helix/nodes/no\\x1b[2Jne\\nforged/drain:"
                 " 404"),
        std::string::npos)
        << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST_F(ApiTest, ARotatedAccessLogIsBegunAnew) {
    const TempFolder folder;
    const std::string log = folder.path() + "/access.log";
    auto opened = AccessLog::open(log);
    ASSERT_TRUE(opened.ok());
    (*opened)->write("one\n");
    std::filesystem::rename(log, log + ".1");
    (*opened)->on_tick(kStart);
    (*opened)->write("two\n");
    EXPECT_EQ(std::filesystem::file_size(log), 4U);
    EXPECT_EQ(std::filesystem::file_size(log + ".1"), 4U);
    EXPECT_FALSE(AccessLog::open(folder.path() + "/none/access.log").ok());
}

TEST_F(ApiTest, KeysOfAFileAreTakenUpWhileItServes) {
    const TempFolder folder;
    const std::string keys = folder.path() + "/keys";
    ASSERT_TRUE(net::replace_private(keys, "first\n").ok());
    options_.access.api_key_files = {keys};
    options_.clock = [] {  // a day in a few seconds
        static std::atomic<std::int64_t> now{kStart.ns};
        return base::TimePoint{now += 1'000'000'000};
    };
    EXPECT_EQ(get("/v1/models", "authorization: Bearer first\r\n").status, 200);
    ASSERT_TRUE(net::replace_private(keys, "second\n").ok());
    int seen = 0;
    for (int i = 0; i < 500 && seen != 200; ++i) {
        seen = get("/v1/models", "authorization: Bearer second\r\n").status;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(seen, 200);
    EXPECT_EQ(get("/v1/models", "authorization: Bearer first\r\n").status, 401);
}

}  // namespace
}  // namespace helix::api::guard_test
