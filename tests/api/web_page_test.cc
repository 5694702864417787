// The page for browsers: who gets it, packed or not, and the headers that keep it fresh and safe.

#include "api/web_page.h"

#include <gmock/gmock.h>

#include "api_fixture.h"

namespace helix::api::web_page_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kBrowser =
    "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

std::string first_asset() {
    for (const PageFile& file : page_files()) {
        if (file.path.starts_with("/assets/") && file.path.ends_with(".js")) {
            return std::string(file.path);
        }
    }
    return {};
}

TEST_F(ApiTest, BrowsersGetThePageAndProgramsText) {
    const auto page = get("/", kBrowser);
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
    EXPECT_THAT(page.body, StartsWith("<!doctype html>"));
    EXPECT_EQ(page.header("vary"), "Accept, Accept-Encoding");
    for (const char* accept : {"", "accept: */*\r\n", "accept: application/json\r\n",
                               "accept: text/html;q=0, text/plain\r\n"}) {
        const auto text = get("/", accept);
        EXPECT_EQ(text.header("content-type"), "text/plain; charset=utf-8") << accept;
        EXPECT_THAT(text.body, HasSubstr("POST /v1/chat/completions")) << accept;
        EXPECT_EQ(text.header("vary"), "Accept, Accept-Encoding");
    }
}

TEST_F(ApiTest, ThePageIsAskedForAnewAndItsFilesAreKept) {
    const auto page = get("/", kBrowser);
    EXPECT_EQ(page.header("cache-control"), "no-cache");
    const std::string path = first_asset();
    ASSERT_FALSE(path.empty());
    EXPECT_THAT(page.body, HasSubstr(path));
    const auto script = get(path);
    EXPECT_EQ(script.status, 200);
    EXPECT_EQ(script.header("content-type"), "text/javascript; charset=utf-8");
    EXPECT_EQ(script.header("cache-control"), "public, max-age=31536000, immutable");
    EXPECT_EQ(script.body, find_page_file(path)->plain);
    EXPECT_EQ(get("/assets/index-of-another-version.js").status, 404);
    EXPECT_EQ(get("/assets/").status, 404);
}

TEST_F(ApiTest, NothingFromElsewhereRunsOnThePage) {
    for (const std::string& path : {std::string("/"), first_asset()}) {
        const auto answer = get(path, kBrowser);
        const std::string policy = answer.header("content-security-policy");
        EXPECT_THAT(policy, StartsWith("default-src 'none'; script-src 'self'; style-src 'self'"));
        EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
        EXPECT_THAT(policy, ::testing::Not(HasSubstr("unsafe")));
        EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
        EXPECT_EQ(answer.header("referrer-policy"), "no-referrer");
    }
}

// Errors are seen in a browser, too, and so is whatever else somebody is led to.
TEST_F(ApiTest, EveryAnswerSaysWhatABrowserMayDoWithIt) {
    options_.api_keys = {"secret"};
    for (const char* path : {"/assets/none.js", "/assets/", "/"}) {
        const auto answer = get(path);
        EXPECT_THAT(answer.header("content-security-policy"), HasSubstr("script-src 'self'"))
            << path;
        EXPECT_EQ(answer.header("x-content-type-options"), "nosniff") << path;
    }
    for (const char* path : {"/v1/models", "/v1/files/file-1/content", "/helix/plan.svg",
                             "/helix/cluster", "/nothing", "/helix/session", "/v1/assets/x"}) {
        const auto answer = get(path);
        const std::string policy = answer.header("content-security-policy");
        EXPECT_THAT(policy, StartsWith("default-src 'none'")) << path;
        EXPECT_THAT(policy, ::testing::AnyOf(HasSubstr("sandbox"), HasSubstr("script-src 'self'")))
            << path;
        EXPECT_EQ(answer.header("x-content-type-options"), "nosniff") << path;
        EXPECT_EQ(answer.header("referrer-policy"), "no-referrer") << path;
    }
    EXPECT_THAT(get("/helix/plan.svg").header("content-security-policy"), HasSubstr("sandbox"));
    auto c = client();
    c.send("GET / HTTP/1.1\r\nhost: attacker.example\r\naccept: text/html\r\n\r\n");
    EXPECT_THAT(c.read_response().header("content-security-policy"), StartsWith("default-src"));
}

TEST_F(ApiTest, FilesComePackedForThoseWhoTakeThat) {
    const std::string path = first_asset();
    const auto packed = get(path, "accept-encoding: deflate, gzip;q=0.8\r\n");
    EXPECT_EQ(packed.header("content-encoding"), "gzip");
    EXPECT_EQ(packed.header("vary"), "Accept-Encoding");
    EXPECT_EQ(packed.body, find_page_file(path)->gzip);
    EXPECT_THAT(packed.body, StartsWith("\x1f\x8b"));
    const auto plain = get(path, "accept-encoding: gzip;q=0\r\n");
    EXPECT_EQ(plain.header("content-encoding"), "");
    EXPECT_NE(plain.header("etag"), packed.header("etag"));
}

TEST_F(ApiTest, WhoHasAFileIsToldSo) {
    const std::string tag = get("/", kBrowser).header("etag");
    ASSERT_FALSE(tag.empty());
    const std::string browser = kBrowser;
    auto c = client();
    c.request("GET", "/", {}, browser + "if-none-match: \"other\", W/" + tag + "\r\n");
    const auto same = c.read_response(false);
    EXPECT_EQ(same.status, 304);
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(same.header("etag"), tag);
    EXPECT_EQ(same.header("cache-control"), "no-cache");
    EXPECT_EQ(same.header("content-length"), "");
    EXPECT_EQ(get("/", browser + "if-none-match: \"other\"\r\n").status, 200);
}

TEST_F(ApiTest, HeadSaysHowLargeThePageIs) {
    const auto page = get("/", kBrowser);
    auto c = client();
    c.request("HEAD", "/", {}, kBrowser);
    const auto head = c.read_response(false);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.body, "");
    EXPECT_EQ(head.header("content-length"), std::to_string(page.body.size()));
    EXPECT_EQ(head.header("etag"), page.header("etag"));
}

// A name of an attacker that points here must not get the page either.
TEST_F(ApiTest, ThePageIsNotShownUnderAnUnknownName) {
    auto c = client();
    c.send("GET / HTTP/1.1\r\nhost: attacker.example\r\naccept: text/html\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 421);
}

TEST_F(ApiTest, ThePageNeedsNoKey) {
    options_.api_keys = {"secret"};
    EXPECT_EQ(get("/", kBrowser).status, 200);
    EXPECT_EQ(get(first_asset()).status, 200);
    EXPECT_EQ(get("/v1/models").status, 401);
}

// What the browser loads before it shows something, and all of the page.
TEST(WebPage, IsSmall) {
    constexpr std::size_t kFirstLoadBytes = 150'000;
    std::size_t bytes = 0;
    for (const PageFile& file : page_files()) bytes += file.gzip.size();
    EXPECT_LT(bytes, kFirstLoadBytes) << "all of its files are loaded at first";
}

}  // namespace
}  // namespace helix::api::web_page_test
