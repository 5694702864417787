#include "text/output/text_output.h"

#include <gtest/gtest.h>

#include <utility>

namespace helix::text::text_output_test {
namespace {

// Token 65 is "A"; token 256 is half a character, whose other half is what flush() says.
class Letters final : public IncrementalDetokenizer {
  public:
    std::string push(Token token) override {
        half_ = token == 256;
        return half_ ? std::string() : std::string(1, static_cast<char>(token));
    }
    std::string flush() override { return std::exchange(half_, false) ? "?" : ""; }

  private:
    bool half_ = false;
};

TextOutput output(std::vector<std::string> stops) {
    return {std::make_unique<Letters>(), std::make_shared<const StopStrings>(std::move(stops))};
}

std::string content_of(const std::vector<OutputPart>& parts) {
    std::string text;
    for (const OutputPart& part : parts) text += std::get<ContentText>(part).text;
    return text;
}

TEST(TextOutput, ATokenThatShowsNothingMakesNoPart) {
    TextOutput text = output({});
    EXPECT_TRUE(text.push(256, true).empty());
    const auto parts = text.push('A', true);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(content_of(parts), "A");
    EXPECT_TRUE(text.finish(false).empty());
}

TEST(TextOutput, WhatMayBeginAStopStringWaitsUntilThatIsDecided) {
    TextOutput text = output({"END"});
    EXPECT_EQ(content_of(text.push('x', true)), "x");
    EXPECT_TRUE(text.push('E', true).empty());
    EXPECT_TRUE(text.push('N', true).empty());
    EXPECT_EQ(content_of(text.push('y', true)), "ENy");
    EXPECT_TRUE(text.push('E', true).empty());
    EXPECT_TRUE(text.push('N', true).empty());
    EXPECT_FALSE(text.stopped());
    EXPECT_TRUE(text.push('D', true).empty());
    EXPECT_TRUE(text.stopped());
    EXPECT_TRUE(text.push('z', true).empty());
    EXPECT_TRUE(text.finish(false).empty());
}

TEST(TextOutput, StopStringsDoNotCountBeforeTheyMay) {
    TextOutput text = output({"."});
    EXPECT_EQ(content_of(text.push('.', false)), ".");
    EXPECT_FALSE(text.stopped());
    EXPECT_TRUE(text.push('.', true).empty());
    EXPECT_TRUE(text.stopped());
}

TEST(TextOutput, TheEndShowsWhatWasHeldBackAndHalfACharacter) {
    TextOutput text = output({"AB", "A?!"});
    EXPECT_TRUE(text.push('A', true).empty());
    EXPECT_TRUE(text.push(256, true).empty());
    EXPECT_EQ(content_of(text.finish(false)), "A?");
}

TEST(OutputPart, WhatContinuesTheLastPartIsJoinedToIt) {
    std::vector<OutputPart> parts;
    append_part(parts, ReasoningText{"hm"});
    append_part(parts, ReasoningText{"m"});
    append_part(parts, ContentText{"a"});
    append_part(parts, ContentText{"b"});
    append_part(parts, ToolCallDelta{0, "call_1", "look", ""});
    append_part(parts, ToolCallDelta{0, "", "", "{}"});
    append_part(parts, ToolCallDelta{1, "call_2", "find", "["});
    append_part(parts, ContentText{"c"});
    ASSERT_EQ(parts.size(), 5U);
    EXPECT_EQ(std::get<ReasoningText>(parts[0]).text, "hmm");
    EXPECT_EQ(std::get<ContentText>(parts[1]).text, "ab");
    EXPECT_EQ(std::get<ToolCallDelta>(parts[2]).id, "call_1");
    EXPECT_EQ(std::get<ToolCallDelta>(parts[2]).arguments, "{}");
    EXPECT_EQ(std::get<ToolCallDelta>(parts[3]).index, 1);
    EXPECT_EQ(std::get<ContentText>(parts[4]).text, "c");
    EXPECT_EQ(text_bytes(parts[0]), 3U);
    EXPECT_EQ(text_bytes(parts[2]), 12U);
}

}  // namespace
}  // namespace helix::text::text_output_test
