#include "node/gateway_link.h"

#include <limits>
#include <variant>

#include <fmt/format.h>

#include "base/log.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

namespace {

// A coordinator that is started again is back within a second or two.
constexpr base::Duration kFirstSearchPause = base::from_ms(100);
constexpr base::Duration kLongestSearchPause = base::from_ms(500);
constexpr base::Duration kAnswerWithin = base::from_ms(5000);
constexpr base::Duration kLinger = base::from_ms(500);
constexpr int kMostMessagesAtOnce = 4096;

}  // namespace

Result<std::unique_ptr<GatewayLink>> GatewayLink::create(GatewayLinkOptions options) {
    if (options.join.empty()) return base::invalid("no coordinator's address is given");
    std::vector<CoordinatorFinder> finders;
    for (const std::string& join : options.join) {
        TRY(CoordinatorFinder finder,
            CoordinatorFinder::create(join, {options.key, options.insecure, false}));
        finders.push_back(std::move(finder));
    }
    TRY(auto context, net::ZmqContext::create());
    return std::unique_ptr<GatewayLink>(
        new GatewayLink(std::move(options), std::move(context), std::move(finders)));
}

void GatewayLink::on_time(base::TimePoint now) {
    if (left_ || hopeless_.has_value()) return;
    if (socket_ == nullptr) {
        if (!again_.may_try(now)) return;
        const Status opened = open(now);
        if (!opened.ok()) give_up(now, opened.error());
    } else if (!there_ && now - opened_ > kAnswerWithin) {
        give_up(now, {Errc::unavailable, fmt::format("no answer from {}", options_.join[at_])});
    }
}

base::TimePoint GatewayLink::next_time() const {
    if (left_ || hopeless_.has_value()) return {std::numeric_limits<std::int64_t>::max()};
    return socket_ == nullptr ? again_.next() : opened_ + kAnswerWithin;
}

Status GatewayLink::open(base::TimePoint now) {
    TRY(const CoordinatorAddress found, finders_[at_].find());
    std::optional<net::KeyPair> keys;
    wire::GatewayHello hello;
    hello.name = options_.name;
    hello.term = term_.highest();
    if (options_.key.has_value()) {
        keys = options_.key->pair;
        hello.public_key = keys->public_key;
    }
    TRY(socket_, net::DealerSocket::connect(context_, found.endpoint, keys, found.public_key,
                                            options_.transport));
    opened_ = now;
    return socket_->send(net::Frame::of(wire::encode(hello)));
}

// Nothing is there, or nothing that will do: the next address is tried after a pause.
void GatewayLink::give_up(base::TimePoint now, const Error& error) {
    const bool lasts = error.code == Errc::denied || error.code == Errc::invalid;
    finals_ = lasts ? finals_ + 1 : 0;
    if (!ever_there_ && finals_ >= finders_.size()) {
        hopeless_ = error;
        socket_.reset();
        return;
    }
    at_ = (at_ + 1) % finders_.size();
    close(now, error.message);
}

void GatewayLink::close(base::TimePoint now, const std::string& reason) {
    socket_.reset();
    there_ = false;
    limits_ = {};
    again_.failed(now, kFirstSearchPause, kLongestSearchPause);
    if (reason == said_) return;
    said_ = reason;
    LOG_WARN("gateway \"{}\": {}; looking for a coordinator", options_.name, reason);
}

void GatewayLink::leave(const std::string& reason) {
    left_ = true;
    if (socket_ == nullptr) return;
    socket_->set_linger(kLinger);
    const Status sent = socket_->send(net::Frame::of(wire::encode(wire::Goodbye{reason})));
    if (!sent.ok()) LOG_DEBUG("goodbye: {}", sent.error().message);
    socket_.reset();
    there_ = false;
}

// How the connection has ended, if it has.
std::optional<std::string> GatewayLink::how_it_broke() {
    std::optional<std::string> how;
    for (const net::LinkEvent& event : socket_->take_events()) {
        if (event.kind == net::LinkEventKind::refused) {
            how = fmt::format("{} refuses the connection: {}", options_.join[at_], event.detail);
        } else if (event.kind == net::LinkEventKind::disconnected && there_) {
            how = "the coordinator is gone";
        }
        // Before the Welcome libzmq may try again; on_time() bounds that.
    }
    return how;
}

// What is wrong with the first message of a coordinator, if anything is.
std::optional<Error> GatewayLink::greeted(const wire::Message& message) {
    const std::string& where = options_.join[at_];
    if (const auto* refused = std::get_if<wire::Refused>(&message)) {
        return Error{refused->final ? Errc::denied : Errc::unavailable,
                     fmt::format("the coordinator at {} says: {}", where, refused->reason)};
    }
    const auto* welcome = std::get_if<wire::GatewayWelcome>(&message);
    if (welcome == nullptr) {
        return Error{Errc::unavailable, fmt::format("{} sent a {} in place of a GatewayWelcome",
                                                    where, wire::message_name(message))};
    }
    if (!term_.may_join(welcome->term)) {
        return Error{Errc::unavailable,
                     fmt::format("the coordinator at {} is of term {}, and one of term {} came "
                                 "after it",
                                 where, welcome->term, term_.highest())};
    }
    term_.join(welcome->term);
    limits_ = {welcome->model.n_layers, welcome->hidden_size};
    there_ = true;
    ever_there_ = true;
    finals_ = 0;
    said_.clear();
    again_.clear();
    LOG_INFO("gateway \"{}\": the coordinator at {} serves {} (term {})", options_.name, where,
             welcome->model.name, welcome->term);
    return std::nullopt;
}

std::vector<GatewayLink::Arrived> GatewayLink::receive(base::TimePoint now) {
    std::vector<Arrived> all;
    if (socket_ == nullptr) return all;
    const auto broken = how_it_broke();  // what it has still said comes first
    for (int i = 0; i < kMostMessagesAtOnce || broken; ++i) {
        std::optional<net::Received> got = socket_->receive();
        if (!got.has_value()) break;
        auto message = wire::decode(got->header.bytes, got->payload.bytes.size(), limits_);
        if (got->malformed || !message.ok()) {
            close(now, "the coordinator sent something else than a message: " +
                           (message.ok() ? "too many frames" : message.error().message));
            return all;
        }
        if (!there_) {
            if (const auto wrong = greeted(*message)) {
                give_up(now, *wrong);
                return all;
            }
        } else if (const auto* bye = std::get_if<wire::Goodbye>(&*message)) {
            close(now, "the coordinator leaves: " + bye->reason);
            return all;
        } else if (const auto* refused = std::get_if<wire::Refused>(&*message)) {
            close(now, "the coordinator says: " + refused->reason);
            return all;
        }
        all.push_back({std::move(*message), std::move(got->payload)});
    }
    if (broken && there_) {
        close(now, *broken);
    } else if (broken) {
        give_up(now, {Errc::unavailable, *broken});
    }
    return all;
}

Status GatewayLink::send(base::TimePoint now, const wire::Message& message) {
    if (socket_ == nullptr) return Error{Errc::unavailable, "no coordinator is there"};
    const Status sent = socket_->send(net::Frame::of(wire::encode(message)));
    if (!sent.ok() && sent.error().code != Errc::overloaded) {
        close(now, fmt::format("{} to the coordinator: {}", wire::message_name(message),
                               sent.error().message));
    }
    return sent;
}

}  // namespace helix::node
