// Idempotency-Key and Last-Event-ID: an answer that is asked for again.

#include "api/answer_key.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tool_codec.h"

namespace helix::api::answer_key_test {
namespace {

using core::FinishReason;

const std::string kKey = "Idempotency-Key: one\r\n";

std::string going_on_from(const std::string& id) {
    return kKey + "Last-Event-ID: " + id + "\r\n";
}

// A stream's events with their ids; "" where there is none.
struct Event {
    std::string id;
    std::string text;  // the rest of it
};

std::vector<Event> events_of(std::string_view body) {
    std::vector<Event> all;
    while (!body.empty()) {
        const std::size_t end = body.find("\n\n");
        if (end == std::string_view::npos) {
            ADD_FAILURE() << "this is no whole event: " << body;
            break;
        }
        Event event{"", std::string(body.substr(0, end + 2))};
        body.remove_prefix(end + 2);
        if (event.text.starts_with("id: ")) {
            const std::size_t line = event.text.find('\n');
            event.id = event.text.substr(4, line - 4);
            event.text.erase(0, line + 1);
        }
        all.push_back(std::move(event));
    }
    return all;
}

std::string text_of(const std::vector<Event>& events, std::size_t from = 0) {
    std::string text;
    for (std::size_t i = from; i < events.size(); ++i) {
        if (!events[i].id.empty()) text += "id: " + events[i].id + "\n";
        text += events[i].text;
    }
    return text;
}

class AnswerKeyTest : public ToolCalls {
  protected:
    using Play = std::function<void(FakeRequest&)>;

    net::TestClient::Response ask(const std::string& path, const std::string& body,
                                  const std::string& headers, const Play& play) {
        auto c = client();
        c.request("POST", path, body, headers);
        auto request = service_.next();
        EXPECT_TRUE(request) << path << headers;
        if (!request) return {};
        asked_ = request->request;
        play(*request);
        return c.read_response();
    }
    // Asks for a stream, and for the rest of it at each of its events.
    void expect_to_go_on_anywhere(const std::string& path, const std::string& body,
                                  const Play& play) {
        SCOPED_TRACE(path + body);
        const auto first = ask(path, body, kKey, play);
        ASSERT_EQ(first.status, 200) << first.body;
        const std::vector<Event> all = events_of(first.body);
        ASSERT_GE(all.size(), 4U) << first.body;
        std::int64_t number = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i].text.starts_with("event: ping")) {
                EXPECT_EQ(all[i].id, "");
                continue;
            }
            const auto place = parse_stream_place(all[i].id);
            ASSERT_TRUE(place) << all[i].id << all[i].text;
            EXPECT_EQ(place->events, std::vector<std::int64_t>{++number});
            // A ping that comes with an event is not repeated without it.
            std::size_t next = i + 1;
            while (next < all.size() && all[next].id.empty()) ++next;
            const auto rest = ask(path, body, going_on_from(all[i].id), play);
            EXPECT_EQ(rest.status, 200);
            EXPECT_EQ(rest.header("content-type"), "text/event-stream");
            EXPECT_EQ(rest.body, text_of(all, next)) << "from " << all[i].id;
        }
        const std::string& id = all.front().id;
        const auto nothing =
            ask(path, body, going_on_from(id.substr(0, id.find('-')) + "-0"), play);
        EXPECT_EQ(nothing.body, first.body) << "the client has no event";
    }

    core::Request asked_;
};

constexpr const char* kHi = R"("messages":[{"role":"user","content":"Hi"}])";

std::string chat(const std::string& more) {
    return std::string("{") + kHi + more + "}";
}

void say_hello(FakeRequest& request) {
    request.route(16);
    request.say("Hel\xC3\xA9o");
    request.token(kByteEnd);
    request.finish(FinishReason::stop);
}

TEST_F(AnswerKeyTest, AKeyMakesTheSeedAndTheIdOfAnAnswer) {
    const auto first = ask("/v1/completions", R"({"prompt":"a"})", kKey, say_hello);
    const std::uint64_t seed = asked_.sampling.seed;
    const auto again = ask("/v1/completions", R"({"prompt":"a"})", kKey, say_hello);
    EXPECT_EQ(asked_.sampling.seed, seed);
    EXPECT_EQ(again.body, first.body) << "with its id";
    EXPECT_EQ(first.body.find("id: "), std::string::npos);
    // Other prompts have the same seed, but not the same id.
    const auto other = ask("/v1/completions", R"({"prompt":"b"})", kKey, say_hello);
    EXPECT_EQ(asked_.sampling.seed, seed);
    EXPECT_NE(Json::parse(other.body)["id"], Json::parse(first.body)["id"]);
    const auto key =
        ask("/v1/completions", R"({"prompt":"a"})", "Idempotency-Key: two\r\n", say_hello);
    EXPECT_NE(asked_.sampling.seed, seed);
    EXPECT_NE(Json::parse(key.body)["id"], Json::parse(first.body)["id"]);
    ask("/v1/completions", R"({"prompt":"a"})", "", say_hello);
    EXPECT_NE(asked_.sampling.seed, seed);
}

TEST_F(AnswerKeyTest, ASeedOfTheRequestStays) {
    ask("/v1/completions", R"({"prompt":"a","seed":5})", kKey, say_hello);
    EXPECT_EQ(asked_.sampling.seed, 5U);
}

TEST_F(AnswerKeyTest, TheSeedOfAKeyIsTheSameEverywhere) {
    ask("/v1/completions", R"({"prompt":"a"})", kKey, say_hello);
    EXPECT_EQ(asked_.sampling.seed, 9757735415103408178U) << "as on all machines";
}

TEST_F(AnswerKeyTest, EveryProtocolDrawsByTheKey) {
    const std::pair<const char*, std::string> requests[] = {
        {"/v1/completions", R"({"prompt":"a"})"},
        {"/v1/chat/completions", chat("")},
        {"/v1/responses", R"({"input":"Hi"})"},
        {"/v1/messages", chat(R"(,"max_tokens":20)")},
        {"/api/chat", chat(R"(,"stream":false)")},
        {"/api/generate", R"({"prompt":"a","stream":false})"},
    };
    ask("/v1/completions", R"({"prompt":"a"})", kKey, say_hello);
    const std::uint64_t seed = asked_.sampling.seed;
    for (const auto& [path, body] : requests) {
        const auto first = ask(path, body, kKey, say_hello);
        EXPECT_EQ(first.status, 200) << first.body;
        EXPECT_EQ(asked_.sampling.seed, seed) << path;
        const Json answer = Json::parse(first.body);
        if (!answer.contains("id")) continue;  // Ollama's have none
        EXPECT_EQ(Json::parse(ask(path, body, kKey, say_hello).body)["id"], answer["id"]) << path;
    }
}

TEST_F(AnswerKeyTest, AnotherServerOfTheModelGivesTheSameBytes) {
    const std::string body = R"({"prompt":"a","stream":true})";
    const auto here = ask("/v1/completions", body, kKey, say_hello);
    options_.seed = 99;
    auto other = ApiServer::start(options_, models());
    ASSERT_TRUE(other.ok());
    net::TestClient c((*other)->port());
    c.request("POST", "/v1/completions", body, kKey);
    auto request = service_.next();
    ASSERT_TRUE(request);
    say_hello(*request);
    EXPECT_EQ(c.read_response().body, here.body);
}

TEST_F(AnswerKeyTest, WithoutAKeyEventsHaveNoIdsAndTheLastOneIsNotAskedAfter) {
    for (const char* headers : {"", "Last-Event-ID: 7\r\n"}) {
        const auto response =
            ask("/v1/completions", R"({"prompt":"a","stream":true})", headers, say_hello);
        EXPECT_EQ(response.status, 200);
        EXPECT_EQ(response.body.find("id: "), std::string::npos);
    }
}

TEST_F(AnswerKeyTest, AStreamGoesOnFromEachOfItsEvents) {
    expect_to_go_on_anywhere("/v1/completions", R"({"prompt":"a","stream":true,"echo":true,
        "stream_options":{"include_usage":true}})",
                             say_hello);
    expect_to_go_on_anywhere("/v1/completions", R"({"prompt":"abc","stream":true,"echo":true,
        "logprobs":2,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})",
                             [](FakeRequest& request) {
                                 request.route(2);
                                 request.score();
                                 request.say("x\xC3\xA9y");
                                 request.finish(FinishReason::length);
                             });
    expect_to_go_on_anywhere("/v1/chat/completions",
                             chat(R"(,"stream":true,"stream_options":{"include_usage":true})"),
                             say_hello);
    expect_to_go_on_anywhere("/v1/responses", R"({"input":"Hi","stream":true})", say_hello);
    expect_to_go_on_anywhere("/v1/messages", chat(R"(,"stream":true,"max_tokens":20)"), say_hello);
}

TEST_F(AnswerKeyTest, WhatIsHeldBackForAStopStringIsCountedWhenItComes) {
    const auto play = [](FakeRequest& request) {
        request.say("a EN END");
        request.finish(FinishReason::stop);  // which is under way when the string is found
    };
    expect_to_go_on_anywhere("/v1/completions", R"({"prompt":"a","stream":true,"stop":" END"})",
                             play);
    expect_to_go_on_anywhere(
        "/v1/messages", chat(R"(,"stream":true,"max_tokens":20,"stop_sequences":[" END"])"), play);
}

TEST_F(AnswerKeyTest, ThoughtsAndCallsGoOnFromEachOfTheirEvents) {
    model_.context_length = 2000;
    const auto play = [](FakeRequest& request) {
        request.route(16);
        request.say(
            "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n"
            R"({"name": "look", "arguments": {"at": "it"}})"
            "\n</tool_call>");
        request.token(kByteEnd);
        request.finish(FinishReason::stop);
    };
    expect_to_go_on_anywhere("/v1/chat/completions", body(R"(,"stream":true)"), play);
    expect_to_go_on_anywhere("/v1/messages", R"({"messages":[{"role":"user","content":"Hi"}],
        "stream":true,"max_tokens":150,
        "tools":[{"name":"look","input_schema":{"type":"object"}}]})",
                             play);
    expect_to_go_on_anywhere("/v1/responses", R"({"input":"Hi","stream":true,
        "tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]})",
                             play);
}

TEST_F(AnswerKeyTest, CallsThatBreakOffGoOnFromEachOfTheirEvents) {
    const auto play = [](FakeRequest& request) {
        request.say(R"(<tool_call>{"name": "look", "arguments": {"at": )");
        request.finish(FinishReason::length);
    };
    expect_to_go_on_anywhere("/v1/chat/completions", body(R"(,"stream":true)"), play);
}

// The choices of a request mix as they come; here one after the other, or in turn.
class KeyedChoicesTest : public AnswerKeyTest {
  protected:
    static constexpr std::int32_t kChoices = 3;

    static void one_by_one(FakeRequest& request) {
        for (std::int32_t i = kChoices - 1; i >= 0; --i) {
            request.say(text(i), i);
            request.finish_choice(i, FinishReason::length);
        }
        request.finish(FinishReason::length);
    }
    static void in_turn(FakeRequest& request) {
        for (std::size_t at = 0; at < text(0).size(); ++at) {
            for (std::int32_t i = 0; i < kChoices; ++i) request.say(text(i).substr(at, 1), i);
        }
        for (std::int32_t i = 0; i < kChoices; ++i) request.finish_choice(i, FinishReason::length);
        request.finish(FinishReason::length);
    }
    static std::string text(std::int32_t choice) {
        return std::string(3, static_cast<char>('a' + choice)) + "\xC3\xA9";
    }
    // The events of each choice, in their order; what is of no choice is of -1.
    static std::map<int, std::vector<std::string>> by_choice(const std::vector<Event>& events) {
        std::map<int, std::vector<std::string>> sorted;
        for (const Event& event : events) {
            const std::size_t at = event.text.find("\"index\":");
            const int choice = at == std::string::npos ? -1 : std::stoi(event.text.substr(at + 8));
            sorted[choice].push_back(event.text);
        }
        return sorted;
    }
};

TEST_F(KeyedChoicesTest, EachChoiceGoesOnWhereverItWasHoweverTheyMix) {
    const std::string asked =
        chat(R"(,"stream":true,"n":3,"max_tokens":5,"stream_options":{"include_usage":true})");
    const std::string path = "/v1/chat/completions";
    const std::vector<Event> all = events_of(ask(path, asked, kKey, in_turn).body);
    const auto whole = by_choice(all);
    ASSERT_EQ(whole.size(), kChoices + 1U);
    EXPECT_EQ(whole.at(-1).back(), "data: [DONE]\n\n");
    for (std::size_t had = 1; had <= all.size(); ++had) {
        const std::vector<Event> before(all.begin(),
                                        all.begin() + static_cast<std::ptrdiff_t>(had));
        const auto rest =
            events_of(ask(path, asked, going_on_from(before.back().id), one_by_one).body);
        std::vector<Event> joined = before;
        joined.insert(joined.end(), rest.begin(), rest.end());
        EXPECT_EQ(by_choice(joined), whole) << "after " << before.back().id;
        EXPECT_EQ(joined.back().id, all.back().id);
        EXPECT_EQ(joined.back().text, "data: [DONE]\n\n");
        if (rest.size() < 2) continue;
        // It breaks off a second time, in the middle.
        std::vector<Event> twice = before;
        twice.insert(twice.end(), rest.begin(),
                     rest.begin() + static_cast<std::ptrdiff_t>(rest.size() / 2));
        const auto last = events_of(ask(path, asked, going_on_from(twice.back().id), in_turn).body);
        twice.insert(twice.end(), last.begin(), last.end());
        EXPECT_EQ(by_choice(twice), whole) << "after " << before.back().id << " and again";
    }
}

TEST_F(KeyedChoicesTest, OfVeryManyChoicesEventsHaveNoIds) {
    const std::string asked = R"({"prompt":"a","stream":true,"n":33,"max_tokens":2})";
    const auto play = [](FakeRequest& request) { request.finish(FinishReason::length); };
    const auto response = ask("/v1/completions", asked, kKey, play);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body.find("id: "), std::string::npos);
    const auto refused =
        post("/v1/completions", asked, going_on_from("0123456789ab.0123456789ab-1"));
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("more than 32 choices"), std::string::npos) << refused.body;
}

TEST_F(AnswerKeyTest, AnotherRequestOrAnotherModelIsToldApart) {
    const std::string path = "/v1/completions";
    const std::string asked = R"({"prompt":"a","stream":true})";
    const std::vector<Event> all = events_of(ask(path, asked, kKey, say_hello).body);
    const std::string id = all[1].id;
    const auto code = [](const net::TestClient::Response& response) {
        EXPECT_EQ(response.status, 409) << response.body;
        return Json::parse(response.body)["error"].value("code", "");
    };
    EXPECT_EQ(code(post(path, R"({"prompt":"b","stream":true})", going_on_from(id))),
              "another_request");
    EXPECT_EQ(code(post(path, asked, "Idempotency-Key: two\r\nLast-Event-ID: " + id + "\r\n")),
              "another_request");
    EXPECT_EQ(code(post("/v1/chat/completions", chat(R"(,"stream":true)"), going_on_from(id))),
              "another_request");
    model_.content_hash = "another";
    auto other = ApiServer::start(options_, models());
    ASSERT_TRUE(other.ok());
    server_ = std::move(*other);
    const auto refused = post(path, asked, going_on_from(id));
    EXPECT_EQ(code(refused), "another_model");
    EXPECT_NE(refused.body.find("another content"), std::string::npos) << refused.body;
    const auto both = post(path, R"({"prompt":"b","stream":true})", going_on_from(id));
    EXPECT_EQ(code(both), "another_model");
    EXPECT_NE(both.body.find("of another request"), std::string::npos) << both.body;
}

TEST_F(AnswerKeyTest, WhatMakesAModelsTokensIsInItsPartOfTheId) {
    const auto fingerprint = [this] {
        auto server = ApiServer::start(options_, models());
        EXPECT_TRUE(server.ok());
        server_ = std::move(*server);
        const auto response =
            ask("/v1/completions", R"({"prompt":"a","stream":true})", kKey, say_hello);
        return parse_stream_place(events_of(response.body).front().id).value().model;
    };
    std::vector<std::string> found{fingerprint()};
    model_.n_params = 7;
    found.push_back(fingerprint());
    model_.content_hash = "00ff";
    found.push_back(fingerprint());
    model_.kv_type = "q8";
    found.push_back(fingerprint());
    model_.context_length = 300;
    found.push_back(fingerprint());
    form_ = "mistral";
    found.push_back(fingerprint());
    EXPECT_EQ(fingerprint(), found.back());
    model_.name = "called-otherwise";
    model_.n_params = 8;
    EXPECT_EQ(fingerprint(), found.back()) << "its content is known";
    std::sort(found.begin(), found.end());
    EXPECT_EQ(std::unique(found.begin(), found.end()), found.end());
}

TEST_F(AnswerKeyTest, WrongHeadersAreNamed) {
    const std::string place = "0123456789ab.0123456789ab-";
    const std::string stream = R"({"prompt":"a","stream":true})";
    const auto expect = [&](const std::string& headers, const char* param, const std::string& asked,
                            const std::string& path) {
        const auto response = post(path, asked, headers);
        EXPECT_EQ(response.status, 400) << headers;
        EXPECT_NE(response.body.find(param), std::string::npos) << headers << response.body;
    };
    for (const std::string& key : {std::string(), std::string(256, 'k'), std::string("\xC3\xA9")}) {
        expect("Idempotency-Key: " + key + "\r\n", "Idempotency-Key", stream, "/v1/completions");
        expect("Idempotency-Key: " + key + "\r\n", "Idempotency-Key", chat(R"(,"max_tokens":9)"),
               "/v1/messages");
    }
    const std::string malformed[] = {"",
                                     "7",
                                     place,
                                     place + "x",
                                     place + "1.",
                                     place + ".1",
                                     place + "-1",
                                     place + "+1",
                                     "0123456789AB.0123456789ab-1",
                                     "0123456789ab.0123456789ab",
                                     "0123456789ab-1",
                                     "0123456789abc.0123456789ab-1",
                                     place + std::string(16, '1')};
    for (const std::string& id : malformed) {
        expect(going_on_from(id), "Last-Event-ID", stream, "/v1/completions");
    }
    // Answers that are no events.
    expect(going_on_from(place + "1"), "Last-Event-ID", R"({"prompt":"a"})", "/v1/completions");
    expect(going_on_from(place + "1"), "Last-Event-ID", R"({"prompt":"a"})", "/api/generate");
    EXPECT_EQ(ask("/v1/completions", stream, "Idempotency-Key: " + std::string(255, '~') + "\r\n",
                  say_hello)
                  .status,
              200);
}

TEST_F(AnswerKeyTest, MoreChoicesThanThereAreAreRefused) {
    const std::string asked = R"({"prompt":"a","stream":true})";
    const auto all = events_of(ask("/v1/completions", asked, kKey, say_hello).body);
    const auto refused = post("/v1/completions", asked, going_on_from(all[0].id + ".1"));
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("of 2 choices, and there are 1"), std::string::npos);
}

TEST_F(AnswerKeyTest, WhoSaysToHaveMoreThanThereIsIsToldSo) {
    const std::string asked = R"({"prompt":"a","stream":true})";
    const auto all = events_of(ask("/v1/completions", asked, kKey, say_hello).body);
    const std::string id = all.back().id + "0";
    const auto response = ask("/v1/completions", asked, going_on_from(id), say_hello);
    EXPECT_EQ(response.status, 200);
    const auto rest = events_of(response.body);
    ASSERT_EQ(rest.size(), 1U);
    EXPECT_EQ(rest[0].id, "");
    EXPECT_NE(rest[0].text.find("fewer events"), std::string::npos) << rest[0].text;
}

TEST_F(AnswerKeyTest, AnErrorHasNoIdAndTheStreamGoesOnFromWhatCameBeforeIt) {
    const std::string path = "/v1/completions";
    const std::string asked = R"({"prompt":"a","stream":true})";
    const std::vector<Event> all = events_of(ask(path, asked, kKey, say_hello).body);
    const auto broken = events_of(ask(path, asked, kKey, [](FakeRequest& request) {
                                      request.say("He");
                                      request.finish(FinishReason::error, "w1 died");
                                  }).body);
    ASSERT_EQ(broken.size(), 3U);
    EXPECT_EQ(broken[2].id, "");
    EXPECT_NE(broken[2].text.find("w1 died"), std::string::npos);
    EXPECT_EQ(ask(path, asked, going_on_from(broken[1].id), say_hello).body, text_of(all, 2));
}

TEST_F(AnswerKeyTest, PingsBetweenIdsAreOneLine) {
    options_.ping_interval = base::from_ms(20);
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})", kKey);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("x");
    std::string body;
    std::string chunk;
    c.read_head();
    while (body.find(": ping\n") == std::string::npos && c.read_chunk(chunk)) body += chunk;
    ASSERT_NE(body.find(": ping\n"), std::string::npos);
    request->say("y");
    request->finish(FinishReason::length);
    while (c.read_chunk(chunk) && !chunk.empty()) body += chunk;
    EXPECT_EQ(body.find(": ping\n\n"), std::string::npos) << body;
    for (std::size_t at = body.find(": ping\n"); at != std::string::npos;
         at = body.find(": ping\n")) {
        body.erase(at, 7);
    }
    const std::vector<Event> all = events_of(body);
    ASSERT_EQ(all.size(), 4U);
    for (const Event& event : all) EXPECT_NE(event.id, "") << event.text;
}

}  // namespace
}  // namespace helix::api::answer_key_test
