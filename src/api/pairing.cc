#include "api/pairing.h"

#include <sodium.h>

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace helix::api {
namespace {

constexpr std::size_t kDigits = 8;

std::string random_code() {
    CHECK(sodium_init() >= 0);
    return fmt::format("{:08}", randombytes_uniform(100'000'000));
}

}  // namespace

const char* to_string(Pairing::State state) {
    switch (state) {
        case Pairing::State::off:
            return "off";
        case Pairing::State::shown:
            return "shown";
        case Pairing::State::paused:
            return "paused";
    }
    CHECK(false);
    return "";
}

std::string shown_code(const std::string& code) {
    return code.substr(0, kDigits / 2) + " " + code.substr(kDigits / 2);
}

std::optional<std::string> typed_code(std::string_view text) {
    std::string code;
    for (const char c : text) {
        if (c == ' ' || c == '\t' || c == '-' || c == '\r' || c == '\n') continue;
        if (c < '0' || c > '9' || code.size() == kDigits) return {};
        code += c;
    }
    if (code.size() != kDigits) return {};
    return code;
}

base::Duration Pairing::pause_left(base::TimePoint now) const {
    if (pause_ == base::Duration{}) return {};
    return std::max(base::Duration{}, paused_at_ + pause_ - now);
}

void Pairing::make_code(base::TimePoint now) {
    code_ = random_code();
    until_ = now + kCodeLife;
    tries_left_ = kTries;
}

void Pairing::end_code() {
    code_.clear();
    exchanges_.clear();
    tries_left_ = 0;
}

Pairing::Look Pairing::look_now(base::TimePoint now) const {
    Look out;
    out.state = !on_ ? State::off : code_.empty() ? State::paused : State::shown;
    out.code = code_;
    if (out.state == State::shown) out.left = until_ - now;
    if (out.state == State::paused) out.left = pause_left(now);
    out.tries_left = tries_left_;
    out.wrong_tries = wrong_tries_;
    out.let_in = let_in_;
    out.expired = expired_;
    return out;
}

Pairing::Look Pairing::start(base::TimePoint now) {
    stop();
    on_ = true;
    wrong_tries_ = 0;
    let_in_.clear();
    expired_ = false;
    return look(now);
}

Pairing::Look Pairing::look(base::TimePoint now) {
    clean(now);
    if (on_ && code_.empty() && pause_left(now) == base::Duration{}) make_code(now);
    return look_now(now);
}

void Pairing::stop() {
    end_code();
    on_ = false;
}

// Ends what has lasted too long.
void Pairing::clean(base::TimePoint now) {
    std::erase_if(exchanges_,
                  [now](const auto& one) { return now - one.second.began >= kExchangeLife; });
    // A pause that nobody waits for ends like a code that nobody uses.
    const base::TimePoint end = code_.empty() ? paused_at_ + pause_ + kCodeLife : until_;
    if (on_ && (!code_.empty() || pause_ != base::Duration{}) && now >= end) {
        stop();
        expired_ = true;
    }
    if (pause_ != base::Duration{} && now - paused_at_ >= kForgetAfter) pause_ = {};
}

Pairing::Refusal Pairing::check_code(base::TimePoint now) {
    clean(now);
    if (!code_.empty()) return Refusal::none;
    return on_ && pause_left(now) > base::Duration{} ? Refusal::paused : Refusal::no_code;
}

Pairing::Begun Pairing::begin(base::TimePoint now, const std::string& session,
                              const net::PakeMessage& theirs) {
    if (const Refusal refused = check_code(now); refused != Refusal::none) return {refused, {}};
    if (exchanges_.contains(session)) return {Refusal::used_session, {}};
    const net::PakeParty party(net::PakeRole::responder, {code_, kPairingChannel, session}, about_);
    auto common = party.accept(theirs);
    if (!common) return {Refusal::bad_share, {}};
    if (exchanges_.size() == kMostExchanges) {
        exchanges_.erase(std::min_element(
            exchanges_.begin(), exchanges_.end(),
            [](const auto& a, const auto& b) { return a.second.began < b.second.began; }));
    }
    exchanges_.insert({session, Exchange{theirs.about, std::move(*common), now}});
    return {Refusal::none, party.message()};
}

void Pairing::wrong_try(base::TimePoint now) {
    ++wrong_tries_;
    if (--tries_left_ > 0) return;
    end_code();
    pause_ = pause_ == base::Duration{} ? kFirstPause : std::min(pause_ * 2, kLongestPause);
    paused_at_ = now;
}

Pairing::Proved Pairing::prove(base::TimePoint now, const std::string& session,
                               std::string_view confirmation) {
    if (const Refusal refused = check_code(now); refused != Refusal::none) return {refused, {}, {}};
    const auto found = exchanges_.find(session);
    if (found == exchanges_.end()) return {Refusal::unknown_exchange, {}, {}};
    Exchange exchange = std::move(found->second);
    exchanges_.erase(found);
    if (!exchange.session.confirms(confirmation)) {
        wrong_try(now);
        return {Refusal::wrong_code, {}, {}};
    }
    return {Refusal::none, std::move(exchange.name), std::move(exchange.session)};
}

void Pairing::used(const std::string& name) {
    stop();
    let_in_ = name;
    pause_ = {};
}

}  // namespace helix::api
