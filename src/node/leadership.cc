#include "node/leadership.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <sodium.h>
#include <nlohmann/json.hpp>

#include "base/calendar.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/log.h"
#include "node/clock.h"
#include "spec/bounded_json.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using std::chrono::milliseconds;

constexpr milliseconds kEtcdLimit{1000};
constexpr milliseconds kLookAtLeaderEvery{200};  // while another leads
constexpr milliseconds kAskEtcdAgainAfter{500};
constexpr base::Duration kSaySilenceEvery = base::from_seconds(10);

std::uint64_t number_of(const std::string& text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace

Result<LeadershipOptions> parse_leader(const std::string& url) {
    const bool tls = url.starts_with("etcds://");
    const std::string plain = "etcd://";
    if (!tls && !url.starts_with(plain)) {
        return base::invalid("--leader: expected etcd://HOST:PORT[/CLUSTER], got '" + url + "'");
    }
    const std::string rest = url.substr(url.find("://"));
    auto target = net::parse_http_url((tls ? "https" : "http") + rest);
    if (!target.ok()) return base::invalid("--leader: " + target.error().message);
    LeadershipOptions options;
    if (!target->prefix.empty()) options.cluster = target->prefix.substr(1);
    target->prefix.clear();
    options.etcd = std::move(*target);
    return options;
}

Result<std::unique_ptr<Leadership>> Leadership::create(LeadershipOptions options) {
    TRY(auto etcd, Etcd::create(options.etcd));
    return std::unique_ptr<Leadership>(new Leadership(std::move(options), std::move(etcd)));
}

Leadership::Leadership(LeadershipOptions options, std::unique_ptr<Etcd> etcd)
    : options_(std::move(options)), etcd_(std::move(etcd)) {
    std::array<std::byte, 16> random = {};
    randombytes_buf(random.data(), random.size());
    self_ = nlohmann::json{{"name", options_.name}, {"nonce", base::to_hex(random)}}.dump();
}

Leadership::~Leadership() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (lease_ == 0) return;
    const base::Status gone = etcd_->revoke(lease_, kEtcdLimit);
    if (!gone.ok()) LOG_DEBUG("{}", gone.error().message);
}

std::string Leadership::leader_key() const {
    return "helix/" + options_.cluster + "/leader";
}

std::string Leadership::term_key() const {
    return "helix/" + options_.cluster + "/term";
}

// Its text, "" when nobody leads.
Result<std::string> Leadership::leader() {
    TRY(const std::optional<Etcd::Value> value, etcd_->read(leader_key(), kEtcdLimit));
    return value.has_value() ? value->text : std::string();
}

// Tries to lead, when nobody does; says whether it worked. Its outcome is known: where the answer
// got lost, the key says who leads.
Result<bool> Leadership::campaign() {
    TRY(const std::optional<Etcd::Value> before, etcd_->read(term_key(), kEtcdLimit));
    const std::uint64_t last = before.has_value() ? number_of(before->text) : 0;
    const std::uint64_t term = std::max(static_cast<std::uint64_t>(base::calendar_us()), last + 1);
    TRY(lease_, etcd_->grant(options_.lease_s, kEtcdLimit));
    const auto won = etcd_->write_if(
        {{leader_key(), 0}, {term_key(), before.has_value() ? before->revision : 0}},
        {{leader_key(), self_, lease_}, {term_key(), std::to_string(term)}}, kEtcdLimit);
    if (!won.ok() && won.error().code != Errc::unavailable) return won.error();
    bool leads = won.ok() && *won;
    if (!won.ok()) {
        TRY(const std::string who, leader());
        leads = who == self_;
    }
    if (leads) {
        term_ = term;
        return true;
    }
    const base::Status gone = etcd_->revoke(std::exchange(lease_, 0), kEtcdLimit);
    if (!gone.ok()) LOG_DEBUG("{}", gone.error().message);
    return false;
}

Result<std::uint64_t> Leadership::win(const std::atomic<bool>& stopping) {
    std::string said;
    base::TimePoint said_at;
    const auto say = [&](const std::string& text) {
        if (text == said && now() - said_at < kSaySilenceEvery) return;
        if (text != said) LOG_INFO("{}", text);
        if (text == said) LOG_INFO("still so: {}", text);
        said = text;
        said_at = now();
    };
    while (!stopping.load()) {
        auto who = leader();
        milliseconds pause = kLookAtLeaderEvery;
        if (who.ok() && who->empty()) {
            const auto won = campaign();
            if (won.ok() && *won) {
                answered_ns_ = now().ns;
                LOG_INFO("this coordinator leads cluster \"{}\" (term {})", options_.cluster,
                         term_);
                return term_;
            }
            if (!won.ok()) who = won.error();
        } else if (who.ok() && *who == self_) {
            // A campaign whose answer was late was won after all; its lease is the one we have.
            const base::Status gone = etcd_->revoke(std::exchange(lease_, 0), kEtcdLimit);
            if (!gone.ok()) LOG_DEBUG("{}", gone.error().message);
        } else if (who.ok()) {
            const nlohmann::json value = spec::bounded_json_or_discarded(*who);
            const bool named =
                value.is_object() && value.contains("name") && value["name"].is_string();
            say(fmt::format("\"{}\" leads cluster \"{}\"; this coordinator stands by",
                            named ? base::escaped(value["name"].get<std::string>()) : "another",
                            options_.cluster));
        }
        if (!who.ok()) {
            if (who.error().code != Errc::unavailable) return who.error();
            say(who.error().message + "; without it nobody can be sure to lead: waiting for it");
            pause = kAskEtcdAgainAfter;
        }
        std::this_thread::sleep_for(pause);
    }
    return Error{Errc::unavailable, "stopped while another coordinator led"};
}

void Leadership::keep(std::function<void(const std::string&)> on_lost) {
    on_lost_ = std::move(on_lost);
    thread_ = std::thread([this] { work(); });
}

void Leadership::work() {
    const milliseconds every{options_.lease_s * 1000 / 4};
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, every, [this] { return stopping_; })) {
        lock.unlock();
        const bool leads_on = renew();
        lock.lock();
        if (!leads_on) return;
    }
}

// False: another leads, and on_lost was told.
bool Leadership::renew() {
    const milliseconds limit{options_.lease_s * 1000 / 3};
    const Result<bool> alive = etcd_->renew(lease_, limit);
    if (!alive.ok()) {
        note_silence(alive.error().message);
        return true;
    }
    if (!*alive && !regain()) return false;
    answered_ns_ = now().ns;
    if (told_silence_) LOG_INFO("etcd answers again");
    told_silence_ = false;
    return true;
}

void Leadership::note_silence(const std::string& error) {
    const base::Duration silent{now().ns - answered_ns_};
    if (told_silence_ || silent < base::from_seconds(static_cast<double>(options_.lease_s))) return;
    told_silence_ = true;
    LOG_WARN("{}: this coordinator serves on, and nobody takes over until etcd answers", error);
}

// The lease was over, perhaps since etcd was away or this process stood still. If nobody has led
// since, this coordinator leads on in its term. False: another leads.
bool Leadership::regain() {
    const auto term = etcd_->read(term_key(), kEtcdLimit);
    if (!term.ok()) {
        note_silence(term.error().message);
        return true;
    }
    if (!term->has_value() || number_of((*term)->text) != term_) {
        on_lost_(fmt::format("another coordinator leads cluster \"{}\" since", options_.cluster));
        return false;
    }
    const auto lease = etcd_->grant(options_.lease_s, kEtcdLimit);
    if (!lease.ok()) {
        note_silence(lease.error().message);
        return true;
    }
    const auto won = etcd_->write_if({{leader_key(), 0}, {term_key(), (*term)->revision}},
                                     {{leader_key(), self_, *lease}}, kEtcdLimit);
    if (won.ok() && *won) lease_ = *lease;
    if (won.ok() && *won) LOG_WARN("the lease was over, and nobody had taken it: it leads on");
    return true;
}

}  // namespace helix::node
