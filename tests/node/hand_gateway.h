#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/overloaded.h"
#include "node/clock.h"
#include "node/coordinator_server.h"
#include "wire/codec.h"

namespace helix::node::test_support {

// A gateway by hand: it says what a test wants it to say, and remembers what it heard. Used on one
// thread.
class HandGateway {
  public:
    explicit HandGateway(const std::string& endpoint, std::uint64_t term = 0,
                         const std::string& name = "hand") {
        auto context = net::ZmqContext::create();
        if (!context.ok()) return;
        auto socket = net::DealerSocket::connect(*context, endpoint, std::nullopt, "", {});
        if (!socket.ok()) return;
        socket_ = std::move(*socket);
        wire::GatewayHello hello;
        hello.name = name;
        hello.term = term;
        say(hello);
    }

    void say(const wire::Message& message) {
        ASSERT_NE(socket_, nullptr);
        const base::Status sent = socket_->send(net::Frame::of(wire::encode(message)), {});
        ASSERT_TRUE(sent.ok()) << sent.error().message;
    }

    // Listens until it is so, for at most so many seconds.
    bool listen_until(const std::function<bool()>& until, int seconds = 60) {
        const base::TimePoint end = now() + base::from_seconds(seconds);
        net::Wakeup never;
        while (!until() && now() < end) {
            net::ZmqSocket* const socket = socket_.get();
            net::wait({&socket, 1}, never.fd(), base::from_ms(50));
            for (const net::LinkEvent& event : socket_->take_events()) {
                if (event.kind == net::LinkEventKind::disconnected) is_cut_off = true;
            }
            while (auto got = socket_->receive()) hear(*got);
        }
        return until();
    }
    bool wait_welcome() {
        return listen_until([&] { return welcome.has_value() && numbers.count > 0; });
    }
    core::RequestId next_id() { return {numbers.first.value + used_++}; }

    struct Heard {
        bool accepted = false;
        std::vector<spec::Token> tokens;
        std::vector<std::int32_t> indices;
        std::vector<core::RequestRouted> routes;
        std::vector<std::vector<core::ProducedToken>> scored;
        std::map<std::int32_t, std::vector<spec::Token>> choices;
        std::optional<core::FinishRequest> finish;
        std::optional<core::RejectRequest> rejection;
    };
    std::map<core::RequestId, Heard> heard;
    std::optional<wire::GatewayWelcome> welcome;
    core::RequestNumbers numbers;
    std::optional<wire::GatewayView> view;
    std::optional<wire::Manifest> manifest;
    std::string header;
    std::string refused;
    bool said_goodbye = false;
    bool is_cut_off = false;

  private:
    void hear(const net::Received& got) {
        auto message = wire::decode(got.header.bytes, got.payload.bytes.size(), {});
        ASSERT_TRUE(message.ok()) << message.error().message;
        std::visit(base::Overloaded{
                       [&](const wire::GatewayWelcome& one) { welcome = one; },
                       [&](const core::RequestNumbers& one) { numbers = one; },
                       [&](const wire::GatewayView& one) { view = one; },
                       [&](const wire::Refused& one) { refused = one.reason; },
                       [&](const wire::Goodbye&) { said_goodbye = true; },
                       [&](const wire::Manifest& one) { manifest = one; },
                       [&](const wire::Chunk&) {
                           header.assign(reinterpret_cast<const char*>(got.payload.bytes.data()),
                                         got.payload.bytes.size());
                       },
                       [&](const core::RequestEvents& events) {
                           for (const core::RequestEvent& event : events.events) take(event);
                       },
                       [&](const auto& other) {
                           ADD_FAILURE() << "a gateway heard " << wire::message_name(other);
                       },
                   },
                   *message);
    }

    void take(const core::RequestEvent& event) {
        std::visit(
            base::Overloaded{
                [&](const core::AcceptRequest& one) { heard[one.id].accepted = true; },
                [&](const core::RejectRequest& one) { heard[one.id].rejection = one; },
                [&](const core::RequestRouted& one) { heard[one.id].routes.push_back(one); },
                [&](const core::StreamToken& one) {
                    Heard& to = heard[one.id];
                    to.choices[one.choice].push_back(one.token.token);
                    if (one.choice != 0) return;
                    to.tokens.push_back(one.token.token);
                    to.indices.push_back(one.index);
                },
                [&](const core::ScoreTokens& one) { heard[one.id].scored.push_back(one.tokens); },
                [&](const core::FinishRequest& one) { heard[one.id].finish = one; },
                [](const auto&) {},
            },
            event);
    }

    std::unique_ptr<net::DealerSocket> socket_;
    std::uint64_t used_ = 0;
};

}  // namespace helix::node::test_support
