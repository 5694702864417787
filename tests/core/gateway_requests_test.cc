// What a gateway keeps of its clients' requests, and what it passes on, whichever coordinators come
// and go.

#include "core/gateway/gateway_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace helix::core::gateway_requests_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kFirstNumber = 1'000'000;
constexpr std::size_t kAll = 1'000'000;

base::TimePoint at(double seconds) {
    return base::TimePoint{} + base::from_seconds(seconds);
}

Request request_of(std::vector<spec::Token> prompt) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = 10;
    request.sampling.seed = 7;
    return request;
}

class GatewayRequestsTest : public ::testing::Test {
  protected:
    // A coordinator is there; the numbers that it gives are above those of the one before.
    void come() {
        requests_.on_coordinator();
        requests_.on_numbers({RequestId{next_number_}, 100});
        next_number_ += 1000;
    }
    void go(double seconds = 0) { requests_.on_coordinator_gone(at(seconds)); }

    // What a coordinator is given now.
    std::vector<Submitted> submitted() {
        std::vector<Submitted> all;
        for (GatewayMessage& message : requests_.take_messages(kAll)) {
            if (auto* one = std::get_if<Submitted>(&message)) {
                all.push_back(std::move(*one));
            } else {
                others_.push_back(std::move(message));
            }
        }
        return all;
    }
    Submitted submitted_one() {
        auto all = submitted();
        EXPECT_EQ(all.size(), 1U);
        return all.empty() ? Submitted{} : std::move(all.front());
    }
    base::Status tell(std::vector<RequestEvent> events) {
        return requests_.on_events(at(100), {at(100), std::move(events)});
    }
    void tell_well(std::vector<RequestEvent> events) {
        const base::Status told = tell(std::move(events));
        EXPECT_TRUE(told.ok()) << told.error().message;
    }
    // A coordinator says such tokens, one after the other, from this index on.
    void stream(RequestId number, std::int32_t index, const std::vector<spec::Token>& tokens,
                std::int32_t choice = 0) {
        for (const spec::Token token : tokens) {
            tell_well({StreamToken{number, index++, produced(token), choice}});
        }
    }
    static ProducedToken produced(spec::Token token, std::int32_t position = 0) {
        ProducedToken made;
        made.token = token;
        made.position = position;
        return made;
    }
    // The tokens that clients have been told since the last call, of this answer.
    std::vector<spec::Token> heard(RequestId id, std::int32_t choice = 0) {
        std::vector<spec::Token> tokens;
        for (const RequestEvent& event : requests_.take_told()) {
            const auto* token = std::get_if<StreamToken>(&event);
            if (token != nullptr && token->id == id && token->choice == choice) {
                tokens.push_back(token->token.token);
            }
        }
        return tokens;
    }
    template <typename Event>
    std::vector<Event> told() {
        std::vector<Event> all;
        for (const RequestEvent& event : requests_.take_told()) {
            if (const auto* one = std::get_if<Event>(&event)) all.push_back(*one);
        }
        return all;
    }
    // A request that a coordinator has accepted; and its number there.
    std::pair<RequestId, RequestId> accepted(Request request) {
        const RequestId id = requests_.submit(std::move(request));
        const RequestId number = submitted_one().request.id;
        tell_well({AcceptRequest{number}});
        return {id, number};
    }

    GatewayRules rules_{.max_waiting = 3, .coordinator_wait = base::from_seconds(60)};
    // A coordinator of these tests takes no temperature below 0.
    static base::Status check(const Submitted& message) {
        if (message.request.sampling.temperature >= 0) return base::Ok{};
        return base::invalid("temperature is below 0");
    }
    GatewayRequests requests_{rules_, check, at(0)};
    std::uint64_t next_number_ = kFirstNumber;
    std::vector<GatewayMessage> others_;
};

TEST_F(GatewayRequestsTest, AnAnswerGoesOnWithItsNextTokenUnderTheNextCoordinator) {
    come();
    const auto [id, number] = accepted(request_of({5, 6}));
    stream(number, 0, {11, 12, 13});
    EXPECT_THAT(heard(id), ElementsAre(11, 12, 13));
    go();
    EXPECT_THAT(requests_.take_messages(kAll), IsEmpty()) << "nobody is there";
    come();
    const Submitted again = submitted_one();
    EXPECT_EQ(again.request.id, number) << "workers may hold it under this number";
    EXPECT_THAT(again.request.prompt, ElementsAre(5, 6));
    EXPECT_EQ(again.request.sampling.seed, 7U);
    ASSERT_TRUE(again.begun.has_value());
    ASSERT_THAT(again.begun->choices, SizeIs(1));
    EXPECT_THAT(again.begun->choices[0].output, ElementsAre(11, 12, 13));
    EXPECT_FALSE(again.begun->choices[0].ended);
    EXPECT_EQ(again.begun->attempts_before, 1U << 16U);
    stream(number, 3, {14});
    tell_well({FinishRequest{number, FinishReason::length}});
    EXPECT_THAT(heard(id), ElementsAre(14));
    EXPECT_EQ(requests_.open(), 0U);
}

TEST_F(GatewayRequestsTest, WithEveryHandoverTheAttemptsBeginHigher) {
    come();
    accepted(request_of({5}));
    for (std::uint32_t times = 1; times <= 3; ++times) {
        go();
        come();
        const Submitted again = submitted_one();
        ASSERT_TRUE(again.begun.has_value());
        EXPECT_EQ(again.begun->attempts_before, times << 16U);
    }
}

TEST_F(GatewayRequestsTest, TheClientHearsOnceThatItsRequestWasAcceptedAndNoTokenTwice) {
    come();
    const auto [id, number] = accepted(request_of({5}));
    stream(number, 0, {11, 12});
    requests_.take_told();
    go();
    come();
    submitted();
    tell_well({AcceptRequest{number}});
    stream(number, 0, {11, 12, 13});
    EXPECT_THAT(requests_.take_told(), SizeIs(1)) << "the third token alone";
}

TEST_F(GatewayRequestsTest, AnAnswerThatIsAnotherThanTheOneThatWasBegunEndsWithAnError) {
    come();
    const auto [id, number] = accepted(request_of({5}));
    stream(number, 0, {11, 12});
    go();
    come();
    submitted();
    requests_.take_told();
    stream(number, 0, {11, 99});
    const auto ends = told<FinishRequest>();
    ASSERT_THAT(ends, SizeIs(1));
    EXPECT_EQ(ends[0].id, id);
    EXPECT_EQ(ends[0].reason, FinishReason::error);
    EXPECT_THAT(ends[0].error, HasSubstr("another answer"));
    submitted();
    ASSERT_THAT(others_, SizeIs(::testing::Ge(1)));
    EXPECT_EQ(std::get<Ended>(others_.back()).id, number);
}

TEST_F(GatewayRequestsTest, AGapIsTheCoordinatorsFaultAndIsNamed) {
    come();
    const auto [id, number] = accepted(request_of({5}));
    stream(number, 0, {11});
    const base::Status told = tell({StreamToken{number, 2, produced(13), 0}});
    ASSERT_FALSE(told.ok());
    EXPECT_THAT(told.error().message, HasSubstr("token 2"));
    EXPECT_THAT(told.error().message, HasSubstr("expected token 1"));
    EXPECT_FALSE(tell({StreamToken{number, 0, produced(13), 1}}).ok()) << "one answer";
    EXPECT_FALSE(tell({FinishChoice{number, 7}}).ok());
    EXPECT_FALSE(tell({EmbedPrompt{number, {1.0F}}}).ok());
}

TEST_F(GatewayRequestsTest, NothingIsToldOfARequestBeforeItIsAccepted) {
    come();
    requests_.submit(request_of({5}));
    const RequestId number = submitted_one().request.id;
    const base::Status told = tell({StreamToken{number, 0, produced(11), 0}});
    ASSERT_FALSE(told.ok());
    EXPECT_THAT(told.error().message, HasSubstr("before it accepted it"));
    EXPECT_FALSE(tell({RequestRouted{number, {}, 1}}).ok());
    EXPECT_FALSE(tell({FinishRequest{number}}).ok());
}

// The coordinator that is gone may have begun it under its number, unheard.
TEST_F(GatewayRequestsTest, WhatWasNotAcceptedIsAskedForAnewUnderAnotherNumber) {
    come();
    const RequestId id = requests_.submit(request_of({5}));
    const RequestId first = submitted_one().request.id;
    go();
    come();
    const Submitted again = submitted_one();
    EXPECT_FALSE(again.begun.has_value());
    EXPECT_NE(again.request.id, first);
    tell_well({AcceptRequest{first}});  // of nobody any more
    EXPECT_THAT(requests_.take_told(), IsEmpty());
    tell_well({AcceptRequest{again.request.id}});
    const auto heard_of = told<AcceptRequest>();
    ASSERT_THAT(heard_of, SizeIs(1));
    EXPECT_EQ(heard_of[0].id, id);
}

TEST_F(GatewayRequestsTest, ChoicesThatHaveEndedAreHandedOverAsEnded) {
    come();
    Request request = request_of({5});
    request.n = 3;
    const auto [id, number] = accepted(std::move(request));
    stream(number, 0, {11, 12}, 0);
    stream(number, 0, {21}, 1);
    tell_well({FinishChoice{number, 0, FinishReason::stop}});
    requests_.end_choice(id, 2, FinishReason::stop);
    submitted();
    ASSERT_THAT(others_, SizeIs(::testing::Ge(1)));
    EXPECT_EQ(std::get<Ended>(others_.back()).choice, std::optional<std::int32_t>(2));
    const auto ended = told<FinishChoice>();
    ASSERT_THAT(ended, SizeIs(2));
    EXPECT_EQ(ended[1].choice, 2);
    go();
    come();
    const Submitted again = submitted_one();
    ASSERT_TRUE(again.begun.has_value());
    ASSERT_THAT(again.begun->choices, SizeIs(3));
    EXPECT_THAT(again.begun->choices[0].output, ElementsAre(11, 12));
    EXPECT_TRUE(again.begun->choices[0].ended);
    EXPECT_FALSE(again.begun->choices[1].ended);
    EXPECT_TRUE(again.begun->choices[2].ended);
    requests_.take_told();
    tell_well({FinishChoice{number, 0, FinishReason::stop}});
    stream(number, 2, {13}, 0);
    EXPECT_THAT(requests_.take_told(), IsEmpty()) << "it has ended for the client";
}

// They are searched for again, and come to the same.
TEST_F(GatewayRequestsTest, OfBeamsThatBeginAnewTheClientHearsWhatItLacks) {
    come();
    Request request = request_of({5});
    request.n = 2;
    request.beam = BeamSearch{.width = 2};
    const auto [id, number] = accepted(std::move(request));
    stream(number, 0, {11, 12}, 0);
    tell_well({FinishChoice{number, 0, FinishReason::stop}});
    stream(number, 0, {21}, 1);
    go();
    come();
    submitted();
    requests_.take_told();
    stream(number, 0, {11, 12}, 0);
    tell_well({FinishChoice{number, 0, FinishReason::stop}});
    stream(number, 0, {21, 22}, 1);
    EXPECT_THAT(heard(id, 1), ElementsAre(22));
}

TEST_F(GatewayRequestsTest, AnAnswerThatLacksOnlyTheLastWordEndsWithoutACoordinator) {
    come();
    Request request = request_of({5});
    request.n = 2;
    const auto [id, number] = accepted(std::move(request));
    tell_well({FinishChoice{number, 0, FinishReason::stop},
               FinishChoice{number, 1, FinishReason::length}});
    requests_.take_told();
    go();
    const auto ends = told<FinishRequest>();
    ASSERT_THAT(ends, SizeIs(1));
    EXPECT_EQ(ends[0].id, id);
    EXPECT_EQ(ends[0].reason, FinishReason::length);
    EXPECT_EQ(ends[0].error, "");
}

TEST_F(GatewayRequestsTest, LogProbabilitiesOfThePromptGoOnWhereTheyWere) {
    come();
    Request request = request_of({5, 6, 7, 8});
    request.score_prompt = true;
    request.sampling.n_logprobs = 0;
    const auto [id, number] = accepted(std::move(request));
    tell_well({ScoreTokens{number, {produced(6, 1), produced(7, 2)}}});
    requests_.take_told();
    go();
    come();
    EXPECT_EQ(submitted_one().begun->scored, 2);
    tell_well({ScoreTokens{number, {produced(7, 2), produced(8, 3)}}});
    const auto scored = told<ScoreTokens>();
    ASSERT_THAT(scored, SizeIs(1));
    ASSERT_THAT(scored[0].tokens, SizeIs(1));
    EXPECT_EQ(scored[0].tokens[0].position, 3);
    EXPECT_FALSE(tell({ScoreTokens{number, {produced(1, 5)}}}).ok()) << "4 is missing";
}

TEST_F(GatewayRequestsTest, AnEmbeddingIsAskedForAgainUntilTheClientHasIt) {
    come();
    Request request = request_of({5});
    request.max_tokens = 1;
    request.pooling = spec::Pooling::mean;
    const auto [id, number] = accepted(std::move(request));
    go();
    come();
    EXPECT_EQ(submitted_one().request.pooling, spec::Pooling::mean);
    tell_well({EmbedPrompt{number, {1.0F, 2.0F}}});
    EXPECT_THAT(told<EmbedPrompt>(), SizeIs(1));
    go();
    EXPECT_THAT(told<FinishRequest>(), SizeIs(1)) << "there is nothing more to come";
    EXPECT_EQ(requests_.open(), 0U);
}

TEST_F(GatewayRequestsTest, TheQueueForACoordinatorIsBounded) {
    for (int i = 0; i < 3; ++i) requests_.submit(request_of({5}));
    EXPECT_TRUE(requests_.queue_is_full());
    EXPECT_THAT(requests_.take_told(), IsEmpty());
    const RequestId fourth = requests_.submit(request_of({5}));
    const auto rejected = told<RejectRequest>();
    ASSERT_THAT(rejected, SizeIs(1));
    EXPECT_EQ(rejected[0].id, fourth);
    EXPECT_EQ(rejected[0].reason, RejectReason::queue_full);
    EXPECT_EQ(rejected[0].retry_after_s, 1);
    EXPECT_THAT(rejected[0].message, HasSubstr("3 requests wait"));
    come();
    EXPECT_THAT(submitted(), SizeIs(3));
    EXPECT_FALSE(requests_.queue_is_full());
}

// Streams that were begun are no part of the queue.
TEST_F(GatewayRequestsTest, WhatWasAcceptedGoesFirstAndTakesNoPlaceInTheQueue) {
    come();
    for (int i = 0; i < 5; ++i) accepted(request_of({5}));
    go();
    const RequestId fresh = requests_.submit(request_of({9}));
    EXPECT_FALSE(requests_.queue_is_full());
    EXPECT_THAT(told<RejectRequest>(), IsEmpty());
    come();
    const auto all = submitted();
    ASSERT_THAT(all, SizeIs(6));
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(all[i].begun.has_value()) << i;
    EXPECT_FALSE(all[5].begun.has_value());
    EXPECT_THAT(all[5].request.prompt, ElementsAre(9));
    EXPECT_NE(fresh.value, 0U);
}

TEST_F(GatewayRequestsTest, NumbersAreAskedForWhileSomeAreLeftAndWhatFindsNoneWaits) {
    requests_.on_coordinator();
    requests_.on_numbers({RequestId{kFirstNumber}, 1});
    requests_.submit(request_of({5}));
    requests_.submit(request_of({6}));
    EXPECT_THAT(submitted(), SizeIs(1)) << "for one there is a number";
    ASSERT_THAT(others_, SizeIs(1));
    const auto asked = std::get<RequestNumbers>(others_[0]);
    EXPECT_EQ(asked.first.value, 0U);
    EXPECT_GE(asked.count, 1U);
    EXPECT_THAT(submitted(), IsEmpty());
    EXPECT_THAT(others_, SizeIs(1)) << "it is asked once";
    requests_.on_numbers({RequestId{kFirstNumber + 500}, 10'000});
    EXPECT_EQ(submitted_one().request.id.value, kFirstNumber + 500);
    EXPECT_THAT(others_, SizeIs(1)) << "there are enough";
}

TEST_F(GatewayRequestsTest, NoNumberIsGivenTwice) {
    requests_.on_coordinator();
    requests_.on_numbers({RequestId{kFirstNumber}, 2});
    requests_.on_numbers({RequestId{kFirstNumber}, 3});  // of a coordinator that errs
    for (int i = 0; i < 3; ++i) requests_.submit(request_of({5}));
    const auto all = submitted();
    ASSERT_THAT(all, SizeIs(3));
    EXPECT_NE(all[0].request.id, all[1].request.id);
    EXPECT_NE(all[1].request.id, all[2].request.id);
    EXPECT_NE(all[0].request.id, all[2].request.id);
}

TEST_F(GatewayRequestsTest, WithoutACoordinatorForTooLongEverythingEndsWithWords) {
    come();
    const auto [id, number] = accepted(request_of({5}));
    go(100);
    const RequestId fresh = requests_.submit(request_of({6}));
    requests_.take_told();
    requests_.on_tick(at(159));
    EXPECT_THAT(requests_.take_told(), IsEmpty());
    requests_.on_tick(at(161));
    std::optional<FinishRequest> end;
    std::optional<RejectRequest> rejection;
    for (const RequestEvent& event : requests_.take_told()) {
        if (const auto* one = std::get_if<FinishRequest>(&event)) end = *one;
        if (const auto* one = std::get_if<RejectRequest>(&event)) rejection = *one;
    }
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->id, id);
    EXPECT_EQ(end->reason, FinishReason::error);
    EXPECT_THAT(end->error, HasSubstr("for 60 s no other was found"));
    ASSERT_TRUE(rejection.has_value());
    EXPECT_EQ(rejection->id, fresh);
    EXPECT_EQ(rejection->reason, RejectReason::unavailable);
    EXPECT_EQ(requests_.open(), 0U);

    requests_.submit(request_of({7}));
    const auto later = told<RejectRequest>();
    ASSERT_THAT(later, SizeIs(1));
    EXPECT_EQ(later[0].reason, RejectReason::unavailable);
    come();
    requests_.submit(request_of({8}));
    EXPECT_THAT(submitted(), SizeIs(1)) << "one is there again";
}

TEST_F(GatewayRequestsTest, ThatAClientHasLeftIsSaidToWhoeverHasTheRequest) {
    come();
    const auto [id, number] = accepted(request_of({5}));
    submitted();
    others_.clear();
    requests_.end(id, FinishReason::cancelled);
    submitted();
    ASSERT_THAT(others_, SizeIs(1));
    EXPECT_EQ(std::get<Ended>(others_[0]).id, number);
    tell_well({StreamToken{number, 0, produced(11), 0}});  // it was under way
    EXPECT_THAT(told<StreamToken>(), IsEmpty());

    const RequestId other = accepted(request_of({6})).first;
    go();
    requests_.end(other, FinishReason::stop);
    come();
    others_.clear();
    EXPECT_THAT(submitted(), IsEmpty()) << "nobody waits for it";
    for (const GatewayMessage& message : others_) {
        EXPECT_EQ(std::get_if<Ended>(&message), nullptr);
    }
}

TEST_F(GatewayRequestsTest, ARefusalToGoOnEndsAnAnswerAndOneOfANewRequestIsTold) {
    come();
    const auto [id, number] = accepted(request_of({5}));
    requests_.submit(request_of({6}));
    const RequestId other = submitted_one().request.id;
    requests_.take_told();
    tell_well({RejectRequest{other, RejectReason::too_long, "too long", 0}});
    const auto rejected = told<RejectRequest>();
    ASSERT_THAT(rejected, SizeIs(1));
    EXPECT_EQ(rejected[0].reason, RejectReason::too_long);
    go();
    come();
    submitted();
    tell_well({RejectRequest{number, RejectReason::too_long, "too long", 0}});
    const auto ends = told<FinishRequest>();
    ASSERT_THAT(ends, SizeIs(1));
    EXPECT_EQ(ends[0].id, id);
    EXPECT_THAT(ends[0].error, HasSubstr("refuses to go on: too long"));
}

TEST_F(GatewayRequestsTest, WhatStagesDidIsToldByOurClockEvenWhenTheRequestIsOver) {
    come();
    Request request = request_of({5});
    request.timed = true;
    const auto [id, number] = accepted(std::move(request));
    tell_well({FinishRequest{number, FinishReason::length}});
    requests_.take_told();
    StageTimed timed;
    timed.id = number;
    timed.first = at(1000);
    timed.last = at(1001);
    StageTimed of_another = timed;
    of_another.id = RequestId{42};
    const auto taken = requests_.on_events(at(50), {at(1002), {timed, of_another}});
    ASSERT_TRUE(taken.ok()) << taken.error().message;
    const auto heard_of = told<StageTimed>();
    ASSERT_THAT(heard_of, SizeIs(1)) << "and nothing of requests of others";
    EXPECT_EQ(heard_of[0].id, id);
    EXPECT_EQ(heard_of[0].first, at(48));
    EXPECT_EQ(heard_of[0].last, at(49));
}

TEST_F(GatewayRequestsTest, WhenItIsClosedEverythingEndsAndNothingMoreIsTaken) {
    come();
    accepted(request_of({5}));
    requests_.take_told();
    requests_.close("another model is served");
    const auto ends = told<FinishRequest>();
    ASSERT_THAT(ends, SizeIs(1));
    EXPECT_EQ(ends[0].error, "another model is served");
    requests_.submit(request_of({6}));
    const auto rejected = told<RejectRequest>();
    ASSERT_THAT(rejected, SizeIs(1));
    EXPECT_EQ(rejected[0].message, "another model is served");
}

// A coordinator would cut off whoever sends it, and with it everybody else's answers.
TEST_F(GatewayRequestsTest, WhatNoCoordinatorWouldTakeIsNotSent) {
    come();
    Request wrong = request_of({5});
    wrong.sampling.temperature = -1;
    const RequestId id = requests_.submit(std::move(wrong));
    requests_.submit(request_of({6}));
    EXPECT_THAT(submitted(), SizeIs(1));
    const auto rejected = told<RejectRequest>();
    ASSERT_THAT(rejected, SizeIs(1));
    EXPECT_EQ(rejected[0].id, id);
    EXPECT_EQ(rejected[0].reason, RejectReason::never_fits);
    EXPECT_THAT(rejected[0].message, HasSubstr("temperature"));
}

TEST_F(GatewayRequestsTest, MessagesAreTakenAFewAtATimeInOrder) {
    come();
    for (spec::Token i = 0; i < 3; ++i) requests_.submit(request_of({i}));
    std::vector<spec::Token> order;
    for (int turns = 0; turns < 10 && order.size() < 3; ++turns) {
        const auto some = requests_.take_messages(1);
        ASSERT_LE(some.size(), 1U);
        for (const GatewayMessage& message : some) {
            if (const auto* one = std::get_if<Submitted>(&message)) {
                order.push_back(one->request.prompt[0]);
            }
        }
    }
    EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace helix::core::gateway_requests_test
