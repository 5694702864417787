// rooms: text
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/grammar/matcher.h"
#include "text/grammar/output_grammar.h"

// Any JSON schema or GBNF, with the budgets of a worker: a matcher that knows nothing of masks
// reads whatever a mask allows, and refuses what it leaves out. A budget ends a text at the same
// token whether or not anything is kept.

namespace {

using namespace helix;
using text::Token;
using text::grammar::GrammarMasks;
using text::grammar::Matcher;

void require(bool condition) {
    if (!condition) std::abort();
}

// A tokenizer for all bytes and some pieces of JSON.
std::shared_ptr<const text::Tokenizer> small_tokenizer() {
    text::Vocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.tokens = {"<unk>", "<s>", "</s>"};
    vocabulary.kinds = {text::TokenKind::unknown, text::TokenKind::control,
                        text::TokenKind::control};
    for (int byte = 0; byte < 256; ++byte) {
        constexpr const char* kHex = "0123456789ABCDEF";
        vocabulary.tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
        vocabulary.kinds.push_back(text::TokenKind::byte);
    }
    for (const char* piece : {"{\"", "\":", "\",\"", "\"}", "[[", "]]", "true", "false", "null",
                              "12", "ab", "abc", "\\u00", "},{", ", ", "\xC3\xA9", "e+1", "-0."}) {
        vocabulary.tokens.emplace_back(piece);
        vocabulary.kinds.push_back(text::TokenKind::normal);
    }
    vocabulary.scores.assign(vocabulary.tokens.size(), 0.0F);
    auto made = text::Tokenizer::create(std::move(vocabulary));
    require(made.ok());
    return *made;
}

// Whether a fresh matcher reads the text; nothing when it comes into trouble.
bool alive(Matcher& matcher, Matcher::State state, std::string_view bytes) {
    for (const char byte : bytes) state = matcher.next(state, static_cast<std::uint8_t>(byte));
    return state != Matcher::kDead;
}

void walk(const spec::OutputGrammar& grammar, std::uint64_t seed) {
    static const auto tokenizer = small_tokenizer();
    constexpr text::grammar::MaskLimits kLimits{.mask_steps = 200'000, .text_steps = 2'000'000};
    const auto automaton = text::grammar::compile(grammar);
    if (!automaton.ok()) return require(!automaton.error().message.empty());
    GrammarMasks masks(tokenizer, kLimits);
    Matcher reader(*automaton);
    Matcher::State state = reader.start();
    base::Random random(seed);
    std::vector<Token> output;
    for (int i = 0; i < 12; ++i) {
        const auto mask = masks.allowed(grammar, 1, output);
        if (i % 5 == 0) {
            GrammarMasks fresh(tokenizer, kLimits);
            const auto again = fresh.allowed(grammar, 1, output);
            require(again.ok() == mask.ok());
            require(!mask.ok() || (*again)->words() == (*mask)->words());
        }
        if (!mask.ok()) return require(!mask.error().message.empty());
        Token next = -1;
        std::uint64_t seen = 0;
        for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
            reader.begin_count(kLimits.mask_steps);
            const bool allowed = (*mask)->test(token);
            if (tokenizer->is_end_of_generation(token)) {
                require(allowed == reader.accepts(state));
                continue;
            }
            if (tokenizer->is_special(token)) {
                require(!allowed);
                continue;
            }
            const bool reads = alive(reader, state, tokenizer->token_bytes(token));
            require(reader.trouble() != Matcher::Trouble::none || reads == allowed);
            if (allowed && random.below(++seen) == 0) next = token;
        }
        if (next < 0 || reader.memory_bytes() > (std::size_t{64} << 20)) return;
        output.push_back(next);
        reader.begin_count();
        for (const char byte : tokenizer->token_bytes(next)) {
            state = reader.next(state, static_cast<std::uint8_t>(byte));
        }
        require(state != Matcher::kDead);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    using Kind = spec::OutputGrammar::Kind;
    walk({data[0] == 'g' ? Kind::gbnf : Kind::json_schema,
          std::string(reinterpret_cast<const char*>(data) + 1, size - 1)},
         size);
    return 0;
}
