// The machine's side of pairing, in front of coordinators that are none, or that lie.

#include "node/pair.h"

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/pairing.h"
#include "base/hex.h"
#include "net/http_server.h"

namespace helix::node::pair_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Plays a coordinator over HTTP. Each answer can be changed on its way.
class Coordinator {
  public:
    using Change = std::function<void(json& answer)>;

    explicit Coordinator(std::string code, Change begun = {}, Change finished = {})
        : code_(std::move(code)), begun_(std::move(begun)), finished_(std::move(finished)) {
        auto server = net::HttpServer::listen({});
        EXPECT_TRUE(server.ok());
        server_ = std::move(*server);
        server_->start([this](const std::shared_ptr<net::HttpExchange>& exchange) {
            const json body = json::parse(exchange->request().body_text());
            json answer = exchange->request().path.ends_with("begin") ? begin(body) : finish(body);
            net::HttpResponse response;
            response.status = answer.contains("error") ? 403 : 200;
            response.body = answer.dump();
            exchange->respond(response);
        });
    }
    base::Result<net::WorkerKey> pair(const std::string& code) const {
        return pair_with({"127.0.0.1", server_->port()}, "den", code, std::chrono::seconds(10));
    }
    const std::string& public_key() const { return key_.public_key; }
    const std::string& let_in() const { return let_in_; }

  private:
    json begin(const json& body) {
        const std::string session = body["session"];
        const net::PakeParty party(net::PakeRole::responder,
                                   {code_, api::kPairingChannel, session_bytes(session)},
                                   key_.public_key);
        session_ = party.accept(
            {net::point_from_hex(body["share"].get<std::string>()).value(), body["name"]});
        json answer = {{"share", net::to_hex(party.message().share)},
                       {"public_key", key_.public_key}};
        if (begun_) begun_(answer);
        return answer;
    }
    json finish(const json& body) {
        const std::string tag = body["confirmation"];
        const std::string sealed = body["sealed"];
        const bool right = session_->confirms(base::from_hex(tag, tag.size() / 2).value());
        // One that lies goes on as if the machine had proved itself.
        if (!right && !finished_) return {{"error", {{"message", "a wrong code\x1b"}}}};
        if (right) {
            let_in_ = json::parse(session_->open(base::from_hex(sealed, sealed.size() / 2).value())
                                      .value())["public_key"];
        }
        const json inner = {{"public_key", key_.public_key}};
        json answer = {{"confirmation", base::to_hex(session_->confirmation())},
                       {"sealed", base::to_hex(session_->seal(inner.dump()))}};
        if (finished_) finished_(answer);
        return answer;
    }
    static std::string session_bytes(const std::string& digits) {
        return base::from_hex(digits, digits.size() / 2).value();
    }

    const net::KeyPair key_ = net::make_key_pair();
    std::string code_;
    Change begun_;
    Change finished_;
    std::optional<net::PakeSession> session_;
    std::string let_in_;
    std::unique_ptr<net::HttpServer> server_;  // goes first: its thread uses the rest
};

TEST(Pair, TheMachineGetsAKeyForTheCoordinatorThatKnewTheCode) {
    const Coordinator hall("12345678");
    const auto key = hall.pair("12345678");
    ASSERT_TRUE(key.ok()) << key.error().message;
    EXPECT_EQ(key->name, "den");
    EXPECT_EQ(key->coordinator_public_key, hall.public_key());
    EXPECT_EQ(key->pair.public_key, hall.let_in());
}

TEST(Pair, AWrongCodeIsDeniedWithWhatTheCoordinatorSays) {
    const Coordinator hall("12345678");
    const auto key = hall.pair("12345679");
    ASSERT_FALSE(key.ok());
    EXPECT_EQ(key.error().code, base::Errc::denied);
    EXPECT_THAT(key.error().message, HasSubstr("a wrong code\\x1b"));
}

TEST(Pair, WhoPlaysTheCoordinatorWithoutTheCodeIsNotBelieved) {
    const Coordinator liar("00000000", {}, [](json&) {});
    const auto key = liar.pair("12345678");
    ASSERT_FALSE(key.ok());
    EXPECT_EQ(key.error().code, base::Errc::denied);
    EXPECT_THAT(key.error().message, HasSubstr("does not know the pairing code"));
}

TEST(Pair, AManInTheMiddleWhoPutsInAKeyOfHisOwnIsNoticed) {
    const std::string his = net::make_key_pair().public_key;
    const Coordinator hall("12345678", [&](json& answer) { answer["public_key"] = his; });
    EXPECT_EQ(hall.pair("12345678").error().code, base::Errc::denied);
    EXPECT_EQ(hall.let_in(), "") << "the coordinator notices first";
    const Coordinator late("12345678", {}, [](json& answer) {
        std::string tag = answer["confirmation"];
        tag[0] = tag[0] == '0' ? '1' : '0';
        answer["confirmation"] = tag;
    });
    EXPECT_EQ(late.pair("12345678").error().code, base::Errc::denied);
    const Coordinator cut("12345678", {}, [](json& answer) { answer["sealed"] = "00"; });
    EXPECT_EQ(cut.pair("12345678").error().code, base::Errc::denied);
}

TEST(Pair, WhatIsNoAnswerOfACoordinatorIsAnErrorAndNoCrash) {
    const std::vector<Coordinator::Change> changes = {
        [](json& answer) { answer = json::array(); },
        [](json& answer) { answer.erase("share"); },
        [](json& answer) { answer["share"] = 5; },
        [](json& answer) { answer["share"] = std::string(64, 'f'); },
        [](json& answer) { answer["share"] = std::string(64, '0'); },
        [](json& answer) { answer["public_key"] = "x"; },
        [](json& answer) { answer["more"] = std::string(100'000, 'x'); }};
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const Coordinator odd("12345678", changes[i]);
        EXPECT_FALSE(odd.pair("12345678").ok()) << i;
        const Coordinator late("12345678", {}, [&](json& answer) {
            changes[i](answer);
            if (answer.is_object()) answer.erase("sealed");
        });
        EXPECT_FALSE(late.pair("12345678").ok()) << i;
    }
}

TEST(Pair, NobodyThereIsSaid) {
    const auto key = pair_with({"127.0.0.1", 1}, "den", "12345678", std::chrono::seconds(2));
    ASSERT_FALSE(key.ok());
    EXPECT_EQ(key.error().code, base::Errc::unavailable);
}

TEST(Pair, TheMachinesNameCanBeAWorkers) {
    EXPECT_TRUE(net::is_worker_name(machine_worker_name()));
}

}  // namespace
}  // namespace helix::node::pair_test
