// Pairing: the life of codes, and what machines and admins say over HTTP.

#include "api/pairing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "api_fixture.h"
#include "base/hex.h"
#include "net/key.h"

namespace helix::api::pairing_test {
namespace {

using ::testing::HasSubstr;
using Refusal = Pairing::Refusal;
using State = Pairing::State;

constexpr base::TimePoint kStart{1'000'000'000'000};
base::TimePoint after(double seconds) {
    return kStart + base::from_seconds(seconds);
}
std::string session_of(int number) {
    return fmt::format("session {:08}", number);
}
// A code that is not this one.
std::string other_than(const std::string& code) {
    return code == "00000000" ? "11111111" : "00000000";
}

// A machine that has been told a code.
class Machine {
  public:
    Machine(Pairing& pairing, const std::string& code, const std::string& name, int number)
        : pairing_(pairing),
          session_name_(session_of(number)),
          party_(net::PakeRole::initiator, {code, kPairingChannel, session_name_}, name) {}
    Refusal begin(base::TimePoint now) {
        const Pairing::Begun begun = pairing_.begin(now, session_name_, party_.message());
        if (begun.refused == Refusal::none) session_ = party_.accept(begun.answer);
        return begun.refused;
    }
    Pairing::Proved prove(base::TimePoint now) {
        return pairing_.prove(now, session_name_, session_->confirmation());
    }
    const net::PakeSession& session() const { return *session_; }

  private:
    Pairing& pairing_;
    std::string session_name_;
    net::PakeParty party_;
    std::optional<net::PakeSession> session_;
};

class PairingTest : public ::testing::Test {
  protected:
    Refusal try_code(const std::string& code, base::TimePoint now) {
        Machine machine(pairing_, code, "den", ++machines_);
        const Refusal refused = machine.begin(now);
        return refused == Refusal::none ? machine.prove(now).refused : refused;
    }
    // Uses up the tries of the code that is shown.
    void spoil(base::TimePoint now) {
        const std::string code = pairing_.look(now).code;
        for (int i = 0; i < Pairing::kTries; ++i) {
            EXPECT_EQ(try_code(other_than(code), now), Refusal::wrong_code);
        }
    }

    Pairing pairing_{"the coordinator's key"};
    int machines_ = 0;
};

TEST_F(PairingTest, WithoutAnAdminThereIsNoCode) {
    EXPECT_EQ(pairing_.look(kStart).state, State::off);
    EXPECT_EQ(try_code("12345678", kStart), Refusal::no_code);
    EXPECT_EQ(pairing_.prove(kStart, session_of(1), "").refused, Refusal::no_code);
}

TEST_F(PairingTest, AMachineThatKnowsTheCodeIsProvedAndUsesItUp) {
    const Pairing::Look shown = pairing_.start(kStart);
    ASSERT_EQ(shown.state, State::shown);
    EXPECT_EQ(shown.code.size(), 8U);
    EXPECT_EQ(shown.left, Pairing::kCodeLife);
    Machine den(pairing_, shown.code, "den", 1);
    ASSERT_EQ(den.begin(after(1)), Refusal::none);
    const Pairing::Proved proved = den.prove(after(2));
    ASSERT_EQ(proved.refused, Refusal::none);
    EXPECT_EQ(proved.name, "den");
    EXPECT_TRUE(den.session().confirms(proved.session->confirmation()));
    pairing_.used("den");
    const Pairing::Look over = pairing_.look(after(3));
    EXPECT_EQ(over.state, State::off);
    EXPECT_EQ(over.let_in, "den");
    EXPECT_EQ(try_code(shown.code, after(3)), Refusal::no_code) << "it has one use";
    EXPECT_EQ(den.prove(after(3)).refused, Refusal::no_code) << "a replay";
}

TEST_F(PairingTest, ACodeEndsAfterTenMinutes) {
    const std::string code = pairing_.start(kStart).code;
    Machine slow(pairing_, code, "den", 1);
    ASSERT_EQ(slow.begin(after(599)), Refusal::none);
    EXPECT_EQ(pairing_.look(after(599)).state, State::shown);
    EXPECT_EQ(slow.prove(after(600)).refused, Refusal::no_code);
    EXPECT_EQ(pairing_.look(after(600)).state, State::off);
    EXPECT_TRUE(pairing_.look(after(601)).expired);
    EXPECT_FALSE(pairing_.start(after(700)).expired);
}

TEST_F(PairingTest, TheThirdWrongCodeMakesItVoidAndAfterAPauseThereIsANewOne) {
    const std::string code = pairing_.start(kStart).code;
    EXPECT_EQ(try_code(other_than(code), after(1)), Refusal::wrong_code);
    EXPECT_EQ(try_code(other_than(code), after(1)), Refusal::wrong_code);
    EXPECT_EQ(pairing_.look(after(1)).code, code);
    EXPECT_EQ(pairing_.look(after(1)).tries_left, 1);
    EXPECT_EQ(try_code(other_than(code), after(1)), Refusal::wrong_code);
    EXPECT_EQ(try_code(code, after(2)), Refusal::paused) << "also with the right one";
    const Pairing::Look paused = pairing_.look(after(2));
    EXPECT_EQ(paused.state, State::paused);
    EXPECT_EQ(paused.code, "");
    EXPECT_EQ(paused.left, base::from_seconds(29));
    EXPECT_EQ(paused.wrong_tries, 3);
    EXPECT_EQ(try_code(code, after(31)), Refusal::no_code) << "nobody has seen a new one yet";
    const Pairing::Look anew = pairing_.look(after(31));
    ASSERT_EQ(anew.state, State::shown);
    EXPECT_NE(anew.code, code);
    EXPECT_EQ(anew.tries_left, 3);
    EXPECT_EQ(anew.left, Pairing::kCodeLife);
    EXPECT_EQ(try_code(anew.code, after(32)), Refusal::none);
}

TEST_F(PairingTest, PausesDoubleUpToABoundAndStartingAnewDoesNotEndThem) {
    double now = 0;
    pairing_.start(kStart);
    for (const double pause : {30, 60, 120, 240, 480, 960, 960}) {
        spoil(after(now));
        pairing_.stop();
        const Pairing::Look look = pairing_.start(after(now + 1));
        EXPECT_EQ(look.state, State::paused);
        EXPECT_EQ(look.left, base::from_seconds(pause - 1));
        now += pause;
        EXPECT_EQ(pairing_.look(after(now)).state, State::shown);
    }
    spoil(after(now));
    now += 4000;
    EXPECT_EQ(pairing_.look(after(now)).state, State::off) << "nobody waited for it";
    EXPECT_EQ(pairing_.start(after(now)).state, State::shown);
    spoil(after(now));
    EXPECT_EQ(pairing_.look(after(now)).left, Pairing::kFirstPause) << "an hour later";
}

TEST_F(PairingTest, WhoProvedItselfEndsTheMemoryOfWrongTries) {
    pairing_.start(kStart);
    spoil(kStart);
    const std::string code = pairing_.look(after(30)).code;
    EXPECT_EQ(try_code(code, after(31)), Refusal::none);
    pairing_.used("den");
    pairing_.start(after(32));
    spoil(after(32));
    EXPECT_EQ(pairing_.look(after(32)).left, Pairing::kFirstPause);
}

TEST_F(PairingTest, OfTwoMachinesAtOnceTheFirstIsLetIn) {
    const std::string code = pairing_.start(kStart).code;
    Machine den(pairing_, code, "den", 1);
    Machine attic(pairing_, code, "attic", 2);
    ASSERT_EQ(den.begin(after(1)), Refusal::none);
    ASSERT_EQ(attic.begin(after(1)), Refusal::none);
    EXPECT_EQ(attic.prove(after(2)).name, "attic");
    pairing_.used("attic");
    EXPECT_EQ(den.prove(after(2)).refused, Refusal::no_code);
    const std::string next = pairing_.start(after(3)).code;
    EXPECT_EQ(den.prove(after(3)).refused, Refusal::unknown_exchange)
        << "it was for the code before";
    EXPECT_EQ(try_code(next, after(4)), Refusal::none);
}

TEST_F(PairingTest, AnExchangeIsOneTry) {
    const std::string code = pairing_.start(kStart).code;
    Machine wrong(pairing_, other_than(code), "den", 1);
    ASSERT_EQ(wrong.begin(kStart), Refusal::none);
    EXPECT_EQ(wrong.begin(kStart), Refusal::used_session);
    EXPECT_EQ(wrong.prove(kStart).refused, Refusal::wrong_code);
    EXPECT_EQ(wrong.prove(kStart).refused, Refusal::unknown_exchange);
    EXPECT_EQ(pairing_.tries_left(), 2);
}

TEST_F(PairingTest, ExchangesThatNobodyEndsCostNoTryAndMakeRoom) {
    const std::string code = pairing_.start(kStart).code;
    Machine first(pairing_, code, "den", 1);
    ASSERT_EQ(first.begin(kStart), Refusal::none);
    for (int i = 2; i < 200; ++i) {
        Machine idle(pairing_, other_than(code), "idle", i);
        ASSERT_EQ(idle.begin(after(i * 0.1)), Refusal::none);
    }
    EXPECT_EQ(pairing_.tries_left(), 3);
    EXPECT_EQ(first.prove(after(21)).refused, Refusal::unknown_exchange) << "it made room";
    Machine late(pairing_, code, "den", 1000);
    ASSERT_EQ(late.begin(after(22)), Refusal::none);
    EXPECT_EQ(late.prove(after(83)).refused, Refusal::unknown_exchange) << "it took too long";
    EXPECT_EQ(try_code(code, after(84)), Refusal::none);
}

TEST_F(PairingTest, AShareThatIsNoneIsRefusedAndCostsNoTry) {
    pairing_.start(kStart);
    net::PakeMessage message = {{}, "den"};
    EXPECT_EQ(pairing_.begin(kStart, session_of(1), message).refused, Refusal::bad_share);
    message.share.fill(0xff);
    EXPECT_EQ(pairing_.begin(kStart, session_of(1), message).refused, Refusal::bad_share);
    EXPECT_EQ(pairing_.tries_left(), 3);
}

TEST(PairingCode, IsReadHoweverItIsWritten) {
    EXPECT_EQ(shown_code("12345678"), "1234 5678");
    for (const char* text : {"1234 5678", "12345678", " 1234-5678\r\n", "1 2 3 4 5 6 7 8"}) {
        EXPECT_EQ(typed_code(text), "12345678") << text;
    }
    for (const char* text : {"", "1234567", "123456789", "1234567a", "1234.5678"}) {
        EXPECT_FALSE(typed_code(text)) << text;
    }
}

// ---- over HTTP

class PairingApiTest : public ApiTest {
  protected:
    PairingApiTest() {
        options_.pages.pairing = std::make_shared<PairingDesk>(
            coordinator_.public_key, [this](const std::string& name, const std::string& key) {
                if (!net::is_z85_key(key)) return base::Status(base::invalid("no key"));
                if (listed_.contains(name)) {
                    return base::Status(base::invalid("\"" + name + "\" is listed already"));
                }
                listed_[name] = key;
                return base::Status(base::Ok{});
            });
    }
    std::string start_pairing() {
        const auto answer = post("/helix/pairing", "{}");
        EXPECT_EQ(answer.status, 200) << answer.body;
        return typed_code(Json::parse(answer.body)["code"].get<std::string>()).value_or("");
    }
    Json look() { return Json::parse(get("/helix/pairing").body); }
    static std::string code_of(const net::TestClient::Response& answer) {
        return Json::parse(answer.body)["error"]["code"].get<std::string>();
    }
    // What a machine sends at last, after a beginning that went well.
    struct Begun {
        std::optional<net::PakeSession> session;
        Json finish;
    };
    Begun begin(const std::string& code, const std::string& name) {
        const std::string session = net::random_pake_session();
        const net::PakeParty party(net::PakeRole::initiator, {code, kPairingChannel, session},
                                   name);
        const Json body = {{"name", name},
                           {"session", base::to_hex(session)},
                           {"share", net::to_hex(party.message().share)}};
        const auto answer = post("/helix/pairing/begin", body.dump());
        EXPECT_EQ(answer.status, 200) << answer.body;
        const Json said = Json::parse(answer.body);
        Begun out;
        out.session = party.accept({net::point_from_hex(said["share"].get<std::string>()).value(),
                                    said["public_key"].get<std::string>()});
        const Json inner = {{"public_key", machine_.public_key}};
        out.finish = {{"session", base::to_hex(session)},
                      {"confirmation", base::to_hex(out.session->confirmation())},
                      {"sealed", base::to_hex(out.session->seal(inner.dump()))}};
        return out;
    }
    net::TestClient::Response finish(const Json& body) {
        return post("/helix/pairing/finish", body.dump());
    }

    const net::KeyPair coordinator_ = net::make_key_pair();
    const net::KeyPair machine_ = net::make_key_pair();
    std::map<std::string, std::string> listed_;
};

TEST_F(PairingApiTest, AMachineIsLetInByTheCodeThatTheAdminWasShown) {
    const std::string code = start_pairing();
    EXPECT_EQ(look()["state"], "shown");
    const Begun begun = begin(code, "den");
    const auto answer = finish(begun.finish);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(listed_["den"], machine_.public_key);
    const Json said = Json::parse(answer.body);
    EXPECT_TRUE(begun.session->confirms(
        base::from_hex(said["confirmation"].get<std::string>(), 64).value()));
    const std::string sealed = said["sealed"].get<std::string>();
    EXPECT_EQ(begun.session->open(base::from_hex(sealed, sealed.size() / 2).value()),
              Json({{"public_key", coordinator_.public_key}}).dump());
    EXPECT_EQ(look()["state"], "off");
    EXPECT_EQ(look()["let_in"], "den");
    EXPECT_EQ(finish(begun.finish).status, 409) << "a replay";
}

TEST_F(PairingApiTest, WrongCodesAreCountedAndThenThereIsAPause) {
    const std::string code = start_pairing();
    for (const char* left : {"2", "1"}) {
        const auto answer = finish(begin(other_than(code), "den").finish);
        EXPECT_EQ(answer.status, 403);
        EXPECT_EQ(code_of(answer), "wrong_pairing_code");
        EXPECT_THAT(answer.body, HasSubstr(std::string("left: ") + left));
    }
    const auto last = finish(begin(other_than(code), "den").finish);
    EXPECT_EQ(last.status, 429);
    EXPECT_EQ(last.header("retry-after"), "30");
    EXPECT_EQ(code_of(last), "pairing_paused");
    EXPECT_EQ(look()["state"], "paused");
    EXPECT_FALSE(look().contains("code"));
    EXPECT_EQ(look()["wrong_tries"], 3);
    const auto begun = post("/helix/pairing/begin",
                            R"({"name": "den", "session": "000102030405060708090a0b0c0d0e0f",
                                "share": ")" +
                                std::string(64, '0') + "\"}");
    EXPECT_EQ(begun.status, 429);
    EXPECT_TRUE(listed_.empty());
}

TEST_F(PairingApiTest, AClashOfNamesLeavesTheCodeInForce) {
    listed_["den"] = "";
    const std::string code = start_pairing();
    const auto clash = finish(begin(code, "den").finish);
    EXPECT_EQ(clash.status, 400);
    EXPECT_THAT(clash.body, HasSubstr("listed already"));
    EXPECT_EQ(look()["tries_left"], 3);
    EXPECT_EQ(finish(begin(code, "den2").finish).status, 200);
}

TEST_F(PairingApiTest, WhatWasChangedOnTheWayLetsNobodyIn) {
    const std::string code = start_pairing();
    Begun begun = begin(code, "den");
    const Begun other = begin(code, "den");
    begun.finish["sealed"] = other.finish["sealed"];
    EXPECT_EQ(finish(begun.finish).status, 400) << "a key sealed in another exchange";
    Json mixed = other.finish;
    mixed["confirmation"] = begun.finish["confirmation"];
    EXPECT_EQ(finish(mixed).status, 403);
    EXPECT_TRUE(listed_.empty());
}

TEST_F(PairingApiTest, WithoutACodeStrangersAreToldSo) {
    for (const char* path : {"/helix/pairing/begin", "/helix/pairing/finish"}) {
        const std::string body =
            Json({{"name", "den"},
                  {"session", std::string(32, '0')},
                  {"share", "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"},
                  {"confirmation", std::string(128, '0')},
                  {"sealed", ""}})
                .dump();
        const auto answer = post(path, body);
        EXPECT_EQ(answer.status, 409) << path;
        EXPECT_EQ(code_of(answer), "no_pairing");
        EXPECT_THAT(answer.body, HasSubstr("helix pair"));
        EXPECT_EQ(get(path).status, 404);
    }
    start_pairing();
    auto c = client();
    c.request("DELETE", "/helix/pairing", {}, "content-type: application/json\r\n");
    EXPECT_EQ(c.read_response().status, 200);
    EXPECT_EQ(look()["state"], "off");
}

TEST_F(PairingApiTest, AServerWithoutKeysSaysThatNoPairingIsNeeded) {
    options_.pages.pairing = nullptr;
    const auto answer = post("/helix/pairing", "{}");
    EXPECT_EQ(answer.status, 409);
    EXPECT_EQ(code_of(answer), "no_pairing_needed");
    EXPECT_EQ(code_of(get("/helix/pairing")), "no_pairing_needed");
    EXPECT_EQ(code_of(post("/helix/pairing/begin", "{}")), "no_pairing_needed");
}

TEST_F(PairingApiTest, HostileBodiesAreRefusedAndCostNoTry) {
    start_pairing();
    const std::string good_session(32, 'a');
    const std::string good_share(64, '0');
    const std::vector<std::string> begins = {
        "",
        "[]",
        "{}",
        "{\"name\": 1}",
        std::string(70'000, ' ') + "{}",
        R"({"name": "den"})",
        Json({{"name", "den"}, {"session", good_session + "a"}, {"share", good_share}}).dump(),
        Json({{"name", "den"}, {"session", good_session}, {"share", good_share}}).dump(),
        Json({{"name", "den"}, {"session", good_session}, {"share", std::string(64, 'f')}}).dump(),
        Json({{"name", "den"}, {"session", good_session}, {"share", std::string(64, 'g')}}).dump(),
        Json({{"name", "den"}, {"session", 7}, {"share", nullptr}}).dump(),
        std::string(2000, '[')};
    for (const std::string& body : begins) {
        EXPECT_EQ(post("/helix/pairing/begin", body).status, 400) << body.substr(0, 100);
    }
    for (const std::string& name :
         {std::string(), std::string("a b"), std::string("den*"), std::string("x\ny"),
          std::string("\x1b[31m"), std::string(65, 'a')}) {
        const Json body = {{"name", name}, {"session", good_session}, {"share", good_share}};
        const auto answer = post("/helix/pairing/begin", body.dump());
        EXPECT_EQ(answer.status, 400) << name;
        EXPECT_THAT(answer.body, HasSubstr("worker name"));
    }
    const std::string tag(128, '0');
    const std::vector<std::string> ends = {
        "{}", Json({{"session", good_session}, {"confirmation", tag}}).dump(),
        Json({{"session", good_session}, {"confirmation", tag}, {"sealed", "0"}}).dump(),
        Json({{"session", good_session}, {"confirmation", tag}, {"sealed", std::string(4098, '0')}})
            .dump(),
        Json({{"session", good_session}, {"confirmation", "00"}, {"sealed", ""}}).dump()};
    for (const std::string& body : ends) {
        EXPECT_EQ(post("/helix/pairing/finish", body).status, 400) << body.substr(0, 100);
    }
    EXPECT_EQ(look()["tries_left"], 3);
}

}  // namespace
}  // namespace helix::api::pairing_test
