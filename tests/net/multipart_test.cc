#include "net/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace helix::net::multipart_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kType = "multipart/form-data; boundary=XX";

std::string error_of(std::string_view type, std::string_view body) {
    const auto parts = parse_form(type, body);
    return parts.ok() ? "" : parts.error().message;
}

TEST(Multipart, ReadsFieldsAndFilesAsClientsSendThem) {
    const std::string body =
        "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
        "--XX\r\ncontent-disposition: form-data; name=file; filename=\"a \\\"b\\\";c.jsonl\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\nline 1\r\nline 2\n\r\n--X\r\n"
        "--XX--\r\n";
    const auto parts = parse_form(kType, body);
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    ASSERT_EQ(parts->size(), 2U);
    EXPECT_EQ((*parts)[0].name, "purpose");
    EXPECT_EQ((*parts)[0].content, "batch");
    EXPECT_EQ((*parts)[1].name, "file");
    EXPECT_EQ((*parts)[1].filename, "a \"b\";c.jsonl");
    EXPECT_EQ((*parts)[1].content_type, "application/octet-stream");
    EXPECT_EQ((*parts)[1].content, "line 1\r\nline 2\n\r\n--X");
}

TEST(Multipart, BoundariesMayBeQuotedPaddedAndPrecededByText) {
    const auto parts = parse_form("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"",
                                  "this is ignored\r\n--a b  \r\ncontent-disposition: "
                                  "form-data; filename=\"C:\\x\"; name=\"f\"\r\n\r\n\r\n--a b--");
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    ASSERT_EQ(parts->size(), 1U);
    EXPECT_EQ((*parts)[0].filename, "C:\\x");
    EXPECT_EQ((*parts)[0].content, "");
}

TEST(Multipart, AnEmptyFormHasNoParts) {
    const auto parts = parse_form(kType, "--XX--\r\n");
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    EXPECT_TRUE(parts->empty());
}

TEST(Multipart, WhatIsWrongIsSaid) {
    const std::string head = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    EXPECT_THAT(error_of("application/json", "{}"), HasSubstr("multipart/form-data"));
    EXPECT_THAT(error_of("multipart/form-data", head), HasSubstr("boundary"));
    EXPECT_THAT(error_of("multipart/form-data; boundary=" + std::string(71, 'x'), head),
                HasSubstr("1 to 70"));
    EXPECT_THAT(error_of(kType, "nothing"), HasSubstr("not found"));
    EXPECT_THAT(error_of(kType, head + "cut"), HasSubstr("middle of a part"));
    EXPECT_THAT(error_of(kType, "--XXY\r\nrest\r\n--XX--"), HasSubstr("followed by something"));
    EXPECT_THAT(error_of(kType, "--XX\r\nno colon\r\n\r\nx\r\n--XX--"), HasSubstr("colon"));
    EXPECT_THAT(error_of(kType, "--XX\r\nA: b\r\n\r\nx\r\n--XX--"), HasSubstr("no name"));
    EXPECT_THAT(error_of(kType, "--XX\r\nContent-Disposition: file; name=a\r\n\r\nx\r\n--XX--"),
                HasSubstr("not form-data"));
    EXPECT_THAT(error_of(kType, "--XX\r\nContent-Transfer-Encoding: base64\r\n\r\nx\r\n--XX--"),
                HasSubstr("base64"));
    EXPECT_THAT(error_of(kType, "--XX\r\nX: " + std::string(20'000, 'y') + "\r\n\r\n\r\n--XX--"),
                HasSubstr("16384 bytes"));
    std::string many;
    for (int i = 0; i < 65; ++i) many += head + "x\r\n";
    EXPECT_THAT(error_of(kType, many + "--XX--"), HasSubstr("64 parts"));
}

// Bytes that are cut, changed and repeated never lead outside the body.
TEST(Multipart, NoDamageLeadsOutsideTheBody) {
    const std::string good =
        "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
        "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{}\r\n--XX--";
    constexpr std::string_view kBytes = "-X\r\n:;=\"\\ ab";
    int accepted = 0;
    for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
        base::Random random(seed);
        std::string body = good;
        for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
            const std::size_t at = random.below(body.size() + 1);
            const std::size_t length = std::min<std::size_t>(random.below(12), body.size() - at);
            if (random.chance(0.3)) body.erase(at, length);
            if (random.chance(0.3)) body.insert(at, good.substr(random.below(good.size()), length));
            if (random.chance(0.6)) body.insert(at, 1, kBytes[random.below(kBytes.size())]);
        }
        const auto parts = parse_form(kType, body);
        if (!parts.ok()) continue;
        ++accepted;
        for (const FormPart& part : *parts) {
            ASSERT_GE(part.content.data(), body.data()) << "seed " << seed;
            ASSERT_LE(part.content.data() + part.content.size(), body.data() + body.size())
                << "seed " << seed;
        }
    }
    EXPECT_GT(accepted, 100);
}

TEST(Query, ValuesAreFoundAndDecoded) {
    EXPECT_EQ(query_value("limit=5&after=file-1", "after"), "file-1");
    EXPECT_EQ(query_value("limit=5&after=file-1", "limit"), "5");
    EXPECT_EQ(query_value("a=x%20y+z", "a"), "x y z");
    EXPECT_EQ(query_value("ab=1&b", "b"), "");
    EXPECT_EQ(query_value("", "a"), "");
    EXPECT_EQ(query_value("&&a=1", "a"), "1");
}

}  // namespace
}  // namespace helix::net::multipart_test
