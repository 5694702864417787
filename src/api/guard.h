#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "api/key_quotas.h"
#include "api/key_throttle.h"
#include "api/sessions.h"
#include "base/result.h"
#include "base/time.h"
#include "net/http_message.h"
#include "net/secret_keys.h"

// Who may ask what of the HTTP port. Every request passes here before a route sees it, so that a
// route that is added later is closed until somebody opens it. docs/security.md has the reasons.

namespace helix::api {

// Who may ask from where, and under which names.
struct AccessOptions {
    std::vector<std::string> api_key_files;
    std::vector<std::string> admin_keys;
    std::vector<std::string> admin_key_files;
    // Names under which clients reach the server, besides its addresses, localhost and the name of
    // this machine.
    std::vector<std::string> host_names;
    std::vector<std::string> cors_origins;  // origins of web pages that may use /v1
    std::string log;                        // a file for the access log; "-" = standard output
};

enum class Access {
    probe,      // anyone, under any name: is it alive, where do workers join, and with which code
    open,       // anyone
    session,    // anyone, but not with a wrong key: it says what a key may do
    look,       // with a key of any role, if there are API keys: what has no prompts in it
    client,     // with a key that may chat, if there are API keys
    internals,  // with a key of any role, or from this machine
    admin,      // with an admin key; without any from this machine only
};

// What a key may do; each role may do what those before it may.
enum class Role {
    none,   // there is no key, or none of ours
    view,   // look at the cluster, at its requests (not their texts) and its history
    chat,   // use /v1
    admin,  // change the cluster
};
const char* to_string(Role role);

// The access that a path asks for. path is decoded, with or without "/v1" before it.
Access access_of(std::string_view method, std::string_view path);

// The path without "/v1", which may stand before every path.
std::string_view without_version(std::string_view path);

// What became of a request at the guard.
struct Passage {
    Access access = Access::client;
    // The label of the key that it brought, or that its session stands for; "" = none.
    std::string key;
    KeyLimits limits;                           // of that key
    std::string allow_origin;                   // origin of the web page that may read the answer
    std::optional<net::HttpResponse> response;  // the answer, if no route is to see the request
};

// What who asks may do, by a key, a session, or by where it asks from.
struct Standing {
    Role role = Role::none;
    std::string label;        // of the key; "" = none
    bool session = false;     // by a session
    bool api_keys = false;    // whether the server asks clients for keys
    bool admin_keys = false;  // and admins for theirs
};

class Guard {
  public:
    // api_keys are keys besides those of options; tls says whether clients speak HTTPS. Error
    // invalid or denied when a file of keys cannot be used.
    static base::Result<std::unique_ptr<Guard>> create(std::vector<std::string> api_keys,
                                                       const AccessOptions& options,
                                                       bool tls = false);

    Passage check(base::TimePoint now, const net::HttpRequest& request);
    // Whether a client's request with this head would get past the keys. Asked before its body is
    // there; counts nothing.
    bool admits_client(base::TimePoint now, const net::HttpRequest& head) const;
    // The label of the key that this request brings, or that its session stands for; "" = none, or
    // none of ours.
    std::string key_of(base::TimePoint now, const net::HttpRequest& request) const {
        return look_up(now, request).label;
    }

    Standing standing(base::TimePoint now, const net::HttpRequest& request) const;
    struct LogIn {
        std::optional<ApiError> refused;
        Standing standing;
        std::string cookie;  // what Set-Cookie is to say
    };
    // Begins a session for this key in place of the one that the request is of. The request has
    // passed check(); wrong keys cost what they cost in a header.
    LogIn log_in(base::TimePoint now, const net::HttpRequest& request, std::string_view key);
    // Ends the session that the request is of. Returns what Set-Cookie is to say.
    std::string log_out(const net::HttpRequest& request);
    // What Set-Cookie is to say so that the browser keeps a session for as long as the server does,
    // or forgets one that is over; "" = nothing.
    std::string renewed_cookie(base::TimePoint now, const net::HttpRequest& request) const;
    // To be called now and then: reads changed files of keys, and says in the log who was turned
    // away.
    void on_tick(base::TimePoint now);

  private:
    struct Given {
        std::string label;  // "" = none, or a wrong one
        KeyLimits limits;
        Role role = Role::none;
        bool wrong = false;      // one was sent, but it is none of ours
        std::string session_id;  // of the session that it is by; "" = it is by none
    };
    Guard(net::SecretKeys api_keys, net::SecretKeys admin_keys, const AccessOptions& options,
          bool tls);

    Given look_up(base::TimePoint now, const net::HttpRequest& request) const;
    Given given_by(const net::SecretHash& key) const;
    Given given_by_session(base::TimePoint now, const net::HttpRequest& request) const;
    Standing standing_of(const net::HttpRequest& request, const Given& given) const;
    bool sets_secure(const net::HttpRequest& request) const;
    bool is_known_host(std::string_view host) const;
    // Whether a page of this origin may use this path.
    bool is_shared_with(std::string_view origin, std::string_view path) const;
    std::optional<ApiError> check_host(const net::HttpRequest& request) const;
    std::optional<ApiError> check_page(const net::HttpRequest& request) const;
    std::optional<ApiError> check_key(const net::HttpRequest& request, Access access,
                                      const Given& given) const;
    // Whether its body is written as nothing but what its type says.
    std::optional<ApiError> check_encoding(const net::HttpRequest& request) const;
    // Whether a request of a session that changes something comes from our own page.
    std::optional<ApiError> check_session(const net::HttpRequest& request) const;
    std::optional<ApiError> check_type(const net::HttpRequest& request, Access access,
                                       const Given& given) const;
    net::HttpResponse answer_preflight(const net::HttpRequest& request) const;
    bool asks_for_key(Access access) const;
    // How long this address must wait before the key that it sends is looked at; 0 = not at all.
    std::int64_t pause_s(base::TimePoint now, const net::HttpRequest& request,
                         const Given& given) const;
    void note_turned_away(const net::HttpRequest& request);

    net::SecretKeys api_keys_;
    net::SecretKeys admin_keys_;
    std::vector<std::string> host_names_;
    std::vector<std::string> cors_origins_;
    KeyThrottle throttle_;
    Sessions sessions_;
    bool tls_ = false;
    base::TimePoint looked_;
    base::TimePoint cleaned_;
    base::TimePoint logged_;
    std::int64_t turned_away_ = 0;  // since the last line of the log
    std::string last_turned_away_;
};

}  // namespace helix::api
