#include "api/guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "api/protocols/protocol.h"
#include "api/session_cookie.h"
#include "base/check.h"
#include "base/escape.h"
#include "base/log.h"
#include "net/http_text.h"

namespace helix::api {
namespace {

using net::HttpRequest;

constexpr base::Duration kKeyFilesEvery = base::from_ms(500);
constexpr base::Duration kLogEvery = base::from_seconds(1);
constexpr base::Duration kCleanEvery = base::from_seconds(60);

bool changes_state(std::string_view method) {
    return method != "GET" && method != "HEAD" && method != "OPTIONS";
}

struct Authority {
    std::string host;  // lower case; an address without brackets
    std::string port;
};

// Parses "HOST", "HOST:PORT" or "[v6]:PORT".
Authority parse_authority(std::string_view text, std::string_view usual_port) {
    Authority out;
    out.port = usual_port;
    const std::size_t bracket = text.rfind(']');
    const std::size_t colon = text.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || bracket < colon)) {
        out.port = text.substr(colon + 1);
        text = text.substr(0, colon);
    }
    if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
        text = text.substr(1, text.size() - 2);
    }
    if (text.ends_with('.')) text.remove_suffix(1);
    out.host = net::lower(text);
    return out;
}

bool is_address(const std::string& host) {
    std::array<std::uint8_t, sizeof(in6_addr)> bytes = {};
    return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool is_loopback_address(std::string_view peer) {
    return peer == "::1" || peer.starts_with("127.");
}

// Whether a request comes from this machine, and was not handed on by a proxy on it.
bool is_local(const HttpRequest& request) {
    if (!is_loopback_address(request.peer)) return false;
    for (const char* passed_on : {"forwarded", "x-forwarded-for", "x-real-ip", "via"}) {
        if (!request.header(passed_on).empty()) return false;
    }
    return true;
}

// Whether the page that sent it and the server that it was sent to have the same origin.
bool is_same_origin(std::string_view origin, std::string_view host) {
    const bool secure = origin.starts_with("https://");
    if (!secure && !origin.starts_with("http://")) return false;
    const std::string_view port = secure ? "443" : "80";
    const Authority page = parse_authority(origin.substr(secure ? 8 : 7), port);
    const Authority here = parse_authority(host, port);
    return !host.empty() && page.host == here.host && page.port == here.port;
}

std::string media_type(std::string_view content_type) {
    std::string type = net::lower(content_type.substr(0, content_type.find(';')));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
    return type;
}

// Whether a body was announced.
bool has_body(const HttpRequest& request) {
    return !request.body_text().empty() || !request.header("transfer-encoding").empty() ||
           (!request.header("content-length").empty() && request.header("content-length") != "0");
}

// The key that a request brings, as OpenAI's clients send it or as Anthropic's do; "" = none.
std::string_view key_in(const HttpRequest& request) {
    std::string_view given = request.header("authorization");
    if (given.empty()) return request.header("x-api-key");
    if (net::lower(given.substr(0, 7)) != "bearer ") return {};
    given.remove_prefix(7);
    while (given.starts_with(' ')) given.remove_prefix(1);
    return given;
}

ApiError refusal(int status, std::string message, std::string code) {
    return {status, std::move(message), "invalid_request_error", "", std::move(code), 0};
}

ApiError too_many_wrong_keys(std::int64_t wait_s) {
    ApiError error =
        refusal(429, "Too many wrong keys came from your address; wait.", "too_many_wrong_keys");
    error.retry_after_s = static_cast<std::int32_t>(wait_s);
    return error;
}

// What may stand behind a key in a file of keys.
constexpr const char* kRequestsPerMinute = "requests_per_minute";
constexpr const char* kTokensPerMinute = "tokens_per_minute";
constexpr const char* kConcurrentRequests = "concurrent_requests";

KeyLimits limits_in(const net::FoundKey& key) {
    KeyLimits limits;
    for (const auto& [name, value] : key.numbers) {
        if (name == kRequestsPerMinute) limits.requests_per_minute = value;
        if (name == kTokensPerMinute) limits.tokens_per_minute = value;
        if (name == kConcurrentRequests) limits.concurrent_requests = value;
    }
    return limits;
}

constexpr const char* kRole = "role";
constexpr const char* kViewRole = "view";

Role role_in(const net::FoundKey& key) {
    for (const auto& [name, value] : key.choices) {
        if (name == kRole && value == kViewRole) return Role::view;
    }
    return Role::chat;
}

// Whether the browser says that a page of another origin sent it.
bool is_from_elsewhere(const HttpRequest& request) {
    const std::string_view origin = request.header("origin");
    const std::string_view site = request.header("sec-fetch-site");
    if (!origin.empty() && !is_same_origin(origin, request.header("host"))) return true;
    return !site.empty() && site != "same-origin" && site != "none";
}

std::string this_machine() {
    std::array<char, 256> name = {};
    if (::gethostname(name.data(), name.size() - 1) != 0) return {};
    return net::lower(name.data());
}

}  // namespace

const char* to_string(Role role) {
    switch (role) {
        case Role::none:
            return "none";
        case Role::view:
            return kViewRole;
        case Role::chat:
            return "chat";
        case Role::admin:
            return "admin";
    }
    CHECK(false);
    return "";
}

std::string_view without_version(std::string_view path) {
    if (path.starts_with("/v1/")) path.remove_prefix(3);
    return path;
}

Access access_of(std::string_view method, std::string_view path) {
    path = without_version(path);
    const bool change = changes_state(method);
    if (path == "/health" || path.starts_with("/health/")) return Access::probe;
    if (path == "/helix/join" && !change) return Access::probe;
    // Here one logs in, so nobody has logged in before.
    if (path == "/helix/session") return Access::session;
    // What is said here is proved by the code. Machines find the server by whatever name.
    if (path == "/helix/pairing/begin" || path == "/helix/pairing/finish") return Access::probe;
    // The code is shown there, also to those who only ask.
    if (path == "/helix/pairing") return Access::admin;
    // It changes nothing, and has what it reads from what others may read.
    if (path == "/helix/what-if") return Access::internals;
    // Who may use a model may have it.
    if ((path == "/helix/models" || path.starts_with("/helix/models/")) && !change) {
        return Access::client;
    }
    if (path == "/helix" || path.starts_with("/helix/")) {
        return change ? Access::admin : Access::internals;
    }
    if (path == "/metrics") return Access::internals;
    // The page itself is no secret; what it asks for is.
    if ((path == "/" || path == "/openapi.json" || path.starts_with("/assets/")) && !change) {
        return Access::open;
    }
    for (const char* known :
         {"/models", "/version", "/props", "/slots", "/api/tags", "/api/ps", "/api/version"}) {
        if (path == known && !change) return Access::look;
    }
    if (path.starts_with("/models/") && !change) return Access::look;
    return Access::client;
}

base::Result<std::unique_ptr<Guard>> Guard::create(std::vector<std::string> api_keys,
                                                   const AccessOptions& options, bool tls) {
    TRY(net::SecretKeys clients,
        net::SecretKeys::load({std::move(api_keys),
                               options.api_key_files,
                               {kRequestsPerMinute, kTokensPerMinute, kConcurrentRequests},
                               {{kRole, {kViewRole, to_string(Role::chat)}}}}));
    TRY(net::SecretKeys admins,
        net::SecretKeys::load({options.admin_keys, options.admin_key_files}));
    for (const std::string& origin : options.cors_origins) {
        const bool scheme = origin.starts_with("http://") || origin.starts_with("https://");
        const std::size_t path = origin.find('/', origin.find("//") + 2);
        if (scheme && path == std::string::npos) continue;
        return base::invalid(fmt::format(
            "--cors-origin: '{}' is no origin; write it like https://chat.example.org", origin));
    }
    return std::unique_ptr<Guard>(new Guard(std::move(clients), std::move(admins), options, tls));
}

Guard::Guard(net::SecretKeys api_keys, net::SecretKeys admin_keys, const AccessOptions& options,
             bool tls)
    : api_keys_(std::move(api_keys)), admin_keys_(std::move(admin_keys)), tls_(tls) {
    host_names_ = {"localhost"};
    if (std::string name = this_machine(); !name.empty()) {
        host_names_.push_back(name.substr(0, name.find('.')));
        host_names_.push_back(std::move(name));
    }
    for (const std::string& name : options.host_names) {
        host_names_.push_back(parse_authority(name, "").host);
    }
    for (const std::string& origin : options.cors_origins) {
        cors_origins_.push_back(net::lower(origin));
    }
}

Guard::Given Guard::given_by(const net::SecretHash& key) const {
    Given given;
    const auto api = api_keys_.find(key);
    const auto admin = admin_keys_.find(key);
    if (api) {
        given.label = api->label;
        given.limits = limits_in(*api);
        given.role = role_in(*api);
    }
    if (admin) {
        given.label = admin->label;
        given.role = Role::admin;
    }
    // Where no keys are asked for a key is not wrong: clients send whatever their library makes
    // them send.
    given.wrong = given.role == Role::none && (api_keys_.configured() || admin_keys_.configured());
    return given;
}

// A cookie that is no session's is no guess of a key, but one from before the server began anew.
Guard::Given Guard::given_by_session(base::TimePoint now, const HttpRequest& request) const {
    for (const std::string_view id : session_ids(request)) {
        const auto key = sessions_.find(now, id);
        if (!key) continue;
        Given given = given_by(*key);
        if (given.role == Role::none) continue;  // the key is none any more
        given.session_id = id;
        return given;
    }
    return {};
}

// Who sends a key is who the key says, whatever cookies the browser adds. What a page of another
// origin has the browser read is read without the session; what it has it change, check_session()
// refuses.
Guard::Given Guard::look_up(base::TimePoint now, const HttpRequest& request) const {
    const std::string_view key = key_in(request);
    if (!key.empty()) return given_by(net::hash_secret(key));
    if (!changes_state(request.method) && is_from_elsewhere(request)) return {};
    return given_by_session(now, request);
}

// A name that is not ours may be an attacker's name that points here (DNS rebinding), so that the
// attacker's page counts as ours in a browser. An address cannot be pointed elsewhere: a page of
// that origin came from this server.
bool Guard::is_known_host(std::string_view host) const {
    const std::string name = parse_authority(host, "").host;
    if (is_address(name) || name.ends_with(".localhost")) return true;
    return std::find(host_names_.begin(), host_names_.end(), name) != host_names_.end();
}

std::optional<ApiError> Guard::check_host(const HttpRequest& request) const {
    for (const auto& [name, value] : request.headers) {
        if (name != "host" || value.empty() || is_known_host(value)) continue;
        return refusal(421,
                       fmt::format("This server does not know itself as '{}'. If it is to be "
                                   "reached under this name, start it with --host-name {}.",
                                   base::escaped(value).substr(0, 300),
                                   base::escaped(parse_authority(value, "").host).substr(0, 300)),
                       "unknown_host");
    }
    return {};
}

bool Guard::is_shared_with(std::string_view origin, std::string_view path) const {
    const Access access = access_of("GET", path);
    return path.starts_with("/v1/") && (access == Access::client || access == Access::look) &&
           std::find(cors_origins_.begin(), cors_origins_.end(), net::lower(origin)) !=
               cors_origins_.end();
}

// Web pages may send requests wherever they like, and only their browser says that they did.
std::optional<ApiError> Guard::check_page(const HttpRequest& request) const {
    const std::string_view origin = request.header("origin");
    const std::string_view site = request.header("sec-fetch-site");
    if (!origin.empty()) {
        if (is_shared_with(origin, request.path)) return {};
        if (is_same_origin(origin, request.header("host"))) return {};
    } else if (site.empty() || site == "same-origin" || site == "none") {
        return {};
    }
    return refusal(403,
                   fmt::format("A web page of another origin ({}) may not do this. --cors-origin "
                               "ORIGIN lets pages of an origin use /v1.",
                               origin.empty() ? "not named" : base::escaped(origin).substr(0, 300)),
                   "cross_origin");
}

std::optional<ApiError> Guard::check_key(const HttpRequest& request, Access access,
                                         const Given& given) const {
    const bool keys = api_keys_.configured() || admin_keys_.configured();
    switch (access) {
        case Access::probe:
        case Access::open:
            return {};
        case Access::session:
            if (!given.wrong) return {};
            return refusal(401, "Incorrect API key provided.", "invalid_api_key");
        case Access::look:
        case Access::client:
            if (!api_keys_.configured() || given.role >= Role::chat) return {};
            if (given.role == Role::none) {
                return refusal(401, "Incorrect API key provided.", "invalid_api_key");
            }
            if (access == Access::look) return {};
            return refusal(403,
                           "This key may only look at the cluster (role=view in the server's "
                           "file of keys).",
                           "view_only");
        case Access::internals:
            if (given.role != Role::none || is_local(request)) return {};
            if (keys) {
                return refusal(401, "This needs an API key or an admin key.", "invalid_api_key");
            }
            return refusal(403,
                           "This is shown on the machine of the server only; elsewhere it needs a "
                           "key (--api-key-file or --admin-key-file of the server).",
                           "denied");
        case Access::admin:
            break;
    }
    if (admin_keys_.configured()) {
        if (given.role == Role::admin) return {};
        return refusal(401, "This needs an admin key (--admin-key-file, HELIX_ADMIN_KEY).",
                       "invalid_admin_key");
    }
    if (!is_local(request)) {
        return refusal(403,
                       "The server has no admin key, so it takes this from its own machine only "
                       "(--admin-key-file of the server).",
                       "denied");
    }
    if (!api_keys_.configured() || given.role >= Role::chat) return {};
    return refusal(401, "This needs the API key: the server has no admin key.", "invalid_api_key");
}

// What a body may grow to when it is unpacked is not known before, so bodies come as they are.
std::optional<ApiError> Guard::check_encoding(const HttpRequest& request) const {
    for (const auto& [name, value] : request.headers) {
        if (name != "content-encoding" || value.empty() || net::lower(value) == "identity")
            continue;
        return refusal(415,
                       fmt::format("The body has the content encoding '{}'. Bodies are taken as "
                                   "they are only: send it without a Content-Encoding.",
                                   base::escaped(value).substr(0, 100)),
                       "unsupported_content_encoding");
    }
    return {};
}

// Browsers send cookies by themselves. SameSite=Strict keeps other sites from making use of that,
// but to it all ports of this machine are one site, so our page says who it is: by its origin and
// by a header that others cannot have sent from elsewhere.
std::optional<ApiError> Guard::check_session(const HttpRequest& request) const {
    const bool named =
        !request.header("origin").empty() || request.header("sec-fetch-site") == "same-origin";
    if (is_from_elsewhere(request) || !named) {
        return refusal(403,
                       "A cookie counts for what this server's own page asks, and the browser does "
                       "not say that this is one (Origin, Sec-Fetch-Site). Programs send the key: "
                       "Authorization: Bearer KEY.",
                       "cross_origin");
    }
    if (request.header("x-helix-page") != "1") {
        return refusal(403,
                       "With a cookie this needs the header X-Helix-Page: 1. Programs send the "
                       "key: Authorization: Bearer KEY.",
                       "no_page_header");
    }
    return {};
}

// What a page can send without a preflight has other types.
std::optional<ApiError> Guard::check_type(const HttpRequest& request, Access access,
                                          const Given& given) const {
    const std::string type = media_type(request.header("content-type"));
    const bool upload = request.method == "POST" && without_version(request.path) == "/files";
    if (upload) {
        if (type == "multipart/form-data") return {};
        return refusal(415, "The content type must be multipart/form-data.",
                       "unsupported_media_type");
    }
    if (type == "application/json" || type.ends_with("+json")) return {};
    const bool must_say = access == Access::admin || !given.session_id.empty();
    if (type.empty() && !must_say && !has_body(request)) return {};
    return refusal(415, "The content type must be application/json.", "unsupported_media_type");
}

net::HttpResponse Guard::answer_preflight(const HttpRequest& request) const {
    const std::string_view wanted = request.header("access-control-request-headers");
    net::HttpResponse response;
    response.status = 204;
    response.content_type.clear();
    response.headers = {{"access-control-allow-methods", "GET, POST, DELETE, OPTIONS"},
                        {"access-control-allow-headers",
                         wanted.empty() ? "authorization, content-type" : std::string(wanted)},
                        {"access-control-max-age", "600"}};
    return response;
}

bool Guard::asks_for_key(Access access) const {
    if (access == Access::client || access == Access::look) return api_keys_.configured();
    return access == Access::internals || access == Access::admin || access == Access::session;
}

std::int64_t Guard::pause_s(base::TimePoint now, const HttpRequest& request,
                            const Given& given) const {
    if (!given.wrong && given.label.empty()) return 0;  // it brings no key
    if (!given.session_id.empty()) return 0;            // nobody guesses 256 bits
    if (!given.wrong && throttle_.known(now, request.peer, given.label)) return 0;
    return throttle_.pause_s(now, request.peer);
}

void Guard::note_turned_away(const HttpRequest& request) {
    ++turned_away_;
    last_turned_away_ = request.peer;
}

Passage Guard::check(base::TimePoint now, const HttpRequest& request) {
    Passage passage;
    passage.access = access_of(request.method, request.path);
    const Given given = look_up(now, request);
    passage.key = given.label;
    passage.limits = given.limits;
    const auto answer = [&](const ApiError& error) {
        passage.response = error_response(request, error);
        return passage;
    };
    // A page of an attacker's name has no key of ours, and no browser adds one by itself, as it
    // does cookies.
    const bool sends_key = given.role != Role::none && given.session_id.empty();
    if (passage.access != Access::probe && !sends_key) {
        if (const auto error = check_host(request)) return answer(*error);
    }
    const std::string_view origin = request.header("origin");
    if (is_shared_with(origin, request.path)) passage.allow_origin = origin;
    if (request.method == "OPTIONS") {
        passage.response =
            passage.allow_origin.empty()
                ? error_response(request, refusal(403,
                                                  "Web pages of other origins are not "
                                                  "served here (--cors-origin).",
                                                  "cross_origin"))
                : answer_preflight(request);
        return passage;
    }
    if (changes_state(request.method)) {
        if (const auto error = check_page(request)) return answer(*error);
        if (!given.session_id.empty()) {
            if (const auto error = check_session(request)) return answer(*error);
        }
    }
    if (const std::int64_t wait_s = asks_for_key(passage.access) ? pause_s(now, request, given) : 0;
        wait_s > 0) {
        note_turned_away(request);
        passage.key.clear();
        return answer(too_many_wrong_keys(wait_s));
    }
    if (!given.label.empty()) throttle_.succeeded(now, request.peer, given.label);
    if (!given.session_id.empty()) sessions_.used(now, given.session_id);
    if (const auto error = check_key(request, passage.access, given)) {
        if (given.wrong) {
            throttle_.failed(now, request.peer);
            note_turned_away(request);
        }
        return answer(*error);
    }
    if (changes_state(request.method)) {
        if (const auto error = check_encoding(request)) {
            answer(*error);
            passage.response->headers.emplace_back("accept-encoding", "identity");
            return passage;
        }
        if (const auto error = check_type(request, passage.access, given)) return answer(*error);
    }
    return passage;
}

bool Guard::admits_client(base::TimePoint now, const HttpRequest& head) const {
    const Given given = look_up(now, head);
    const bool session = !given.session_id.empty();
    if ((session || given.role == Role::none) && check_host(head)) return false;
    if (check_page(head)) return false;
    if (session && check_session(head)) return false;
    if (given.role != Role::none && pause_s(now, head, given) > 0) return false;
    return !check_key(head, Access::client, given).has_value();
}

Standing Guard::standing_of(const HttpRequest& request, const Given& given) const {
    const auto may = [&](Access access) { return !check_key(request, access, given).has_value(); };
    Standing standing;
    standing.label = given.label;
    standing.session = !given.session_id.empty();
    standing.api_keys = api_keys_.configured();
    standing.admin_keys = admin_keys_.configured();
    if (may(Access::admin)) {
        standing.role = Role::admin;
    } else if (may(Access::client)) {
        standing.role = Role::chat;
    } else if (may(Access::look) && may(Access::internals)) {
        standing.role = Role::view;
    }
    return standing;
}

Standing Guard::standing(base::TimePoint now, const HttpRequest& request) const {
    return standing_of(request, look_up(now, request));
}

// A proxy that speaks HTTPS to the browser says so.
bool Guard::sets_secure(const HttpRequest& request) const {
    return tls_ || net::lower(request.header("x-forwarded-proto")) == "https";
}

Guard::LogIn Guard::log_in(base::TimePoint now, const HttpRequest& request, std::string_view key) {
    LogIn out;
    if (!api_keys_.configured() && !admin_keys_.configured()) {
        out.refused = refusal(400, "This server asks for no key.", "no_keys");
        return out;
    }
    const net::SecretHash hash = net::hash_secret(key);
    Given given = given_by(hash);
    if (const std::int64_t wait_s = pause_s(now, request, given); wait_s > 0) {
        note_turned_away(request);
        out.refused = too_many_wrong_keys(wait_s);
        return out;
    }
    if (given.wrong) {
        throttle_.failed(now, request.peer);
        note_turned_away(request);
        out.refused = refusal(401, "Incorrect API key provided.", "invalid_api_key");
        return out;
    }
    throttle_.succeeded(now, request.peer, given.label);
    log_out(request);
    given.session_id = net::random_secret();
    sessions_.begin(now, given.session_id, hash);
    out.standing = standing_of(request, given);
    out.cookie =
        session_cookie(request, given.session_id, Sessions::kIdleSeconds, sets_secure(request));
    return out;
}

std::string Guard::log_out(const HttpRequest& request) {
    for (const std::string_view id : session_ids(request)) sessions_.end(id);
    return session_cookie(request, "", 0, sets_secure(request));
}

std::string Guard::renewed_cookie(base::TimePoint now, const HttpRequest& request) const {
    if (session_ids(request).empty() || is_from_elsewhere(request)) return {};
    const std::string id = given_by_session(now, request).session_id;
    return session_cookie(request, id, Sessions::kIdleSeconds, sets_secure(request));
}

void Guard::on_tick(base::TimePoint now) {
    if (turned_away_ > 0 && now - logged_ >= kLogEvery) {
        logged_ = now;
        LOG_WARN("{} request(s) with a wrong key were turned away, the last from {}",
                 std::exchange(turned_away_, 0), last_turned_away_);
    }
    if (now - cleaned_ >= kCleanEvery) {
        cleaned_ = now;
        sessions_.clean(now, [this](const net::SecretHash& key) {
            return api_keys_.find(key).has_value() || admin_keys_.find(key).has_value();
        });
    }
    if (now - looked_ < kKeyFilesEvery) return;
    looked_ = now;
    for (net::SecretKeys* keys : {&api_keys_, &admin_keys_}) {
        const base::Status read = keys->refresh();
        if (!read.ok()) LOG_ERROR("{}; the keys stay what they were", read.error().message);
    }
}

}  // namespace helix::api
