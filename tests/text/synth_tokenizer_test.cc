// The tokenizers of the small models of families: each is of its family's kind, gives texts back,
// and knows the family's special tokens and form of chats.

#include "model/synth_tokenizers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "answer_reader.h"
#include "base/random.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/synth.h"
#include "text/detokenizer.h"
#include "text/output/answer_parser.h"
#include "text/template/call_history.h"
#include "text/template/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_calls/tool_format.h"

namespace helix::text::synth_tokenizer_test {
namespace {

using model::SynthTokenizer;

constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};
constexpr EncodeOptions kWithSpecial{.add_special = false, .parse_special = true};

std::shared_ptr<const model::GgufFile> header_of(const SynthTokenizer& kind, std::int32_t vocab,
                                                 std::uint64_t seed) {
    model::GgufBuilder builder;
    builder.set("general.architecture", "llama");
    model::set_synth_tokenizer(kind, vocab, seed, builder);
    return *model::GgufFile::from_header(builder.header(), "m.gguf");
}

std::shared_ptr<const Tokenizer> make(const SynthTokenizer& kind, std::int32_t vocab = 2048) {
    auto vocabulary = read_vocabulary(*header_of(kind, vocab, 3));
    EXPECT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    auto made = Tokenizer::create(std::move(*vocabulary));
    EXPECT_TRUE(made.ok()) << kind.name << ": " << made.error().message;
    return made.ok() ? *made : nullptr;
}

std::string text_of(const Tokenizer& tokenizer, std::optional<Token> token) {
    return token ? std::string(tokenizer.token_bytes(*token)) : std::string();
}

// What published files say, and how a conversation of three messages looks.
struct Family {
    const char* model;
    const char* pre;
    const char* begin;  // BOS
    const char* end;    // EOS
    bool adds_bos, adds_eos;
    const char* prompt;
};

constexpr const char* kImPrompt =
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"
    "<|im_start|>user\nWell?<|im_end|>\n<|im_start|>assistant\n";
constexpr const char* kGlmPrompt =
    "[gMASK]<sop><|user|>\nHi<|assistant|>\nHo<|user|>\nWell?<|assistant|>\n";
constexpr const char* kCommandPrompt =
    "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Ho<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Well?<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>";
constexpr const char* kGemmaPrompt =
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHo<end_of_turn>\n"
    "<start_of_turn>user\nWell?<end_of_turn>\n<start_of_turn>model\n";

const std::map<std::string, Family>& families() {
    static const std::map<std::string, Family> kFamilies{
        {"smollm3",
         {"gpt2", "smaug-bpe", "<|begin_of_text|>", "<|im_end|>", false, false, kImPrompt}},
        {"olmo2",
         {"gpt2", "dbrx", "<|endoftext|>", "<|endoftext|>", false, false,
          "<|endoftext|><|user|>\nHi\n<|assistant|>\nHo<|endoftext|>\n<|user|>\nWell?\n"
          "<|assistant|>\n"}},
        {"phi4",
         {"gpt2", "gpt-4o", "<|endoftext|>", "<|endoftext|>", false, false,
          "<|user|>Hi<|end|><|assistant|>Ho<|end|><|user|>Well?<|end|><|assistant|>"}},
        {"granite",
         {"gpt2", "refact", "<|end_of_text|>", "<|end_of_text|>", false, false,
          "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
          "<|start_of_role|>assistant<|end_of_role|>Ho<|end_of_text|>\n"
          "<|start_of_role|>user<|end_of_role|>Well?<|end_of_text|>\n"
          "<|start_of_role|>assistant<|end_of_role|>"}},
        {"qwen3-embedding",
         {"gpt2", "qwen2", "<|endoftext|>", "<|endoftext|>", false, true, kImPrompt}},
        {"qwen3-reranker",
         {"gpt2", "qwen2", "<|endoftext|>", "<|im_end|>", false, false, kImPrompt}},
        {"qwen2-moe", {"gpt2", "qwen2", "<|endoftext|>", "<|im_end|>", false, false, kImPrompt}},
        {"glm4", {"gpt2", "glm4", "[gMASK]", "<|endoftext|>", false, false, kGlmPrompt}},
        {"glm4-moe", {"gpt2", "glm4", "[gMASK]", "<|endoftext|>", false, false, kGlmPrompt}},
        {"command-r",
         {"gpt2", "command-r", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", true, false,
          kCommandPrompt}},
        {"command-r-plus",
         {"gpt2", "command-r", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", true, false,
          kCommandPrompt}},
        {"minimax-m2",
         {"gpt2", "minimax-m2", "]~!b[", "[e~[", false, false,
          "]~!b[]~b]user\nHi[e~[\n]~b]ai\nHo[e~[\n]~b]user\nWell?[e~[\n]~b]ai\n<think>\n"}},
        {"llama4",
         {"gpt2", "llama4", "<|begin_of_text|>", "<|eot|>", true, false,
          "<|begin_of_text|><|header_start|>user<|header_end|>\n\nHi<|eot|>"
          "<|header_start|>assistant<|header_end|>\n\nHo<|eot|>"
          "<|header_start|>user<|header_end|>\n\nWell?<|eot|>"
          "<|header_start|>assistant<|header_end|>\n\n"}},
        {"gpt-oss",
         {"gpt2", "gpt-4o", "<|startoftext|>", "<|return|>", false, false,
          "<|start|>user<|message|>Hi<|end|>"
          "<|start|>assistant<|channel|>final<|message|>Ho<|end|>"
          "<|start|>user<|message|>Well?<|end|><|start|>assistant"}},
        {"nemotron",
         {"llama", "", "<s>", "</s>", true, false,
          "<extra_id_1>User\nHi\n<extra_id_1>Assistant\nHo\n<extra_id_1>User\nWell?\n"
          "<extra_id_1>Assistant\n"}},
        {"gemma2", {"llama", "", "<bos>", "<eos>", true, false, kGemmaPrompt}},
        {"gemma3", {"llama", "", "<bos>", "<eos>", true, false, kGemmaPrompt}},
        {"embeddinggemma", {"llama", "", "<bos>", "<eos>", true, true, nullptr}},
        {"gemma4",
         {"gemma4", "", "<bos>", "<eos>", true, false,
          "<bos><|turn>user\nHi<turn|>\n<|turn>model\nHo<turn|>\n<|turn>user\nWell?<turn|>\n"
          "<|turn>model\n"}},
        {"jina-bert-v2-code", {"gpt2", "jina-v2-code", "<s>", "</s>", true, true, nullptr}},
        {"modern-bert", {"gpt2", "modern-bert", "[CLS]", "[SEP]", true, true, nullptr}},
    };
    return kFamilies;
}

TEST(SynthTokenizer, EveryDecoderOfAFamilyHasItsFamilysTokenizer) {
    EXPECT_EQ(model::synth_tokenizers().size(), families().size());
    for (const model::SynthShape& shape : model::synth_likes()) {
        const SynthTokenizer* kind = model::find_synth_tokenizer(shape.tokenizer);
        EXPECT_EQ(kind == nullptr, shape.tokenizer.empty()) << shape.name;
        // BERT and XLM-RoBERTa have word pieces and unigrams.
        if (shape.tokenizer.empty()) {
            EXPECT_NE(shape.architecture.find("bert"), std::string::npos) << shape.name;
        }
    }
    for (const model::SynthShape& shape : model::synth_shapes())
        EXPECT_EQ(shape.tokenizer, "") << shape.name;
}

TEST(SynthTokenizer, KindAndRolesAreThoseOfPublishedFiles) {
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        SCOPED_TRACE(kind.name);
        const Family& family = families().at(std::string(kind.name));
        const auto tokenizer = make(kind);
        ASSERT_NE(tokenizer, nullptr);
        const Vocabulary& vocabulary = tokenizer->vocabulary();
        EXPECT_EQ(vocabulary.model, family.model);
        EXPECT_EQ(vocabulary.pre, family.pre);
        EXPECT_EQ(tokenizer->vocab_size(), 2048);
        EXPECT_EQ(text_of(*tokenizer, tokenizer->bos()), family.begin);
        EXPECT_EQ(text_of(*tokenizer, tokenizer->eos()), family.end);
        EXPECT_EQ(tokenizer->adds_bos(), family.adds_bos);
        EXPECT_EQ(tokenizer->adds_eos(), family.adds_eos);
        EXPECT_EQ(tokenizer->adds_space_prefix(), kind.name == "nemotron");
        EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->eos()));
        std::vector<std::string> texts = vocabulary.tokens;
        std::sort(texts.begin(), texts.end());
        EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
    }
}

TEST(SynthTokenizer, SpecialTokensAreReadWhereTheyMayBe) {
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        const auto tokenizer = make(kind);
        ASSERT_NE(tokenizer, nullptr);
        const auto& tokens = tokenizer->vocabulary().tokens;
        const auto check = [&](std::string_view text, bool control) {
            SCOPED_TRACE(std::string(kind.name) + ": " + std::string(text));
            const auto found = std::find(tokens.begin(), tokens.end(), text);
            ASSERT_NE(found, tokens.end());
            const std::vector<Token> alone{static_cast<Token>(found - tokens.begin())};
            EXPECT_EQ(tokenizer->is_special(alone[0]), control);
            EXPECT_EQ(tokenizer->encode(text, kWithSpecial), alone);
            // What users write is no control token.
            EXPECT_EQ(tokenizer->encode(text, kPlain) == alone, !control);
        };
        for (const std::string_view text : kind.first) check(text, true);
        for (const std::string_view text : kind.last) check(text, true);
        for (const std::string_view text : kind.spoken) check(text, false);
    }
}

TEST(SynthTokenizer, TextsComeBack) {
    const std::vector<std::string> texts{
        "",
        "The small machine answers.",
        " it begins with a space",
        "Hello World, HELLO world",
        "3.14159 and 20240229 or 1,000",
        "D\xc3\xa9j\xc3\xa0 vu in Z\xc3\xbcrich, na\xc3\xafve \xc3\x86sop",
        "\xe4\xb8\xad\xe6\x96\x87 and \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82",
        "\xf0\x9f\x98\x80\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd!",
        "int main() {\n    return f(x) == 3 ? 1 : 0;  // it's\n}\n",
        "a  b   c\n\n\n\td \r\n  e\n",
        "<|im_start|>user <bos> [gMASK]",
    };
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        const auto tokenizer = make(kind);
        ASSERT_NE(tokenizer, nullptr);
        for (const std::string& text : texts) {
            for (const EncodeOptions& options : {kPlain, EncodeOptions{}}) {
                const auto tokens = tokenizer->encode(text, options);
                EXPECT_EQ(decode(*tokenizer, tokens, {.starts_text = true}), text) << kind.name;
            }
        }
    }
}

TEST(SynthTokenizer, MergesReachEveryTokenThatIsGrown) {
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        if (kind.model == "llama") continue;
        SCOPED_TRACE(kind.name);
        const auto tokenizer = make(kind);
        ASSERT_NE(tokenizer, nullptr);
        const Vocabulary& vocabulary = tokenizer->vocabulary();
        std::size_t grown = 0;
        for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
            if (vocabulary.kinds[static_cast<std::size_t>(token)] != TokenKind::normal) continue;
            const std::string text(tokenizer->token_bytes(token));
            EXPECT_EQ(tokenizer->encode(text, kPlain), std::vector<Token>{token})
                << testing::PrintToString(text);
            ++grown;
        }
        const std::size_t characters = kind.model == "gpt2" ? 256 : 95;
        EXPECT_EQ(vocabulary.merges.size(), grown - characters);
        EXPECT_GT(grown, 1500U);
    }
}

TEST(SynthTokenizer, CommonWordsAreTokens) {
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        const auto tokenizer = make(kind);
        ASSERT_NE(tokenizer, nullptr);
        // Each with the space before it; a space that is put before the text is the first one's.
        const std::string text =
            tokenizer->adds_space_prefix() ? "the small machine" : " the small machine";
        EXPECT_EQ(tokenizer->encode(text, kPlain).size(), 3U) << kind.name;
    }
}

TEST(SynthTokenizer, ASeedGivesOneVocabularyAndAnotherSeedAnother) {
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        const auto tokens = [&](std::uint64_t seed) {
            return read_vocabulary(*header_of(kind, 2048, seed))->tokens;
        };
        EXPECT_EQ(tokens(5), tokens(5)) << kind.name;
        EXPECT_NE(tokens(5), tokens(6)) << kind.name;
        // The smallest has nothing that is grown, and can be read all the same if it has merges.
        const std::int32_t least = model::min_synth_vocabulary(kind);
        EXPECT_EQ(read_vocabulary(*header_of(kind, least, 1))->tokens.size(),
                  static_cast<std::size_t>(least));
        EXPECT_NE(make(kind, least + 1), nullptr) << kind.name;
    }
}

std::string rendered(const Tokenizer& tokenizer, nlohmann::ordered_json messages) {
    const auto parsed = ChatTemplate::parse(tokenizer.vocabulary().chat_template);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    if (!parsed.ok()) return {};
    ChatRequest request;
    request.messages = std::move(messages);
    request.bos_token = text_of(tokenizer, tokenizer.bos());
    request.eos_token = text_of(tokenizer, tokenizer.eos());
    const auto prompt = (*parsed)->render_chat(request);
    EXPECT_TRUE(prompt.ok()) << prompt.error().message;
    return prompt.ok() ? *prompt : std::string();
}

TEST(SynthTokenizer, ChatsHaveTheFamilysForm) {
    const auto messages = nlohmann::ordered_json::parse(
        R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"},
            {"role": "user", "content": "Well?"}])");
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        SCOPED_TRACE(kind.name);
        const auto tokenizer = make(kind);
        ASSERT_NE(tokenizer, nullptr);
        const Family& family = families().at(std::string(kind.name));
        ASSERT_EQ(tokenizer->vocabulary().chat_template.empty(), family.prompt == nullptr);
        if (family.prompt == nullptr) continue;
        const std::string prompt = rendered(*tokenizer, messages);
        EXPECT_EQ(prompt, family.prompt);
        const auto tokens = tokenizer->encode(prompt, kWithSpecial);
        const auto special = std::count_if(tokens.begin(), tokens.end(), [&](Token token) {
            return tokenizer->is_special(token);
        });
        EXPECT_GE(special, kind.name == "olmo2" ? 2 : 3);
        if (tokenizer->adds_space_prefix()) continue;  // before each text behind a special token
        EXPECT_EQ(decode(*tokenizer, tokens, {.skip_special_tokens = false}), prompt);
    }
}

TEST(SynthTokenizer, ARerankersTemplateHasPlacesForWhatIsRanked) {
    for (const SynthTokenizer& kind : model::synth_tokenizers()) {
        if (kind.rerank_template.empty()) continue;
        EXPECT_EQ(kind.name, "qwen3-reranker");
        EXPECT_NE(kind.rerank_template.find("{query}"), std::string_view::npos);
        EXPECT_NE(kind.rerank_template.find("{document}"), std::string_view::npos);
    }
}

class SynthHarmony : public ::testing::Test {
  protected:
    SynthHarmony() : tokenizer_(make(*model::find_synth_tokenizer("gpt-oss"))) {
        const auto has_token = [&](std::string_view text) { return id_of(text) >= 0; };
        const std::string& source = tokenizer_->vocabulary().chat_template;
        format_.tools = &detect_tool_format(source, has_token);
        format_.reasoning = detect_reasoning_format(source, has_token);
    }
    Token id_of(std::string_view text) const {
        const auto& tokens = tokenizer_->vocabulary().tokens;
        const auto found = std::find(tokens.begin(), tokens.end(), text);
        return found == tokens.end() ? -1 : static_cast<Token>(found - tokens.begin());
    }
    test_support::ReadAnswer read(const std::vector<Token>& tokens) const {
        AnswerParser::Options options;
        options.format = format_;
        options.tools = test_support::demo_tools();
        return test_support::read_answer(
            options, decode(*tokenizer_, tokens, {.skip_special_tokens = false}));
    }

    std::shared_ptr<const Tokenizer> tokenizer_;
    AnswerFormat format_;
};

TEST_F(SynthHarmony, IsRecognisedAndItsAnswersAreReadAsChannels) {
    EXPECT_EQ(format_.tools->name, "harmony");
    EXPECT_EQ(format_.reasoning, nullptr);
    EXPECT_TRUE(tokenizer_->is_end_of_generation(id_of("<|return|>")));
    EXPECT_TRUE(tokenizer_->is_end_of_generation(id_of("<|call|>")));
    EXPECT_FALSE(tokenizer_->is_end_of_generation(id_of("<|end|>")));
    const auto answer =
        read(tokenizer_->encode("<|channel|>analysis<|message|>The water is long.<|end|>"
                                "<|start|>assistant<|channel|>final<|message|>Once upon a time.",
                                kWithSpecial));
    EXPECT_EQ(answer.reasoning, "The water is long.");
    EXPECT_EQ(answer.content, "Once upon a time.");
}

TEST_F(SynthHarmony, ShowsToolsAndCallsToTheModel) {
    const auto parsed = ChatTemplate::parse(tokenizer_->vocabulary().chat_template);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    const CallStyle style = probe_call_style(**parsed, *format_.tools);
    EXPECT_FALSE(style.generic);
    const std::string prompt = rendered(
        *tokenizer_,
        nlohmann::ordered_json::parse(
            R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Well?"},
            {"role": "assistant", "content": null, "tool_calls": [{"function":
                {"name": "get_weather", "arguments": {"city": "Bonn"}}}]},
            {"role": "tool", "content": "cold"}])"));
    EXPECT_EQ(prompt,
              "<|start|>developer<|message|>Be brief.<|end|><|start|>user<|message|>Well?<|end|>"
              "<|start|>assistant<|channel|>commentary to=functions.get_weather "
              "<|constrain|>json<|message|>{\"city\": \"Bonn\"}<|call|>"
              "<|start|>tool to=assistant<|channel|>commentary<|message|>cold<|end|>"
              "<|start|>assistant");
}

// A model without training says anything.
TEST_F(SynthHarmony, AnyTokensAreAnAnswer) {
    base::Random random(19);
    for (int trial = 0; trial < 200; ++trial) {
        std::vector<Token> tokens;
        std::size_t bytes = 0;
        for (int i = 0; i < 60; ++i) {
            // Special tokens far more often than chance would.
            const bool special = random.chance(0.3);
            const Token token =
                special ? tokenizer_->vocab_size() - 1 - static_cast<Token>(random.below(10))
                        : static_cast<Token>(random.below(2048));
            tokens.push_back(token);
            bytes += tokenizer_->token_bytes(token).size();
        }
        const auto answer = read(tokens);
        EXPECT_LE(answer.content.size() + answer.reasoning.size(), 3 * bytes);
    }
}

}  // namespace
}  // namespace helix::text::synth_tokenizer_test
