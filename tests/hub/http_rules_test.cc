#include "hub/http_rules.h"

#include <gtest/gtest.h>

namespace helix::hub::http_rules_test {
namespace {

constexpr const char* kAt = "https://bytes.example/x?Signature=secret";

HttpHead head(int status, std::map<std::string, std::string, std::less<>> headers = {}) {
    return {status, 1, std::move(headers)};
}

Next next(const ByteRequest& request, const HttpHead& answer) {
    return judge_bytes(request, answer, kAt).next;
}

TEST(HttpRules, ContentRanges) {
    EXPECT_EQ(parse_content_range("bytes 5-9/20"), (ContentRange{5, 9, 20}));
    EXPECT_EQ(parse_content_range("bytes 0-0/*"), (ContentRange{0, 0, std::nullopt}));
    for (const char* text :
         {"", "bytes */20", "bytes 9-5/20", "bytes 5-20/20", "5-9/20", "bytes 5-9", "bytes -9/20",
          "bytes 5-9/x", "bytes 5-99999999999999999999/1"}) {
        EXPECT_FALSE(parse_content_range(text)) << text;
    }
}

TEST(HttpRules, ARangeIsTakenOnlyWhenItIsTheRightOne) {
    const ByteRequest rest{100, std::nullopt, 200, false};
    EXPECT_EQ(next(rest, head(206, {{"content-range", "bytes 100-199/200"}})), Next::take);
    EXPECT_EQ(next(rest, head(206, {{"content-range", "bytes 100-150/200"}})), Next::take);
    EXPECT_EQ(next(rest, head(206, {{"content-range", "bytes 0-199/200"}})), Next::ask_from_0);
    EXPECT_EQ(next(rest, head(206, {{"content-range", "bytes 100-299/300"}})), Next::ask_from_0);
    EXPECT_EQ(next(rest, head(206)), Next::ask_from_0);
    EXPECT_EQ(next(rest, head(206, {{"content-range", "bytes 100-199/200"},
                                    {"content-encoding", "gzip"}})),
              Next::ask_from_0);
    const ByteRequest piece{100, 150, 200, false};
    EXPECT_EQ(next(piece, head(206, {{"content-range", "bytes 100-149/200"}})), Next::take);
    EXPECT_EQ(next(piece, head(206, {{"content-range", "bytes 100-150/200"}})), Next::ask_from_0);
}

TEST(HttpRules, AWholeFileInTheAnswerStartsOver) {
    EXPECT_EQ(next({0, std::nullopt, 200, false}, head(200)), Next::take);
    EXPECT_EQ(next({100, std::nullopt, 200, false}, head(200)), Next::start_over);
    EXPECT_EQ(next({0, std::nullopt, 200, false}, head(200, {{"content-length", "200"}})),
              Next::take);
    // A packed body has another length than the file.
    EXPECT_EQ(next({0, std::nullopt, 200, false},
                   head(200, {{"content-length", "50"}, {"content-encoding", "gzip"}})),
              Next::take);
    const Verdict lie =
        judge_bytes({0, std::nullopt, 200, false}, head(200, {{"content-length", "199"}}), kAt);
    EXPECT_EQ(lie.next, Next::give_up);
    EXPECT_EQ(lie.error.message, "https://bytes.example/x: sends 199 bytes, 200 were promised");
}

TEST(HttpRules, RefusalsOfTheBytes) {
    const ByteRequest own{100, std::nullopt, 200, false};
    const ByteRequest given{100, std::nullopt, 200, true};
    EXPECT_EQ(next(own, head(416)), Next::ask_from_0);
    EXPECT_EQ(next(given, head(403)), Next::new_address);
    EXPECT_EQ(next(own, head(403)), Next::give_up);
    EXPECT_EQ(next(own, head(404)), Next::give_up);
    EXPECT_EQ(next(own, head(204)), Next::give_up);
    EXPECT_EQ(next(own, head(500)), Next::try_again);
    EXPECT_EQ(next(own, head(502)), Next::try_again);
    EXPECT_EQ(next(own, head(307)), Next::follow);
    EXPECT_EQ(next(own, head(429)), Next::wait);
}

TEST(HttpRules, HowLongToWait) {
    EXPECT_EQ(asked_pause(head(429, {{"retry-after", "7"}})), base::from_seconds(7));
    EXPECT_EQ(asked_pause(head(429, {{"ratelimit", "\"resolvers\";r=0;t=55"}})),
              base::from_seconds(56));
    EXPECT_EQ(asked_pause(head(429, {{"retry-after", "999999"}})), base::from_seconds(600));
    EXPECT_FALSE(asked_pause(head(429)));
    EXPECT_FALSE(asked_pause(head(429, {{"ratelimit", "\"api\";r=0;t=x"}, {"retry-after", "-1"}})));
    EXPECT_EQ(judge_small(head(503, {{"retry-after", "3"}}), kAt).next, Next::wait);
    EXPECT_EQ(judge_small(head(503), kAt).next, Next::try_again);
    EXPECT_EQ(judge_small(head(429), kAt).pause, base::from_seconds(30));
}

TEST(HttpRules, TheNextPageOfAList) {
    EXPECT_EQ(next_page("<https://h/x?c=a,b>; rel=\"next\""), "https://h/x?c=a,b");
    EXPECT_EQ(next_page("<https://h/1>; rel=\"prev\", <https://h/3>; rel=\"next\""), "https://h/3");
    EXPECT_EQ(next_page("<https://h/1>; rel=\"prev\""), "");
    EXPECT_EQ(next_page("nonsense"), "");
    EXPECT_EQ(next_page(""), "");
}

TEST(HttpRules, AddressesThatAreFollowed) {
    const auto to = [](const std::string& from, const std::string& location) {
        const auto address = follow_address(from, location);
        return address.ok() ? *address : "error";
    };
    EXPECT_EQ(to("https://h/a/b?x=1", "/c"), "https://h/c");
    EXPECT_EQ(to("https://h/a/b", "c?y=2"), "https://h/a/c?y=2");
    EXPECT_EQ(to("http://h/a", "https://other:8443/c"), "https://other:8443/c");
    EXPECT_EQ(to("https://h/a", "http://h/a"), "error");
    EXPECT_EQ(to("http://h/a", "file:///etc/passwd"), "error");
    EXPECT_EQ(to("http://h/a", "ftp://h/a"), "error");
    EXPECT_EQ(to("http://h/a", ""), "error");
}

TEST(HttpRules, OriginsAndSecrets) {
    EXPECT_TRUE(same_origin("https://h/a", "https://H:443/b"));
    EXPECT_FALSE(same_origin("https://h/a", "http://h/a"));
    EXPECT_FALSE(same_origin("https://h/a", "https://h:8443/a"));
    EXPECT_FALSE(same_origin("https://h/a", "https://h.evil/a"));
    EXPECT_FALSE(same_origin("https://h/a", "https://h@evil/a"));
    EXPECT_TRUE(keeps_secrets("https://h"));
    EXPECT_TRUE(keeps_secrets("http://127.0.0.1:80"));
    EXPECT_TRUE(keeps_secrets("http://localhost"));
    EXPECT_FALSE(keeps_secrets("http://h"));
    EXPECT_EQ(shown_address("https://user:word@h/a?Signature=secret#x"), "https://h/a");
    EXPECT_EQ(escaped_path("a b/c%", true), "a%20b/c%25");
    EXPECT_EQ(escaped_path("refs/pr/1", false), "refs%2Fpr%2F1");
}

TEST(HttpRules, ETags) {
    EXPECT_EQ(plain_etag("W/\"abc\""), "abc");
    EXPECT_EQ(plain_etag("\"abc\""), "abc");
    EXPECT_EQ(plain_etag("abc"), "abc");
    EXPECT_TRUE(is_strong_etag("\"abc\""));
    EXPECT_FALSE(is_strong_etag("W/\"abc\""));
    EXPECT_FALSE(is_strong_etag("\"\""));
    EXPECT_FALSE(is_strong_etag(""));
}

TEST(HttpRules, WhatARefusalMeans) {
    const auto says = [](int status, const char* code, const char* message, bool token) {
        return hub_refusal(head(status, {{"x-error-code", code}, {"x-error-message", message}}),
                           "https://h", "den/tiny", token)
            .message;
    };
    EXPECT_EQ(says(403, "GatedRepo", "", true),
              "den/tiny: is gated: accept its terms at https://h/den/tiny with the account of the "
              "token, or wait to be let in");
    EXPECT_NE(says(401, "GatedRepo", "", false).find("then give a token"), std::string::npos);
    EXPECT_EQ(says(401, "", "", false),
              "den/tiny: https://h has no such model, or it needs a token (HF_TOKEN, or "
              "--token-file) of somebody who may see it");
    EXPECT_NE(says(404, "RepoNotFound", "", true).find("the token may not see it"),
              std::string::npos);
    EXPECT_EQ(says(403, "", "Access to this resource is disabled.", true),
              "den/tiny: the hub has taken it down");
    EXPECT_EQ(says(404, "RevisionNotFound", "", true), "den/tiny: there is no such revision");
    EXPECT_EQ(says(404, "EntryNotFound", "", true), "den/tiny: there is no such file");
    EXPECT_EQ(says(400, "", "odd", true), "den/tiny: https://h answered with status 400: odd");
}

TEST(HttpRules, WhetherTheEndOfABodyShows) {
    EXPECT_TRUE(shows_its_end(head(200, {{"content-length", "5"}})));
    EXPECT_TRUE(shows_its_end(head(200, {{"transfer-encoding", "chunked"}})));
    EXPECT_FALSE(shows_its_end(head(200)));
    EXPECT_EQ(whole_size(head(206, {{"content-range", "bytes 5-9/20"}})), 20U);
    EXPECT_EQ(whole_size(head(200, {{"content-length", "5"}})), 5U);
    EXPECT_FALSE(whole_size(head(200, {{"content-length", "5"}, {"content-encoding", "gzip"}})));
}

}  // namespace
}  // namespace helix::hub::http_rules_test
