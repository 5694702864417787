#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/gguf_writer.h"
#include "text/infill_tokens.h"

namespace helix::text::tokenizer_vocabulary_test {
namespace {

using model::GgufBuilder;
using testing::HasSubstr;

using Change = std::function<void(std::map<std::string, model::GgufValue>&)>;

base::Result<Vocabulary> read_changed(const Change& change) {
    std::map<std::string, model::GgufValue> metadata = {
        {"general.architecture", std::string("llama")},
        {"tokenizer.ggml.model", std::string("gpt2")},
        {"tokenizer.ggml.pre", std::string("qwen2")},
        {"tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab", "<|im_end|>"}},
        {"tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 3}},
        {"tokenizer.ggml.scores", std::vector<float>{0, -1, -2, 0}},
        {"tokenizer.ggml.merges", std::vector<std::string>{"a b"}},
        {"tokenizer.ggml.bos_token_id", std::uint32_t{0}},
        {"tokenizer.ggml.eos_token_id", std::uint32_t{3}},
        {"tokenizer.ggml.add_bos_token", false},
        {"tokenizer.chat_template", std::string("{{ messages }}")},
    };
    change(metadata);
    GgufBuilder builder;
    for (auto& [key, value] : metadata) builder.set(key, value);
    auto file = model::GgufFile::from_header(builder.header());
    if (!file.ok()) return file.error();
    return read_vocabulary(**file);
}

std::string error_of(const Change& change) {
    const auto vocabulary = read_changed(change);
    return vocabulary.ok() ? "no error" : vocabulary.error().message;
}

TEST(Vocabulary, TakesEveryKeyFromTheFile) {
    const auto v = read_changed([](auto&) {});
    ASSERT_TRUE(v.ok()) << v.error().message;
    EXPECT_EQ(v->model, "gpt2");
    EXPECT_EQ(v->pre, "qwen2");
    EXPECT_EQ(v->tokens, (std::vector<std::string>{"a", "b", "ab", "<|im_end|>"}));
    EXPECT_EQ(v->scores, (std::vector<float>{0, -1, -2, 0}));
    EXPECT_EQ(v->kinds.at(3), TokenKind::control);
    EXPECT_EQ(v->merges, std::vector<std::string>{"a b"});
    EXPECT_EQ(v->bos, 0);
    EXPECT_EQ(v->eos, 3);
    EXPECT_EQ(v->eot, std::nullopt);
    EXPECT_EQ(v->add_bos, false);
    EXPECT_EQ(v->add_eos, std::nullopt);
    EXPECT_EQ(v->chat_template, "{{ messages }}");
}

TEST(Vocabulary, OptionalKeysMayBeAbsent) {
    const auto v = read_changed([](auto& m) {
        for (const char* key : {"pre", "token_type", "scores", "merges", "bos_token_id",
                                "eos_token_id", "add_bos_token"}) {
            m.erase(std::string("tokenizer.ggml.") + key);
        }
        m.erase("tokenizer.chat_template");
    });
    ASSERT_TRUE(v.ok()) << v.error().message;
    EXPECT_TRUE(v->pre.empty() && v->kinds.empty() && v->scores.empty() && v->merges.empty());
    EXPECT_FALSE(v->bos || v->eos || v->add_bos);
}

TEST(Vocabulary, TokensToFillInComeUnderTheirNewAndTheirOlderNames) {
    const auto v = read_changed([](auto& m) {
        m["tokenizer.ggml.fim_pre_token_id"] = std::uint32_t{2};
        m["tokenizer.ggml.prefix_token_id"] = std::uint32_t{3};
        m["tokenizer.ggml.suffix_token_id"] = std::uint32_t{1};
        m["tokenizer.ggml.middle_token_id"] = std::uint32_t{0};
        m["tokenizer.ggml.fim_pad_token_id"] = std::uint32_t{3};
        m["tokenizer.chat_template.rerank"] = std::string("{query}{document}");
    });
    ASSERT_TRUE(v.ok()) << v.error().message;
    const auto found = find_infill_tokens(*v);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->prefix, 2);
    EXPECT_EQ(found->suffix, 1);
    EXPECT_EQ(found->middle, 0);
    EXPECT_EQ(v->end_tokens, std::vector<Token>{3});
    EXPECT_EQ(v->rerank_template, "{query}{document}");
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.fim_mid_token_id"] = std::uint32_t{4}; }),
                HasSubstr("tokenizer.ggml.fim_mid_token_id: token id 4 is outside"));
}

TEST(Vocabulary, TokensToFillInAreFoundByTheirWellKnownTexts) {
    const auto found = [](std::vector<std::string> tokens) {
        Vocabulary v;
        v.tokens = std::move(tokens);
        return find_infill_tokens(v);
    };
    const std::vector<std::vector<std::string>> families = {
        {"<|fim_suffix|>", "<|fim_prefix|>", "<|fim_middle|>"},
        {"<fim_suffix>", "<fim_prefix>", "<fim_middle>"},
        {"<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>"},
        {"▁<SUF>", "▁<PRE>", "▁<MID>"}};
    for (const auto& family : families) {
        const auto tokens = found(family);
        ASSERT_TRUE(tokens) << family[0];
        EXPECT_EQ(tokens->prefix, 1);
        EXPECT_EQ(tokens->suffix, 0);
        EXPECT_EQ(tokens->middle, 2);
    }
    EXPECT_FALSE(found({"<|fim_suffix|>", "<|fim_prefix|>", "a"}));
}

TEST(Vocabulary, ErrorsNameTheKey) {
    EXPECT_THAT(error_of([](auto& m) { m.erase("tokenizer.ggml.model"); }),
                HasSubstr("tokenizer.ggml.model"));
    EXPECT_THAT(error_of([](auto& m) { m.erase("tokenizer.ggml.tokens"); }),
                HasSubstr("tokenizer.ggml.tokens: missing"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.tokens"] = std::vector<float>{1}; }),
                HasSubstr("tokenizer.ggml.tokens: expected an array of strings"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.tokens"] = std::string("a"); }),
                HasSubstr("tokenizer.ggml.tokens: expected an array of strings"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.scores"] = std::vector<float>{1}; }),
                HasSubstr("tokenizer.ggml.scores: 1 entries"));
    EXPECT_THAT(error_of([](auto& m) {
                    m["tokenizer.ggml.token_type"] = std::vector<std::int32_t>{1, 1, 7, 1};
                }),
                HasSubstr("tokenizer.ggml.token_type: token 2 has type 7"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.bos_token_id"] = std::uint32_t{4}; }),
                HasSubstr("tokenizer.ggml.bos_token_id: token id 4 is outside"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.eot_token_id"] = std::int32_t{-1}; }),
                HasSubstr("tokenizer.ggml.eot_token_id: token id -1 is outside"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.add_bos_token"] = std::string("yes"); }),
                HasSubstr("tokenizer.ggml.add_bos_token"));
    EXPECT_THAT(error_of([](auto& m) { m["tokenizer.ggml.pre"] = true; }),
                HasSubstr("tokenizer.ggml.pre"));
}

}  // namespace
}  // namespace helix::text::tokenizer_vocabulary_test
