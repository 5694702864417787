#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "spec/sampling_params.h"
#include "text/grammar/automaton.h"
#include "text/grammar/token_mask.h"
#include "text/tokenizer.h"

namespace helix::text::grammar {

// Error invalid says what is wrong with the schema or grammar, and where; also for more than
// kMaxTextBytes.
base::Result<std::shared_ptr<const Automaton>> compile(const spec::OutputGrammar& grammar);

// Which tokens may follow, for any number of grammars and texts over one vocabulary. An answer is a
// function of its arguments only; what was worked out before just makes it fast. For any thread;
// texts under different grammars do not wait for each other.
class GrammarMasks {
  public:
    static constexpr std::size_t kMaxGrammars = 16;  // kept at a time
    static constexpr std::size_t kMaxTexts = 1024;   // of one grammar, whose positions are kept

    static constexpr std::size_t kMaxMemoryBytes = std::size_t{256} << 20;  // of all grammars

    explicit GrammarMasks(std::shared_ptr<const Tokenizer> tokenizer, const MaskLimits& limits = {},
                          std::size_t max_memory_bytes = kMaxMemoryBytes);

    // The tokens that may follow output; null for any, which is all that a grammar of kind none
    // says (it closes thoughts). text_id stays the same for the same text as it grows. Error
    // invalid, the same on every machine: a grammar that cannot be read, an output that does not
    // follow it, no token that may follow, or a limit of MaskLimits.
    base::Result<std::shared_ptr<const TokenMask>> allowed(const spec::OutputGrammar& grammar,
                                                           std::uint64_t text_id,
                                                           std::span<const Token> output);

    // The token to write in place of drawn, which is allowed after output: behind that too few
    // tokens would be left to end the text (within_tokens), or a thought has gone on for too long;
    // nothing if drawn may stay. Error invalid as for allowed(), or the text can never end so soon.
    base::Result<std::optional<Token>> instead_of(Token drawn, const spec::OutputGrammar& grammar,
                                                  std::uint64_t text_id,
                                                  std::span<const Token> output);
    // The fewest tokens of an answer, its end token among them. Errors as for allowed().
    base::Result<std::size_t> fewest_tokens(const spec::OutputGrammar& grammar);

    // About how much memory everything that is kept takes.
    std::size_t memory_bytes();
    // The steps that the costliest mask of the kept grammars took.
    std::uint64_t most_steps();

  private:
    struct Text {
        std::vector<Token> tokens;  // read so far
        ConstrainedText::Position position;
        std::uint64_t generation = 0;
        std::uint64_t last_use = 0;
    };
    struct Entry {
        spec::OutputGrammar grammar;
        bool free = false;  // anything may be written before calls
        std::mutex mutex;   // protects what follows
        std::unique_ptr<ConstrainedText> texts_of;
        std::unordered_map<std::uint64_t, Text> texts;  // by text_id
        std::uint64_t uses = 0;
        std::size_t memory_bytes = 0;  // protected by the mutex_ of all
    };

    base::Result<std::shared_ptr<Entry>> entry(const spec::OutputGrammar& grammar);
    std::shared_ptr<const TokenTrie> trie_of(std::vector<std::string> markers);
    base::Result<bool> leaves_room(const Entry& entry, const Text& text, Token drawn,
                                   const spec::OutputGrammar& grammar,
                                   std::span<const Token> output) const;
    static Text& text_at(Entry& entry, std::uint64_t text_id);
    static base::Status follow(Entry& entry, Text& text, std::span<const Token> output);
    void keep_within_bounds(Entry& used);

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::shared_ptr<const TokenTrie> trie_;
    MaskLimits limits_;
    std::size_t max_memory_bytes_;
    std::mutex mutex_;                              // over what follows
    std::vector<std::string> markers_;              // of the last grammar that had some
    std::shared_ptr<const TokenTrie> marked_trie_;  // with their tokens
    std::list<std::shared_ptr<Entry>> entries_;     // last used first
};

}  // namespace helix::text::grammar
