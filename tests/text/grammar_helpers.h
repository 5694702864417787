#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/effort.h"
#include "base/random.h"
#include "text/grammar/output_grammar.h"
#include "text/vocabulary.h"

namespace helix::text::grammar::test {

using Kind = spec::OutputGrammar::Kind;

inline std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path) {
    const auto file = model::GgufFile::open(path);
    if (!file.ok()) return nullptr;
    auto vocabulary = read_vocabulary(**file);
    CHECK(vocabulary.ok());
    auto tokenizer = Tokenizer::create(std::move(*vocabulary));
    CHECK(tokenizer.ok());
    return *tokenizer;
}

inline const std::string kDemo = std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf";

// Of files, some of which may not be there. The large ones find other mistakes than a sanitizer
// does.
inline std::vector<std::string> vocabularies() {
    if (kSanitized) return {kDemo};
    return {kDemo, HELIX_DATA_DIR "/vocab/ggml-vocab-llama-spm.gguf",
            HELIX_DATA_DIR "/vocab/ggml-vocab-gpt-2.gguf"};
}

// Whether the whole text is one of the automaton's.
inline bool matches(Matcher& matcher, std::string_view text) {
    Matcher::State state = matcher.start();
    for (const char byte : text) state = matcher.next(state, static_cast<std::uint8_t>(byte));
    return matcher.accepts(state);
}
inline bool matches(const std::shared_ptr<const Automaton>& automaton, std::string_view text) {
    Matcher matcher(automaton);
    return matches(matcher, text);
}

// Grammars of all kinds, by which the tests write texts.
inline std::vector<spec::OutputGrammar> sample_grammars() {
    return {
        {Kind::json_object, ""},
        {Kind::gbnf, "root ::= (\"yes\" | \"no\") (\", \" [a-z\xC3\xA9\xE2\x82\xAC]+){0,3} [.!]"},
        {Kind::gbnf, "root ::= \"(\" root \")\" | \"\xF0\x9F\x98\x80\" | [0-9]+"},
        {Kind::json_schema, R"({"type":"object","properties":{"name":{"type":"string","minLength":1,
          "maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array",
          "items":{"enum":["red","green","blue"]},"maxItems":3},"born":{"type":"string",
          "pattern":"^\\d{4}-\\d{2}$"},"more":{"$ref":"#"}},"required":["name","age","born"]})"},
        {Kind::json_schema, R"({"type":"object","properties":{"kind":{"const":"x"}},
          "additionalProperties":{"type":["number","null"]}})"},
        {Kind::json_schema, R"({"anyOf":[{"type":"array","items":{"type":"boolean"},"minItems":2,
          "maxItems":4},{"type":"object","properties":{"v":{}},"required":["v"]}]})"},
        {Kind::json_schema, R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],
          "minItems":2,"items":{"type":"string","pattern":"^[A-Z0-9_\"\\\\]{0,4}$"},"maxItems":4})"},
        // Counts near and far from their ends, one inside another.
        {Kind::gbnf, "root ::= (([a-z0-9\xC3\xA9]{5,30} \"!\"){2,40} \".\"){1,9} \"}\""},
        {Kind::json_schema, R"({"type":"array","items":{"type":"string","minLength":20,
          "maxLength":45},"maxItems":6})"},
    };
}

// The longest tokens that write the text, so that nothing is added to it.
inline std::vector<Token> spell(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<Token> out;
    while (!text.empty()) {
        Token best = -1;
        std::size_t length = 0;
        for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
            const std::string_view bytes = tokenizer.token_bytes(token);
            if (tokenizer.is_special(token) || bytes.size() <= length) continue;
            if (!text.starts_with(bytes)) continue;
            best = token;
            length = bytes.size();
        }
        CHECK(best >= 0);
        out.push_back(best);
        text.remove_prefix(length);
    }
    return out;
}

// Picks a token at random among the allowed, and more and more often one that closes something, so
// that texts end.
inline Token pick_token(const Tokenizer& tokenizer, const TokenMask& mask, base::Random& random,
                        std::size_t so_far) {
    std::vector<Token> allowed;
    constexpr std::string_view kClosers = "\"}]).!";  // most wanted first
    std::size_t rank = kClosers.size();
    std::optional<Token> closing;
    std::optional<Token> ending;
    for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
        if (!mask.test(token)) continue;
        allowed.push_back(token);
        if (tokenizer.is_end_of_generation(token)) ending = token;
        const std::string_view bytes = tokenizer.token_bytes(token);
        if (bytes.size() != 1 || kClosers.find(bytes) >= rank) continue;
        rank = kClosers.find(bytes);
        closing = token;
    }
    if (ending) closing = ending;
    CHECK(!allowed.empty());
    if (closing && random.below(40) < so_far) return *closing;
    return allowed[random.below(allowed.size())];
}

}  // namespace helix::text::grammar::test
