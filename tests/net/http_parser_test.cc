#include "net/http_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/http_date.h"

namespace helix::net::http_parser_test {
namespace {

using ::testing::HasSubstr;
using Step = HttpParser::Step;

// What came of bytes that arrived in pieces of this size.
struct Outcome {
    Step end = Step::more;
    HttpRequest head;
    std::string body;
    HttpParser::Refusal refusal;
    std::size_t left = 0;  // not taken
    std::size_t held = 0;  // at most
};

Outcome parse(std::string_view text, std::size_t piece = 4096, std::uint64_t body_limit = 1000,
              const HttpParserLimits& limits = {}) {
    Outcome outcome;
    HttpParser parser(limits);
    std::string_view rest = text;
    while (true) {
        std::string_view data = rest.substr(0, piece);
        const std::size_t before = data.size();
        outcome.end = parser.step(data);
        rest.remove_prefix(before - data.size());
        outcome.held = std::max(outcome.held, parser.held_bytes());
        if (outcome.end == Step::head) parser.allow_body(body_limit);
        if (outcome.end == Step::body) outcome.body += parser.piece();
        if (outcome.end == Step::more && rest.empty()) break;
        if (outcome.end == Step::done || outcome.end == Step::refused) break;
    }
    outcome.head = parser.head();
    outcome.refusal = parser.refusal();
    outcome.left = rest.size();
    return outcome;
}

int status_of(std::string_view text) {
    const Outcome outcome = parse(text);
    return outcome.end == Step::refused ? outcome.refusal.status : 0;
}

TEST(HttpParser, ARequestIsTheSameHoweverItsBytesAreCut) {
    const std::string text =
        "\r\nPOST /a%20b?x=%31 HTTP/1.1\r\nHost: t\r\nX-Empty:\r\nX-Word: \t a b \r\n"
        "Transfer-Encoding: Chunked\r\n\r\n"
        "3;name=\"v\"\r\nabc\r\n0A\r\n0123456789\r\n000\r\nX-Trailer: 1\r\n\r\nGET /next";
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
        const Outcome outcome = parse(text, piece);
        ASSERT_EQ(outcome.end, Step::done) << outcome.refusal.why;
        EXPECT_EQ(outcome.head.method, "POST");
        EXPECT_EQ(outcome.head.path, "/a b");
        EXPECT_EQ(outcome.head.query, "x=%31");
        EXPECT_EQ(outcome.head.header("x-empty"), "");
        EXPECT_EQ(outcome.head.header("x-word"), "a b");
        EXPECT_EQ(outcome.head.headers.size(), 4U) << "a trailer is no header";
        EXPECT_EQ(outcome.body, "abc0123456789");
        EXPECT_EQ(outcome.left, std::string("GET /next").size());
    }
}

TEST(HttpParser, TheLengthOfABodyIsSaidInOneWayOnly) {
    const std::string post = "POST / HTTP/1.1\r\nhost: t\r\n";
    const std::vector<std::string> bad = {
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity, chunked",
        "transfer-encoding: identity",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked,",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: chunked\r\ncontent-length: 3",
        "content-length: 3\r\ntransfer-encoding: chunked",
        "content-length: 3\r\ncontent-length: 4",
        "content-length: 3\r\ncontent-length: 3",
        "content-length: 3, 3",
        "content-length: +3",
        "content-length: -3",
        "content-length: 0x3",
        "content-length: 3 3",
        "content-length:",
        "content-length : 3",
        "transfer-encoding : chunked",
        "transfer-encoding\t: chunked",
        " content-length: 3",
        "x: y\r\n content-length: 3",
        "x: y\r\n\tfolded",
        "content-length: 3\ntransfer-encoding: chunked",
        "content-length: 3\rx: y",
        "content-length: 3\r\r",
        "x: a\x01z",
        "x: a\x7fz",
        std::string("x: a\0z", 6),
        std::string("x\0: a", 5),
        ": no name",
        "no colon",
        "host: another",
    };
    for (const std::string& headers : bad) {
        EXPECT_EQ(status_of(post + headers + "\r\n\r\nabc"), 400) << headers;
    }
    EXPECT_EQ(status_of(post + "content-length: 99999999999999999999\r\n\r\n"), 413);
    EXPECT_EQ(parse(post + "content-length: 3\r\n\r\nabc").body, "abc");
    EXPECT_EQ(parse(post + "transfer-encoding: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n").body, "abc");
    EXPECT_EQ(status_of("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(HttpParser, ARequestLineIsThreeWords) {
    for (const char* line :
         {"GET /", "GET  /", "GET / HTTP/1.1 ", "GET /a b HTTP/1.1", "G{T / HTTP/1.1",
          "GET / http/1.1", " GET / HTTP/1.1", "GET /\t HTTP/1.1"}) {
        EXPECT_EQ(status_of(std::string(line) + "\r\n\r\n"), 400) << line;
    }
    EXPECT_EQ(status_of("GET / HTTP/2.0\r\n\r\n"), 505);
    EXPECT_EQ(status_of("GET / HTTP/1.1\n\n"), 400) << "a line feed alone";
    EXPECT_EQ(parse("GET / HTTP/1.1\r\n\r\n").end, Step::done);
}

TEST(HttpParser, AWholeUrlAsksForItsPathAndNamesTheHost) {
    struct Case {
        std::string target;
        std::string host;
        std::string path;
        std::string query;
    };
    for (const Case& c : {Case{"http://a.example/x%20y?q=1", "a.example", "/x y", "q=1"},
                          Case{"HTTP://a.example:8080", "a.example:8080", "/", ""},
                          Case{"https://[::1]:8080/", "[::1]:8080", "/", ""},
                          Case{"http://a.example?q=/", "a.example", "/", "q=/"},
                          Case{"/http://b.example/", "other", "/http://b.example/", ""}}) {
        for (const char* host : {"", "Host: other\r\n"}) {
            const Outcome outcome = parse("GET " + c.target + " HTTP/1.1\r\n" + host + "\r\n");
            ASSERT_EQ(outcome.end, Step::done) << c.target << ": " << outcome.refusal.why;
            EXPECT_EQ(outcome.head.path, c.path);
            EXPECT_EQ(outcome.head.query, c.query);
            const bool named = !c.target.starts_with('/');
            EXPECT_EQ(outcome.head.header("host"), named || *host != 0 ? c.host : "") << c.target;
            EXPECT_EQ(outcome.head.headers.size(), named || *host != 0 ? 1U : 0U);
        }
    }
    for (const char* target : {"http://", "http:///x", "http://u@h/", "https://?x", "x", "h:80",
                               "ftp://h/", "*", "?x"}) {
        EXPECT_EQ(status_of(std::string("GET ") + target + " HTTP/1.1\r\n\r\n"), 400) << target;
    }
    EXPECT_EQ(status_of("GET http://a/ HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n"), 400);
    EXPECT_EQ(parse("OPTIONS * HTTP/1.1\r\n\r\n").head.path, "*");
}

TEST(HttpParser, ChunksAreWhatTheirSizeSays) {
    const std::string post = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    for (const char* chunks :
         {"x\r\n", "\r\n", "-1\r\n", "0x3\r\nabc\r\n", "3 \r\nabc\r\n", " 3\r\nabc\r\n",
          "3\nabc\r\n", "3\r\nabcd\r\n", "3\r\nabc\n", "3\r\nabc\rx", "3;a\x01\r\nabc\r\n",
          "0\r\nbad trailer\r\n\r\n", "0\r\nx: y\n\r\n"}) {
        EXPECT_EQ(status_of(post + chunks), 400) << chunks;
    }
    EXPECT_EQ(status_of(post + "ffffffffffffffff\r\n"), 413);
    EXPECT_EQ(status_of(post + "1ffffffffffffffff\r\n"), 413);
    EXPECT_EQ(status_of(post + "3e8\r\n" + std::string(1000, 'x') + "\r\n1\r\n"), 413);
}

// Each of these goes on for ever, but what is kept of it does not grow.
TEST(HttpParser, NothingThatGoesOnForEverIsKept) {
    const std::string post = "POST / HTTP/1.1\r\n";
    const std::string chunked = post + "transfer-encoding: chunked\r\n\r\n";
    struct Case {
        std::string begin;
        std::string again;
        int status;
        const char* names;
    };
    const std::vector<Case> cases = {
        {"", "\r\n", 431, "32768"},
        {"", "A", 431, "32768"},
        {"GET /", "a", 431, "32768"},
        {post, "x", 431, "32768"},
        {post + "x: ", "y", 431, "32768"},
        {post, "x:" + std::string(1000, 'y') + "\r\n", 431, "32768"},
        {post, "x:y\r\n", 431, "128 headers"},
        {chunked + "1;", "a", 400, "1024"},
        {chunked, "0", 400, "1024"},
        {chunked + "0\r\nx: ", "y", 431, "8192"},
        {chunked + "0\r\n", "x: y\r\n", 431, "8192"},
        {chunked, "1;" + std::string(1000, 'a') + "\r\nx\r\n", 400, "16384"},
        {chunked, "1\r\nx\r\n", 413, "1000"},
    };
    for (const Case& c : cases) {
        std::string text = c.begin;
        while (text.size() < 200'000) text += c.again;
        for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, std::size_t{65536}}) {
            const Outcome outcome = parse(text, piece);
            ASSERT_EQ(outcome.end, Step::refused) << c.begin << c.again;
            EXPECT_EQ(outcome.refusal.status, c.status) << outcome.refusal.why;
            EXPECT_THAT(outcome.refusal.why, HasSubstr(c.names));
            EXPECT_LE(outcome.held, 32768U);
        }
    }
}

TEST(HttpDate, IsFixedInItsLengthAndMadeOnceASecond) {
    EXPECT_EQ(format_http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
    EXPECT_EQ(format_http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    EXPECT_EQ(format_http_date(1709210096), "Thu, 29 Feb 2024 12:34:56 GMT");
    HttpDate date;
    const std::string_view first = date.at(784111777);
    EXPECT_EQ(date.at(784111777).data(), first.data());
    EXPECT_EQ(date.at(784111778), "Sun, 06 Nov 1994 08:49:38 GMT");
}

}  // namespace
}  // namespace helix::net::http_parser_test
