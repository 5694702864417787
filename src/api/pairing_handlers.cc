// Pairing: what an admin starts and sees, and what a machine that wants to join says.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/error.h"
#include "api/handlers.h"
#include "api/pairing.h"
#include "base/hex.h"
#include "base/log.h"
#include "net/key.h"
#include "spec/bounded_json.h"

namespace helix::api::handle {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSessionBytes = 16;
constexpr std::size_t kMostSealedBytes = 1024;

ApiError refusal(int status, std::string message, std::string code) {
    return {status, std::move(message), "invalid_request_error", "", std::move(code), 0};
}

// Null, and answered, where machines join without keys.
PairingDesk* desk_of(ApiContext& context, const Exchange& exchange) {
    PairingDesk* desk = context.options.pages.pairing.get();
    if (desk == nullptr) {
        context.refuse(
            *exchange,
            refusal(409,
                    "This coordinator has no key, so no pairing is needed: who reaches its cluster "
                    "port joins without a code. For machines of a network start it with --key "
                    "(helix key new).",
                    "no_pairing_needed"));
    }
    return desk;
}

std::int64_t whole_seconds(base::Duration left) {
    return (left.ns + 999'999'999) / 1'000'000'000;
}

void show(ApiContext& context, const Exchange& exchange, const Pairing::Look& look) {
    nlohmann::json out = {{"state", to_string(look.state)},
                          {"wrong_tries", look.wrong_tries},
                          {"let_in", look.let_in},
                          {"expired", look.expired}};
    if (look.state != Pairing::State::off) out["seconds_left"] = whole_seconds(look.left);
    if (look.state == Pairing::State::shown) {
        out["code"] = shown_code(look.code);
        out["tries_left"] = look.tries_left;
    }
    net::HttpResponse response = json_response(out);
    response.headers.emplace_back("cache-control", "no-store");
    context.respond(*exchange, response);
}

ApiError refused_by(const Pairing& pairing, Pairing::Refusal refused, base::TimePoint now) {
    const auto paused = [&](const char* why) {
        const std::int64_t wait_s = whole_seconds(pairing.pause_left(now));
        ApiError error = refusal(429, fmt::format("{} There is a new one in {} s.", why, wait_s),
                                 "pairing_paused");
        error.retry_after_s = static_cast<std::int32_t>(wait_s);
        return error;
    };
    switch (refused) {
        case Pairing::Refusal::none:
        case Pairing::Refusal::no_code:
            break;
        case Pairing::Refusal::paused:
            return paused("Too many wrong pairing codes were tried: the code is void.");
        case Pairing::Refusal::bad_share:
            return bad_field("share", "'share': expected an element of ristretto255");
        case Pairing::Refusal::used_session:
            return bad_field("session", "'session': one of this name has begun");
        case Pairing::Refusal::unknown_exchange:
            return refusal(409, "This exchange has not begun here, or is over: begin anew.",
                           "no_exchange");
        case Pairing::Refusal::wrong_code:
            if (pairing.pause_left(now) > base::Duration{}) {
                return paused("That is not the pairing code, and it was its last try.");
            }
            return refusal(403,
                           fmt::format("That is not the pairing code that is shown. Tries that are "
                                       "left: {}.",
                                       pairing.tries_left()),
                           "wrong_pairing_code");
    }
    return refusal(409,
                   "No pairing code is shown at this coordinator. An admin starts it there: helix "
                   "pair.",
                   "no_pairing");
}

// The bytes of a field of hexadecimal digits.
std::optional<std::string> hex_field(const Json& body, const char* name, std::size_t bytes) {
    const auto found = body.find(name);
    if (found == body.end() || !found->is_string()) return {};
    return base::from_hex(found->get_ref<const std::string&>(), bytes);
}

ApiError no_hex(const char* name, std::size_t bytes) {
    return bad_field(name, fmt::format("'{}': expected {} hexadecimal digits", name, 2 * bytes));
}

// What the machine has sealed: its public key; "" when it is none.
std::string key_in(const net::PakeSession& session, const std::string& sealed) {
    const auto text = session.open(sealed);
    if (!text) return "";
    const nlohmann::json inner = spec::bounded_json_or_discarded(*text);
    if (!inner.is_object()) return "";
    const auto found = inner.find("public_key");
    if (found == inner.end() || !found->is_string()) return "";
    return found->get<std::string>();
}

}  // namespace

void start_pairing(ApiContext& context, const Exchange& exchange, Words) {
    PairingDesk* desk = desk_of(context, exchange);
    if (desk != nullptr) show(context, exchange, desk->pairing.start(context.options.clock()));
}

void pairing(ApiContext& context, const Exchange& exchange, Words) {
    PairingDesk* desk = desk_of(context, exchange);
    if (desk != nullptr) show(context, exchange, desk->pairing.look(context.options.clock()));
}

void stop_pairing(ApiContext& context, const Exchange& exchange, Words) {
    PairingDesk* desk = desk_of(context, exchange);
    if (desk == nullptr) return;
    desk->pairing.stop();
    show(context, exchange, desk->pairing.look(context.options.clock()));
}

void begin_pairing(ApiContext& context, const Exchange& exchange, Words) {
    PairingDesk* desk = desk_of(context, exchange);
    Json body;
    if (desk == nullptr || !read_small_body(context, exchange, body)) return;
    const auto name = body.find("name");
    if (name == body.end() || !name->is_string()) {
        return context.refuse(*exchange, bad_field("name", "'name': expected the machine's name"));
    }
    net::PakeMessage theirs;
    theirs.about = name->get<std::string>();
    if (const base::Status good = net::check_worker_name(theirs.about); !good.ok()) {
        return context.refuse(*exchange, bad_field("name", "'name': " + good.error().message));
    }
    const auto session = hex_field(body, "session", kSessionBytes);
    if (!session) return context.refuse(*exchange, no_hex("session", kSessionBytes));
    const auto share = hex_field(body, "share", theirs.share.size());
    if (!share) return context.refuse(*exchange, no_hex("share", theirs.share.size()));
    std::copy(share->begin(), share->end(), theirs.share.begin());
    const base::TimePoint now = context.options.clock();
    const Pairing::Begun begun = desk->pairing.begin(now, *session, theirs);
    if (begun.refused != Pairing::Refusal::none) {
        return context.refuse(*exchange, refused_by(desk->pairing, begun.refused, now));
    }
    context.respond(*exchange, json_response({{"share", net::to_hex(begun.answer.share)},
                                              {"public_key", begun.answer.about}}));
}

void finish_pairing(ApiContext& context, const Exchange& exchange, Words) {
    PairingDesk* desk = desk_of(context, exchange);
    Json body;
    if (desk == nullptr || !read_small_body(context, exchange, body)) return;
    constexpr std::size_t kTagBytes = net::PakeSession::kConfirmationBytes;
    const auto session = hex_field(body, "session", kSessionBytes);
    if (!session) return context.refuse(*exchange, no_hex("session", kSessionBytes));
    const auto tag = hex_field(body, "confirmation", kTagBytes);
    if (!tag) return context.refuse(*exchange, no_hex("confirmation", kTagBytes));
    const auto digits = body.find("sealed");
    const std::size_t sealed_bytes = digits != body.end() && digits->is_string()
                                         ? digits->get_ref<const std::string&>().size() / 2
                                         : 0;
    const auto sealed = hex_field(body, "sealed", std::min(sealed_bytes, kMostSealedBytes));
    if (!sealed) {
        return context.refuse(
            *exchange, bad_field("sealed", "'sealed': expected hexadecimal digits, not too many"));
    }
    const base::TimePoint now = context.options.clock();
    const Pairing::Proved proved = desk->pairing.prove(now, *session, *tag);
    if (proved.refused != Pairing::Refusal::none) {
        if (proved.refused == Pairing::Refusal::wrong_code) {
            LOG_WARN("pairing: a wrong code came from {}", exchange->request().peer);
        }
        return context.refuse(*exchange, refused_by(desk->pairing, proved.refused, now));
    }
    const base::Status in = desk->let_in(proved.name, key_in(*proved.session, *sealed));
    if (!in.ok()) return context.refuse(*exchange, from_error(in.error()));
    desk->pairing.used(proved.name);
    LOG_INFO("pairing: \"{}\" at {} knows the code and may join from now on", proved.name,
             exchange->request().peer);
    const nlohmann::json inner = {{"public_key", desk->public_key}};
    context.respond(*exchange,
                    json_response({{"confirmation", base::to_hex(proved.session->confirmation())},
                                   {"sealed", base::to_hex(proved.session->seal(inner.dump()))}}));
}

}  // namespace helix::api::handle
