#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/effort.h"
#include "base/random.h"
#include "golden_vocabulary.h"
#include "text/detokenizer.h"
#include "text/pre_tokenizer.h"

namespace helix::text::tokenizer_test {
namespace {

using base::Random;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace testing_support;

std::string error_of(Vocabulary vocabulary) {
    const auto made = Tokenizer::create(std::move(vocabulary));
    return made.ok() ? "no error" : made.error().message;
}

TEST(Tokenizer, SpecialTokensAreParsedOnlyOnRequest) {
    const auto t = make_tokenizer(byte_vocabulary());
    const std::string text = "hi<|im_end|>";
    const Token end = id_of(*t, "<|im_end|>");
    EXPECT_THAT(t->encode(text, {.add_special = false, .parse_special = true}),
                testing::Contains(end));
    EXPECT_THAT(t->encode(text), testing::Not(testing::Contains(end)));
    EXPECT_EQ(joined_bytes(*t, t->encode(text)), text);
    // A token that a user may write is found either way.
    EXPECT_THAT(t->encode("a<tool>b"), testing::Contains(id_of(*t, "<tool>")));
}

TEST(Tokenizer, OfSpecialTokensAtOnePlaceTheLongestIsTaken) {
    Vocabulary v = spm_vocabulary();
    for (const char* text : {"<a", "<a>>", "<a>"}) {
        v.tokens.emplace_back(text);
        v.scores.push_back(0);
        v.kinds.push_back(TokenKind::control);
    }
    const auto t = make_tokenizer(v);
    const auto ids = t->encode("<a><a>><a", {.add_special = false, .parse_special = true});
    EXPECT_THAT(ids, ElementsAre(id_of(*t, "<a>"), id_of(*t, "<a>>"), id_of(*t, "<a")));
}

TEST(Tokenizer, ControlTokensNeverComeOutOfOrdinaryText) {
    // "<s>" could be merged from tokens "<s" and ">"; the control token must not be the result.
    Vocabulary v = spm_vocabulary();
    for (const char* text : {"<s", "s>"}) {
        v.tokens.emplace_back(text);
        v.scores.push_back(0);
        v.kinds.push_back(TokenKind::normal);
    }
    const auto t = make_tokenizer(v);
    for (const Token id : t->encode("<s><s></s><unk>", {.add_special = false})) {
        EXPECT_FALSE(t->is_special(id)) << id;
    }
}

TEST(Tokenizer, BosAndEosAreAddedWhereTheFileSaysSo) {
    Vocabulary v = spm_vocabulary();
    EXPECT_THAT(make_tokenizer(v)->encode(""), ElementsAre(1));  // LLaMA's default: BOS, no EOS
    v.add_bos = false;
    v.add_eos = true;
    EXPECT_THAT(make_tokenizer(v)->encode(""), ElementsAre(2));
    EXPECT_THAT(make_tokenizer(v)->encode("", {.add_special = false}), ElementsAre());

    Vocabulary b = byte_vocabulary();
    EXPECT_FALSE(make_tokenizer(b)->adds_bos());
    b.pre = "llama-bpe";
    EXPECT_EQ(make_tokenizer(b)->encode("x").at(0), *b.bos);
}

TEST(Tokenizer, WordsOfO200kBeginWithCapitalsAndKeepContractions) {
    for (const char* name : {"gpt-4o", "llama4", "minimax-m2"}) {
        const auto pre = PreTokenizer::create(name);
        ASSERT_TRUE(pre.ok()) << pre.error().message;
        EXPECT_THAT(pre->split("HelloWorld don't ABCdef HTTP's 12345 a/b//\n x  y"),
                    ElementsAre("Hello", "World", " don't", " ABCdef", " HTTP's", " ", "123", "45",
                                " a", "/b", "//\n", " x", " ", " y"));
    }
}

// Han is apart from other letters, which are as o200k has them; what is no letter (U+3007) is Han
// all the same.
TEST(Tokenizer, WordsOfKimiKeepHanApart) {
    const auto pre = PreTokenizer::create("kimi-k2");
    ASSERT_TRUE(pre.ok()) << pre.error().message;
    EXPECT_THAT(pre->split("HelloWorld中文ab 中かな don't一二〇3 12345 a/b//\n"),
                ElementsAre("Hello", "World", "中文", "ab", " ", "中", "かな", " don't", "一二〇",
                            "3", " ", "123", "45", " a", "/b", "//\n"));
}

TEST(Tokenizer, TekkenTakesWholeWordsAndAddsBos) {
    const auto pre = PreTokenizer::create("tekken");
    ASSERT_TRUE(pre.ok()) << pre.error().message;
    EXPECT_TRUE(pre->whole_words_first());
    EXPECT_TRUE(pre->adds_bos());
    EXPECT_THAT(pre->split("HelloWorld don't 12"),
                ElementsAre("Hello", "World", " don", "'t", " ", "1", "2"));
}

// Every pattern gives long runs back in one look: twice as long takes twice the time.
TEST(Tokenizer, SplitsOfLongRunsTakeLinearTime) {
    constexpr std::size_t kRun = 200'000;
    for (const char* name :
         {"qwen35", "tekken", "kimi-k2", "deepseek-llm", "deepseek-coder", "deepseek-v3"}) {
        const auto pre = PreTokenizer::create(name);
        ASSERT_TRUE(pre.ok()) << pre.error().message;
        for (const char* part : {" ", "a", "A", "\xe4\xb8\xad", "\xcc\x81", "1", "!", "\t"}) {
            std::string text;
            for (std::size_t i = 0; i < kRun; ++i) text += part;
            text += "\x01x";
            const auto begin = std::chrono::steady_clock::now();
            std::string back;
            for (const std::string_view word : pre->split(text)) back += word;
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            EXPECT_LT(took.count(), 10.0) << name << " of '" << part << "'";
            EXPECT_TRUE(back == text) << name << " of '" << part << "'";
        }
    }
}

TEST(Tokenizer, OfTokensWithTheSameTextTheLastIsTaken) {
    for (Vocabulary v : {spm_vocabulary(), byte_vocabulary()}) {
        const auto before = make_tokenizer(v);
        const std::string text = "the machine";
        const auto ids = before->encode(text, {.add_special = false});
        std::map<Token, Token> later;
        std::vector<Token> expected;
        for (const Token id : ids) {
            const auto i = static_cast<std::size_t>(id);
            const auto [twin, is_new] = later.emplace(id, static_cast<Token>(v.tokens.size()));
            expected.push_back(twin->second);
            if (!is_new) continue;
            // What text never becomes takes no text away either.
            for (const TokenKind kind : {TokenKind::normal, TokenKind::control}) {
                v.tokens.push_back(v.tokens[i]);
                v.kinds.push_back(kind);
                if (!v.scores.empty()) v.scores.push_back(v.scores[i]);
            }
        }
        const auto t = make_tokenizer(v);
        EXPECT_EQ(t->encode(text, {.add_special = false}), expected) << v.model;
        EXPECT_EQ(joined_bytes(*t, ids), joined_bytes(*t, expected));
    }
}

TEST(Tokenizer, SpacePrefixFollowsTheFile) {
    Vocabulary v = spm_vocabulary();
    EXPECT_EQ(
        joined_bytes(*make_tokenizer(v), make_tokenizer(v)->encode("the", {.add_special = false})),
        " the");
    v.add_space_prefix = false;
    EXPECT_EQ(
        joined_bytes(*make_tokenizer(v), make_tokenizer(v)->encode("the", {.add_special = false})),
        "the");
}

// Pieces merge by the list and not by what is a token; line ends are apart, and several that are
// one token are that token.
TEST(Tokenizer, OfGemma4MergesByTheListAndFallsBackToBytes) {
    Vocabulary v;
    v.model = "gemma4";
    const auto add = [&](const std::string& text, TokenKind kind) {
        v.tokens.push_back(text);
        v.kinds.push_back(kind);
    };
    for (const char* text : {"<pad>", "<eos>", "<bos>", "<turn|>", "<|tool_response>", "</s>"})
        add(text, TokenKind::control);
    for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), TokenKind::byte);
    for (const char* text : {"a", "b", "c", "\xe2\x96\x81", "ab", "bc", "abc",
                             "\xe2\x96\x81"
                             "a",
                             "\n", "\n\n\n"})
        add(text, TokenKind::normal);
    v.merges = {"b c", "a b", "\xe2\x96\x81 a"};
    v.eos = 1;
    v.bos = 2;
    v.add_bos = false;  // wrong in some files
    const auto t = make_tokenizer(v);
    const auto pieces = [&](std::string_view text) {
        std::vector<std::string> result;
        for (const Token token : t->encode(text, {.add_special = false}))
            result.push_back(t->vocabulary().tokens[static_cast<std::size_t>(token)]);
        return result;
    };
    EXPECT_EQ(t->encode("a").front(), 2);
    // "abc" is a token that no merge makes.
    EXPECT_THAT(pieces("abc"), ElementsAre("a", "bc"));
    EXPECT_THAT(pieces("ab"), ElementsAre("ab"));
    EXPECT_THAT(pieces(" a b"), ElementsAre("\xe2\x96\x81"
                                            "a",
                                            "\xe2\x96\x81", "b"));
    EXPECT_THAT(pieces("a\n\n\na"), ElementsAre("a", "\n\n\n", "a"));
    EXPECT_THAT(pieces("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
    EXPECT_THAT(pieces("\xc3\xa9"), ElementsAre("<0xC3>", "<0xA9>"));
    EXPECT_EQ(joined_bytes(*t, t->encode(" a\n\n\n\xc3\xa9", {.add_special = false})),
              " a\n\n\n\xc3\xa9");
    for (const Token end : {1, 3, 4}) EXPECT_TRUE(t->is_end_of_generation(end)) << end;
    EXPECT_FALSE(t->is_end_of_generation(5));
    v.merges.clear();
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.merges: missing, a \"gemma4\" tokenizer"));
}

TEST(Tokenizer, EndOfGenerationIsKnownByIdAndByName) {
    Vocabulary v = byte_vocabulary();
    v.eos = 5;
    v.eot = 6;
    v.eom = 7;
    const auto t = make_tokenizer(v);
    for (const Token id : {5, 6, 7, id_of(*t, "<|im_end|>"), id_of(*t, "<|end_of_text|>")}) {
        EXPECT_TRUE(t->is_end_of_generation(id)) << id;
    }
    EXPECT_FALSE(t->is_end_of_generation(8));
    EXPECT_FALSE(t->is_end_of_generation(id_of(*t, "<|im_start|>")));
    const auto llama = make_tokenizer(spm_vocabulary());
    EXPECT_TRUE(llama->is_end_of_generation(2));
}

TEST(Tokenizer, EndNamesMarkedAsTextAreStillControlTokens) {
    Vocabulary v = byte_vocabulary();
    v.kinds.assign(v.kinds.size(), TokenKind::normal);
    const auto t = make_tokenizer(v);
    EXPECT_TRUE(t->is_special(id_of(*t, "<|im_end|>")));
    EXPECT_FALSE(t->is_special(id_of(*t, "<|im_start|>")));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreNothing) {
    const auto t = make_tokenizer(spm_vocabulary());
    for (const Token id : {-1, t->vocab_size(), 1 << 30}) {
        EXPECT_EQ(t->token_bytes(id), "");
        EXPECT_FALSE(t->is_special(id));
        EXPECT_FALSE(t->is_end_of_generation(id));
        EXPECT_FALSE(t->contains(id));
    }
}

TEST(Tokenizer, MissingByteTokensBecomeTheUnknownToken) {
    Vocabulary v;
    v.model = "llama";
    v.tokens = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a"};
    v.scores = {0, 0, 0, 0, 0};
    v.kinds = {TokenKind::unknown, TokenKind::control, TokenKind::control, TokenKind::normal,
               TokenKind::normal};
    EXPECT_THAT(make_tokenizer(v)->encode("ab"), ElementsAre(1, 3, 4, 0));
}

TEST(TokenizerErrors, NameTheKeyAndWhatWasExpected) {
    Vocabulary v = byte_vocabulary();
    v.pre = "gpt-17";
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.pre: unknown pre-tokenizer \"gpt-17\""));
    EXPECT_THAT(error_of(v), HasSubstr("qwen2"));
    v = byte_vocabulary();
    v.model = "t6";
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.model: unknown tokenizer \"t6\""));
    v = byte_vocabulary();
    v.merges.clear();
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.merges: missing"));
    for (const char* merge : {"", "a", " a", "a ", "ab"}) {
        v = byte_vocabulary();
        v.merges[7] = merge;
        EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.merges: entry 7")) << merge;
    }
    v = byte_vocabulary();
    v.merges[7] = "a nosuchtoken";
    EXPECT_THAT(error_of(v), HasSubstr("\"nosuchtoken\" is not a token"));
    v = byte_vocabulary();
    v.bos.reset();
    v.add_bos = true;
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.bos_token_id: missing"));
    v = spm_vocabulary();
    v.scores.clear();
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.scores: missing"));
    v = spm_vocabulary();
    v.tokens[10] = "<0xGG>";
    EXPECT_THAT(error_of(v), HasSubstr("token 10 is of type byte"));
}

TEST(TokenizerErrors, VocabulariesThatDoNotAgreeWithThemselvesAreRefused) {
    Vocabulary v = spm_vocabulary();
    v.scores.pop_back();
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.scores: "));
    v = spm_vocabulary();
    v.kinds.push_back(TokenKind::normal);
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.token_type: "));
    v = spm_vocabulary();
    v.eos = static_cast<Token>(v.tokens.size());
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.eos_token_id: "));
    v = spm_vocabulary();
    v.bos = -1;
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.bos_token_id: "));
    EXPECT_THAT(error_of(Vocabulary{}), HasSubstr("tokenizer.ggml.tokens: empty"));
}

TEST(Tokenizer, OneTokenizerServesManyThreads) {
    const auto t = make_tokenizer(byte_vocabulary());
    const std::string text = "The three machines in the room are not equal. 1024 blocks!";
    const auto expected = t->encode(text);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t i = 0; i < wrong.size(); ++i) {
        threads.emplace_back([&, i] {
            for (int k = 0; k < 200; ++k) wrong[i] += t->encode(text) != expected;
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(wrong, testing::Each(0));
}

std::string repeated(std::string_view text, std::size_t bytes) {
    std::string out;
    while (out.size() < bytes) out += text;
    return out;
}

// A megabyte takes seconds, even at -O1 and under sanitizers; quadratic code would take hours.
TEST(Tokenizer, LongTextsOfEveryShapeTakeLinearTime) {
    constexpr std::size_t kBytes = kSanitized ? 1 << 16 : 1 << 20;
    std::string mixed;
    Random random(5);
    while (mixed.size() < kBytes)
        mixed += random.chance(0.2) ? ' ' : static_cast<char>('a' + random.below(26));
    const std::vector<std::string> texts = {
        mixed,
        std::string(kBytes, 'e'),
        std::string(kBytes, ' ') + "x",
        std::string(kBytes, '\n') + "x",
        std::string(kBytes, '<'),
        std::string(kBytes, '7'),
        std::string(kBytes, '\xff'),
        repeated("\xf0\x9f\x98\x80", kBytes),
        repeated("a ", kBytes),
        repeated(" \n", kBytes),
        repeated("'re", kBytes),
        repeated("\xe4\xb8\xad", kBytes),
    };
    Vocabulary lines = byte_vocabulary();
    lines.pre = "llama-bpe";
    for (const auto& t : {make_tokenizer(spm_vocabulary()), make_tokenizer(byte_vocabulary()),
                          make_tokenizer(lines)}) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const auto begin = std::chrono::steady_clock::now();
            const auto ids = t->encode(texts[i], {.add_special = false, .parse_special = true});
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            EXPECT_LT(took.count(), 20.0) << "text " << i;
            const std::string back = joined_bytes(*t, ids);
            EXPECT_TRUE(back == (t->adds_space_prefix() ? " " : "") + texts[i]) << "text " << i;
        }
    }
}

}  // namespace
}  // namespace helix::text::tokenizer_test
