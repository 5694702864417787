// Roles of keys, and sessions: who may do what by a key and by the cookie that stands for it.

#include "api/sessions.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "api/guard.h"
#include "api/routes.h"
#include "api/session_cookie.h"
#include "api_fixture.h"
#include "base/temp_folder.h"
#include "net/private_file.h"

namespace helix::api::session_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Header = std::pair<std::string, std::string>;

constexpr base::TimePoint kStart{1'000'000'000'000};
constexpr const char* kElsewhere = "192.0.2.9";
const Header kJson = {"content-type", "application/json"};
const Header kOurPage = {"x-helix-page", "1"};
const Header kOurOrigin = {"origin", "http://192.0.2.7:8080"};

net::HttpRequest request(const std::string& method, const std::string& path,
                         net::HttpHeaders headers = {}) {
    net::HttpRequest r;
    r.method = method;
    r.path = path;
    r.headers = std::move(headers);
    r.headers.emplace_back("host", "192.0.2.7:8080");
    r.peer = kElsewhere;
    if (method == "POST") r.body = "{}";
    return r;
}
Header bearer(const std::string& key) {
    return {"authorization", "Bearer " + key};
}
// What a browser sends back of a Set-Cookie.
Header cookie_of(const std::string& set_cookie) {
    return {"cookie", "theme=dark; " + set_cookie.substr(0, set_cookie.find(';'))};
}

int status(Guard& guard, const net::HttpRequest& r, base::TimePoint now = kStart) {
    const Passage passage = guard.check(now, r);
    return passage.response ? passage.response->status : 0;
}

// A guard with a key of each role: "looks", "talks" and "boss".
class SessionTest : public ::testing::Test {
  protected:
    SessionTest() {
        write("wall looks role=view\nalice talks requests_per_minute=7\n");
        options_.api_key_files = {file()};
        options_.admin_keys = {"boss"};
    }
    std::string file() const { return folder_.path() + "/keys"; }
    void write(const std::string& text) const {
        ASSERT_TRUE(net::replace_private(file(), text).ok());
    }
    Guard& guard() {
        if (!guard_) {
            auto made = Guard::create({}, options_);
            EXPECT_TRUE(made.ok()) << made.error().message;
            guard_ = std::move(*made);
        }
        return *guard_;
    }
    // The cookie of a new session.
    Header log_in(const std::string& key, base::TimePoint now = kStart) {
        const Guard::LogIn in = guard().log_in(now, request("POST", "/helix/session"), key);
        EXPECT_FALSE(in.refused) << in.refused->message;
        return cookie_of(in.cookie);
    }

    TempFolder folder_;
    AccessOptions options_;
    std::unique_ptr<Guard> guard_;
};

// For each route which roles it is for. A route that is added must be added here, too, by somebody
// who has thought about it.
const std::map<std::string, Role>& least_roles() {
    static const std::map<std::string, Role> roles = {
        {"POST /chat/completions", Role::chat},
        {"POST /completions", Role::chat},
        {"POST /embeddings", Role::chat},
        {"POST /rerank", Role::chat},
        {"POST /v2/rerank", Role::chat},
        {"POST /score", Role::chat},
        {"POST /responses", Role::chat},
        {"GET /responses/{id}", Role::chat},
        {"DELETE /responses/{id}", Role::chat},
        {"POST /messages", Role::chat},
        {"POST /messages/count_tokens", Role::chat},
        {"POST /api/chat", Role::chat},
        {"POST /api/generate", Role::chat},
        {"POST /api/embed", Role::chat},
        {"POST /api/embeddings", Role::chat},
        {"GET /api/tags", Role::view},
        {"GET /api/ps", Role::view},
        {"POST /api/show", Role::chat},
        {"GET /api/version", Role::view},
        {"GET /models", Role::view},
        {"GET /models/{id...}", Role::view},
        {"POST /tokenize", Role::chat},
        {"POST /detokenize", Role::chat},
        {"POST /files", Role::chat},
        {"GET /files", Role::chat},
        {"GET /files/{id}", Role::chat},
        {"DELETE /files/{id}", Role::chat},
        {"GET /files/{id}/content", Role::chat},
        {"POST /batches", Role::chat},
        {"GET /batches", Role::chat},
        {"GET /batches/{id}", Role::chat},
        {"POST /batches/{id}/cancel", Role::chat},
        {"GET /props", Role::view},
        {"GET /slots", Role::view},
        {"GET /", Role::none},
        {"GET /assets/{name}", Role::none},
        {"GET /health", Role::none},
        {"GET /health/ready", Role::none},
        {"GET /health/live", Role::none},
        {"GET /metrics", Role::view},
        {"GET /openapi.json", Role::none},
        {"GET /version", Role::view},
        {"GET /helix/models", Role::chat},
        {"GET /helix/models/{file...}", Role::chat},
        {"GET /helix/session", Role::none},
        {"POST /helix/session", Role::none},
        {"DELETE /helix/session", Role::none},
        {"GET /helix/cluster", Role::view},
        {"GET /helix/events", Role::view},
        {"GET /helix/history", Role::view},
        {"GET /helix/nodes", Role::view},
        {"POST /helix/nodes/{call...}", Role::admin},
        {"POST /helix/requests/{call...}", Role::admin},
        {"GET /helix/what-if", Role::view},
        {"POST /helix/what-if", Role::view},
        {"GET /helix/joining", Role::view},
        {"POST /helix/keys", Role::admin},
        {"POST /helix/pairing", Role::admin},
        {"GET /helix/pairing", Role::admin},
        {"DELETE /helix/pairing", Role::admin},
        {"POST /helix/pairing/begin", Role::none},
        {"POST /helix/pairing/finish", Role::none},
        {"GET /helix/join", Role::none},
        {"GET /helix/plan", Role::view},
        {"POST /helix/plan", Role::admin},
        {"GET /helix/plan.svg", Role::view},
    };
    return roles;
}

std::string name_of(const Route& route) {
    return std::string(route.method) + " " + std::string(route.path);
}

TEST(Roles, EveryRouteSaysWhichOneItIsFor) {
    std::set<std::string> routes;
    for (const Route& route : all_routes()) {
        routes.insert(name_of(route));
        EXPECT_TRUE(least_roles().contains(name_of(route)))
            << name_of(route) << " is new: say in least_roles() who may use it";
    }
    for (const auto& [name, role] : least_roles()) {
        EXPECT_TRUE(routes.contains(name)) << name << " is no route any more";
    }
}

// What the guard says to a request for this route with these headers, and a body of the right type.
int status_of(Guard& guard, const Route& route, net::HttpHeaders headers) {
    std::string path = std::string(route.prefix) + std::string(route.path);
    if (const std::size_t open = path.find('{'); open != std::string::npos) {
        path.replace(open, path.find('}') - open + 1, "x");
    }
    headers.push_back(path == "/v1/files" && route.method == "POST"
                          ? Header{"content-type", "multipart/form-data; boundary=B"}
                          : kJson);
    return status(guard, request(std::string(route.method), path, std::move(headers)));
}

TEST_F(SessionTest, EachRoleMayDoWhatTheTableSaysByItsKeyAndByItsSession) {
    const std::vector<std::pair<Role, std::string>> keys = {
        {Role::view, "looks"}, {Role::chat, "talks"}, {Role::admin, "boss"}};
    for (const Route& route : all_routes()) {
        const auto least = least_roles().find(name_of(route));
        if (least == least_roles().end()) continue;  // the test above says so
        const bool open = least->second == Role::none;
        EXPECT_EQ(status_of(guard(), route, {}), open ? 0 : 401) << name_of(route);
        for (const auto& [role, key] : keys) {
            const std::string what = name_of(route) + " with " + key;
            const int by_key = status_of(guard(), route, {bearer(key)});
            EXPECT_EQ(by_key == 0, role >= least->second) << what << ": " << by_key;
            if (role == Role::view && least->second == Role::chat) {
                EXPECT_EQ(by_key, 403) << what;
            }
            // Sessions are begun anew, since one of these routes ends them.
            const Header cookie = log_in(key);
            EXPECT_EQ(status_of(guard(), route, {cookie, kOurPage, kOurOrigin}), by_key) << what;
        }
    }
}

TEST_F(SessionTest, APathThatIsNoRouteIsNotForThoseWhoMayOnlyLook) {
    for (const char* path : {"/v1/whatever", "/v1/modelsx", "/version/x", "/api/tagsx"}) {
        EXPECT_EQ(status(guard(), request("GET", path, {bearer("looks")})), 403) << path;
    }
    EXPECT_EQ(status(guard(), request("POST", "/v1/models", {kJson, bearer("looks")})), 403);
    EXPECT_EQ(status(guard(), request("POST", "/helix/whatever", {kJson, bearer("talks")})), 401);
}

TEST_F(SessionTest, AKeyThatMayOnlyLookAdministratesNothingOnItsOwnMachine) {
    options_.admin_keys.clear();
    net::HttpRequest drain = request("POST", "/helix/nodes/den/drain", {kJson, bearer("looks")});
    drain.peer = "127.0.0.1";
    EXPECT_EQ(status(guard(), drain), 401);
    net::HttpRequest by_chat = request("POST", "/helix/nodes/den/drain", {kJson, bearer("talks")});
    by_chat.peer = "127.0.0.1";
    EXPECT_EQ(status(guard(), by_chat), 0);
}

TEST_F(SessionTest, AnUnknownRoleIsNamedWithFileAndLine) {
    write("alice talks\nwall looks role=king\n");
    const auto made = Guard::create({}, options_);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().message, file() + ":2: the role of a key here is view or chat");
}

TEST_F(SessionTest, TheCookieCannotBeReadByScriptsNorSentForOtherSites) {
    const Guard::LogIn in = guard().log_in(kStart, request("POST", "/helix/session"), "talks");
    EXPECT_THAT(in.cookie, StartsWith("helix_session_8080="));
    EXPECT_THAT(in.cookie, HasSubstr("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"));
    EXPECT_EQ(in.cookie.find("Secure"), std::string::npos) << "it is plain HTTP";
    EXPECT_EQ(in.cookie.find("talks"), std::string::npos);
    EXPECT_EQ(in.cookie.find(';'), std::string("helix_session_8080=").size() + 64) << "256 bits";
    EXPECT_EQ(in.standing.role, Role::chat);
    EXPECT_EQ(in.standing.label, "alice");
    EXPECT_TRUE(in.standing.session);
    const auto proxied = request("POST", "/helix/session", {{"x-forwarded-proto", "https"}});
    EXPECT_THAT(guard().log_in(kStart, proxied, "talks").cookie, HasSubstr("; Secure"));
    auto secure = Guard::create({"talks"}, {}, true);
    ASSERT_TRUE(secure.ok());
    EXPECT_THAT((*secure)->log_in(kStart, request("POST", "/helix/session"), "talks").cookie,
                HasSubstr("; Secure"));
}

TEST_F(SessionTest, CookiesOfServersOnOtherPortsOfTheHostAreTheirs) {
    const auto name = [](const std::string& host) {
        net::HttpRequest r;
        r.headers = {{"host", host}};
        return session_cookie_name(r);
    };
    EXPECT_EQ(name("hall:8080"), "helix_session_8080");
    EXPECT_EQ(name("[::1]:81"), "helix_session_81");
    for (const char* host : {"hall", "192.0.2.7", "[::1]", "", "hall:", ":x", "hall:1234567"}) {
        EXPECT_EQ(name(host), "helix_session") << host;
    }
    net::HttpRequest r;
    r.headers = {{"host", "hall:81"},
                 {"cookie", "helix_session_8=a;helix_session_81=b ; xhelix_session_81=c;x; =d"},
                 {"cookie", "helix_session_81=e"}};
    EXPECT_EQ(session_ids(r), (std::vector<std::string_view>{"b", "e"}));
    r.headers[1].second = "";
    for (int i = 0; i < 100; ++i) r.headers[1].second += "helix_session_81=x;";
    EXPECT_EQ(session_ids(r).size(), 8U);
}

TEST_F(SessionTest, ARequestThatChangesSomethingByCookieMustComeFromOurPage) {
    const Header cookie = log_in("boss");
    const auto post = [&](net::HttpHeaders more) {
        more.push_back(cookie);
        return status(guard(), request("POST", "/helix/nodes/den/drain", std::move(more)));
    };
    const Header same_site = {"sec-fetch-site", "same-origin"};
    EXPECT_EQ(post({kJson, kOurPage, kOurOrigin}), 0);
    EXPECT_EQ(post({kJson, kOurPage, same_site}), 0);
    EXPECT_EQ(post({kJson, kOurPage, kOurOrigin, same_site}), 0);
    EXPECT_EQ(post({kJson, kOurOrigin}), 403) << "without the page's header";
    EXPECT_EQ(post({kJson, {"x-helix-page", "2"}, kOurOrigin}), 403);
    EXPECT_EQ(post({kJson, kOurPage}), 403) << "the browser does not say where from";
    EXPECT_EQ(post({kJson, kOurPage, {"sec-fetch-site", "none"}}), 403);
    for (const char* site : {"same-site", "cross-site"}) {
        EXPECT_EQ(post({kJson, kOurPage, {"sec-fetch-site", site}}), 403) << site;
        EXPECT_EQ(post({kJson, kOurPage, kOurOrigin, {"sec-fetch-site", site}}), 403) << site;
    }
    for (const char* origin : {"http://192.0.2.7:9000", "http://evil.example", "null"}) {
        EXPECT_EQ(post({kJson, kOurPage, {"origin", origin}}), 403) << origin;
    }
    for (const char* type : {"text/plain", "application/x-www-form-urlencoded", ""}) {
        EXPECT_EQ(post({{"content-type", type}, kOurPage, kOurOrigin}), 415) << type;
    }
    net::HttpRequest bare = request("DELETE", "/v1/files/file-1", {cookie, kOurPage, kOurOrigin});
    EXPECT_EQ(status(guard(), bare), 415) << "also where there is no body";
    EXPECT_EQ(status(guard(),
                     request("DELETE", "/v1/files/file-1", {kJson, cookie, kOurPage, kOurOrigin})),
              0);
    EXPECT_EQ(status(guard(), request("DELETE", "/helix/session", {kJson, cookie, kOurOrigin})),
              403)
        << "nobody else logs one out";
}

TEST_F(SessionTest, APageThatMayUseTheApiDoesNotUseTheVisitorsSession) {
    options_.cors_origins = {"https://chat.example"};
    const Header cookie = log_in("talks");
    const Header page = {"origin", "https://chat.example"};
    EXPECT_EQ(status(guard(), request("POST", "/v1/completions", {kJson, kOurPage, cookie, page})),
              403);
    EXPECT_EQ(status(guard(), request("GET", "/v1/models", {cookie, page})), 401);
    EXPECT_EQ(status(guard(), request("GET", "/v1/models", {bearer("talks"), page})), 0);
    EXPECT_EQ(guard().check(kStart, request("GET", "/v1/models", {page})).allow_origin,
              "https://chat.example")
        << "it may read the list, with a key of its own";
    EXPECT_EQ(
        status(guard(), request("GET", "/v1/models", {cookie, {"sec-fetch-site", "same-site"}})),
        401);
    EXPECT_EQ(status(guard(), request("GET", "/", {cookie, {"sec-fetch-site", "same-site"}})), 0)
        << "a link to the page leads there";
}

TEST_F(SessionTest, AKeyThatIsSentCountsAndNotTheCookie) {
    const Header boss = log_in("boss");
    const auto drain = [&](net::HttpHeaders more) {
        more.push_back(boss);
        more.push_back(kJson);
        return status(guard(), request("POST", "/helix/nodes/den/drain", std::move(more)));
    };
    EXPECT_EQ(drain({bearer("talks"), kOurPage, kOurOrigin}), 401);
    EXPECT_EQ(drain({{"x-api-key", "talks"}, kOurPage, kOurOrigin}), 401);
    EXPECT_EQ(drain({bearer("wrong"), kOurPage, kOurOrigin}), 401);
    EXPECT_EQ(drain({bearer("boss")}), 0) << "a program needs no header of the page";
    const Header alice = log_in("talks");
    const Passage passage = guard().check(kStart, request("GET", "/v1/models", {alice}));
    EXPECT_EQ(passage.key, "alice");
    EXPECT_EQ(passage.limits.requests_per_minute, 7);
    EXPECT_EQ(guard().key_of(kStart, request("GET", "/v1/models", {alice})), "alice");
}

TEST_F(SessionTest, ASessionDoesNotOpenUnknownNamesOfTheServer) {
    net::HttpRequest r = request("GET", "/helix/cluster", {log_in("boss")});
    for (auto& [name, value] : r.headers) {
        if (name == "host") value = "evil.example:8080";
    }
    EXPECT_EQ(status(guard(), r), 421);
}

TEST_F(SessionTest, ASessionThatNobodyUsesIsOverAndOneThatIsUsedIsNot) {
    const base::Duration day = base::from_seconds(24 * 3600);
    const Header cookie = log_in("looks");
    const auto look = [&](base::TimePoint now) {
        return status(guard(), request("GET", "/helix/cluster", {cookie}), now);
    };
    base::TimePoint now = kStart;
    for (int i = 0; i < 5; ++i) {
        now = now + day * 30;
        EXPECT_EQ(look(now), 0) << i;
        EXPECT_EQ(guard().standing(now, request("GET", "/helix/session", {cookie})).role,
                  Role::view);
    }
    now = now + day * 30 + base::from_seconds(1);
    EXPECT_EQ(look(now), 401);
    EXPECT_EQ(look(kStart), 0) << "it is still known, so what ended it was time";
    guard().on_tick(now);
    EXPECT_EQ(look(kStart), 401) << "and now it is forgotten";
    EXPECT_THAT(guard().renewed_cookie(now, request("GET", "/helix/session", {cookie})),
                HasSubstr("Max-Age=0"));
}

TEST_F(SessionTest, TheCookieLastsAsLongAsTheSession) {
    const Header cookie = log_in("looks");
    const auto renewed = guard().renewed_cookie(kStart, request("GET", "/x", {cookie}));
    EXPECT_THAT(renewed, StartsWith(cookie.second.substr(cookie.second.find("helix"))));
    EXPECT_THAT(renewed, HasSubstr("Max-Age=2592000"));
    EXPECT_EQ(guard().renewed_cookie(kStart, request("GET", "/x")), "");
    EXPECT_EQ(guard().renewed_cookie(
                  kStart, request("GET", "/x", {cookie, {"origin", "http://evil.example"}})),
              "");
}

TEST_F(SessionTest, ASessionEndsWithItsKeyAndFollowsItsRole) {
    const Header wall = log_in("looks");
    const Header alice = log_in("talks");
    const auto chat = [&](const Header& who) {
        return status(guard(),
                      request("POST", "/v1/completions", {kJson, kOurPage, kOurOrigin, who}));
    };
    EXPECT_EQ(chat(wall), 403);
    EXPECT_EQ(chat(alice), 0);
    base::TimePoint now = kStart;
    const auto take_up = [&](const std::string& text) {
        write(text);
        for (int i = 0; i < 3; ++i) guard().on_tick(now = now + base::from_seconds(61));
    };
    take_up("wall looks\n");
    EXPECT_EQ(chat(wall), 0) << "the key may chat now";
    EXPECT_EQ(chat(alice), 401) << "the key is gone";
    take_up("wall looks\nalice talks\n");
    EXPECT_EQ(chat(alice), 401) << "a session that ended does not come back";
    EXPECT_EQ(chat(log_in("talks")), 0);
}

TEST_F(SessionTest, WhoLogsOutOrLogsInAnewLeavesNoSessionBehind) {
    const Header first = log_in("talks");
    EXPECT_EQ(status(guard(), request("GET", "/v1/models", {first})), 0);
    const auto in = guard().log_in(
        kStart, request("POST", "/helix/session", {first, kOurPage, kOurOrigin}), "boss");
    ASSERT_FALSE(in.refused);
    EXPECT_EQ(in.standing.role, Role::admin);
    EXPECT_EQ(status(guard(), request("GET", "/v1/models", {first})), 401);
    const Header second = cookie_of(in.cookie);
    EXPECT_EQ(status(guard(), request("GET", "/v1/models", {second})), 0);
    EXPECT_THAT(guard().log_out(request("DELETE", "/helix/session", {second})),
                StartsWith("helix_session_8080=; Path=/; Max-Age=0"));
    EXPECT_EQ(status(guard(), request("GET", "/v1/models", {second})), 401);
}

TEST_F(SessionTest, WrongKeysCostTheSameWhereOneLogsIn) {
    const auto try_key = [&](const std::string& key, base::TimePoint now) {
        const auto in = guard().log_in(now, request("POST", "/helix/session"), key);
        return in.refused ? in.refused->status : 0;
    };
    base::TimePoint now = kStart;
    const Header session = log_in("boss");
    // Tries in headers and at the log-in are counted together.
    for (int i = 0; i <= KeyThrottle::kFreeTries; ++i) {
        if (i % 2 == 0) {
            EXPECT_EQ(try_key("guess", now), 401) << i;
        } else {
            EXPECT_EQ(status(guard(), request("GET", "/v1/models", {bearer("guess")}), now), 401);
        }
    }
    for (const std::int64_t wait_s : {1, 2, 4, 8}) {
        const auto in = guard().log_in(now, request("POST", "/helix/session"), "talks");
        ASSERT_TRUE(in.refused);
        EXPECT_EQ(in.refused->status, 429) << "a right guess is not told";
        EXPECT_EQ(in.refused->retry_after_s, wait_s);
        EXPECT_EQ(status(guard(), request("GET", "/v1/models", {bearer("talks")}), now), 429);
        now = now + base::from_seconds(static_cast<double>(wait_s));
        EXPECT_EQ(try_key("guess", now), 401);
    }
    EXPECT_EQ(status(guard(), request("GET", "/helix/cluster", {session}), now), 0)
        << "who has logged in goes on";
    EXPECT_EQ(try_key("talks", now + base::from_seconds(16)), 0);
    // A cookie of a server that was started anew is no guess.
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(status(guard(),
                         request("GET", "/v1/models", {{"cookie", "helix_session_8080=x"}}), now),
                  401);
    }
    EXPECT_EQ(try_key("looks", now + base::from_seconds(16)), 0);
}

TEST_F(SessionTest, NobodyTriesKeysByAskingWhatTheyMayDo) {
    const auto ask = [&](const std::string& key) {
        return status(guard(), request("GET", "/helix/session", {bearer(key)}));
    };
    for (int i = 0; i <= KeyThrottle::kFreeTries; ++i) EXPECT_EQ(ask("guess"), 401) << i;
    EXPECT_EQ(ask("talks"), 429);
    EXPECT_EQ(status(guard(), request("GET", "/helix/session")), 0) << "no key is no guess";
}

TEST_F(SessionTest, WithoutKeysNothingIsAskedAndWhoIsHereIsAdmin) {
    auto open = Guard::create({}, {});
    ASSERT_TRUE(open.ok());
    net::HttpRequest r = request("GET", "/helix/session");
    EXPECT_EQ((*open)->standing(kStart, r).role, Role::chat) << "from elsewhere";
    EXPECT_FALSE((*open)->standing(kStart, r).api_keys);
    r.peer = "127.0.0.1";
    EXPECT_EQ((*open)->standing(kStart, r).role, Role::admin);
    const auto in = (*open)->log_in(kStart, request("POST", "/helix/session"), "any");
    ASSERT_TRUE(in.refused);
    EXPECT_EQ(in.refused->code, "no_keys");
    // With keys, who brings none may do nothing that the page needs, here or elsewhere.
    EXPECT_EQ(guard().standing(kStart, r).role, Role::none);
    EXPECT_TRUE(guard().standing(kStart, r).api_keys);
    EXPECT_TRUE(guard().standing(kStart, r).admin_keys);
}

TEST(Sessions, AreBoundedForEachKeyAndInAllAndTheOneLeastUsedGoes) {
    Sessions sessions;
    const net::SecretHash busy = net::hash_secret("busy");
    const auto at = [](std::size_t i) {
        return base::TimePoint{kStart.ns + static_cast<std::int64_t>(i)};
    };
    sessions.begin(at(0), "other", net::hash_secret("other"));
    for (std::size_t i = 0; i < Sessions::kMostOfAKey; ++i) {
        sessions.begin(at(i), std::to_string(i), busy);
    }
    sessions.used(at(1000), "0");
    sessions.begin(at(1001), "one more", busy);
    EXPECT_EQ(sessions.size(), Sessions::kMostOfAKey + 1);
    EXPECT_TRUE(sessions.find(at(1001), "0")) << "it was used";
    EXPECT_FALSE(sessions.find(at(1001), "1")) << "it was used longest ago";
    EXPECT_TRUE(sessions.find(at(1001), "other")) << "one key does not log out another";
    for (std::size_t i = 0; i < Sessions::kMost + 10; ++i) {
        const std::string name = "key" + std::to_string(i);
        sessions.begin(at(2000 + i), name, net::hash_secret(name));
    }
    EXPECT_EQ(sessions.size(), Sessions::kMost);
    EXPECT_FALSE(sessions.find(at(9000), "other"));
    sessions.clean(at(9000), [](const net::SecretHash&) { return false; });
    EXPECT_EQ(sessions.size(), 0U);
}

// The same over HTTP: log in, look, be refused, log out.
TEST_F(ApiTest, ABrowserLogsInOnceAndOut) {
    const TempFolder folder;
    const std::string keys = folder.path() + "/keys";
    ASSERT_TRUE(net::replace_private(keys, "wall looks role=view\nalice talks\n").ok());
    options_.access.api_key_files = {keys};
    options_.access.admin_keys = {"boss"};
    const Json nobody = Json::parse(get("/helix/session").body);
    EXPECT_EQ(nobody, Json::parse(R"({"role":"none","label":"","session":false,"api_keys":true,
                                      "admin_keys":true})"));
    EXPECT_EQ(post("/helix/session", R"({"key":"wrong"})").status, 401);
    EXPECT_EQ(post("/helix/session", R"({"key":7})").status, 400);
    EXPECT_EQ(
        post("/helix/session", R"({"key":"looks"})", "origin: http://evil.example\r\n").status,
        403);
    EXPECT_EQ(post("/helix/session", R"({"key":"looks"})", "content-type: text/plain\r\n").status,
              415);
    const auto in = post("/helix/session", R"({"key":"looks"})");
    EXPECT_EQ(in.status, 200);
    EXPECT_EQ(in.header("cache-control"), "no-store");
    EXPECT_EQ(Json::parse(in.body)["role"], "view");
    EXPECT_EQ(in.body.find("looks"), std::string::npos);
    const std::string cookie = "cookie: " + cookie_of(in.header("set-cookie")).second + "\r\n";
    const Json here = Json::parse(get("/helix/session", cookie).body);
    EXPECT_EQ(here["role"], "view");
    EXPECT_EQ(here["label"], "wall");
    EXPECT_EQ(here["session"], true);
    EXPECT_EQ(get("/v1/models", cookie).status, 200);
    const std::string page = cookie + "x-helix-page: 1\r\nsec-fetch-site: same-origin\r\n";
    const auto refused = post("/v1/completions", R"({"prompt":"a"})", page);
    EXPECT_EQ(refused.status, 403);
    EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "view_only");
    auto c = client();
    c.request("DELETE", "/helix/session", {}, page + "content-type: application/json\r\n");
    const auto out = c.read_response();
    EXPECT_EQ(out.status, 204);
    EXPECT_THAT(out.header("set-cookie"), HasSubstr("Max-Age=0"));
    EXPECT_EQ(get("/v1/models", cookie).status, 401);
    EXPECT_THAT(get("/helix/session", cookie).header("set-cookie"), HasSubstr("Max-Age=0"))
        << "a cookie that is worth nothing is to be forgotten";
}

}  // namespace
}  // namespace helix::api::session_test
