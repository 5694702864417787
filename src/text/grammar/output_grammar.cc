#include "text/grammar/output_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "text/grammar/call_grammar.h"
#include "text/grammar/gbnf_parser.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/thought_grammar.h"

namespace helix::text::grammar {
namespace {

using Kind = spec::OutputGrammar::Kind;

base::Result<CallForm> read(const spec::OutputGrammar& grammar) {
    CallForm read;
    switch (grammar.kind) {
        case Kind::json_object:
            read.grammar = json_object_grammar();
            return read;
        case Kind::json_schema: {
            TRY(read.grammar, json_schema_grammar(std::string_view(grammar.text)));
            return read;
        }
        case Kind::gbnf: {
            TRY(read.grammar, parse_gbnf(grammar.text));
            return read;
        }
        case Kind::tool_calls:
            return call_grammar(grammar.text);
        case Kind::none:
            break;
    }
    return base::invalid("no grammar is given");
}

struct Compiled {
    std::shared_ptr<const Automaton> automaton;
    std::vector<std::string> markers;  // that the text may have as control tokens
    bool free = false;                 // CallForm::free
};

base::Result<Compiled> compile_all(const spec::OutputGrammar& grammar) {
    if (grammar.text.size() > spec::OutputGrammar::kMaxTextBytes) {
        return base::invalid(fmt::format("{} bytes are too many; at most {} are allowed",
                                         grammar.text.size(), spec::OutputGrammar::kMaxTextBytes));
    }
    TRY(CallForm form, read(grammar));
    Compiled compiled = {nullptr, std::move(form.markers), form.free};
    if (!grammar.thought.close.empty()) {
        form.grammar = behind_thought(std::move(form.grammar), grammar.thought);
        for (std::string& mark : marks_of(grammar.thought)) {
            compiled.markers.push_back(std::move(mark));
        }
    }
    TRY(compiled.automaton, Automaton::build(form.grammar));
    if (Matcher(compiled.automaton).trouble() != Matcher::Trouble::none) {
        return base::invalid(
            fmt::format("the grammar is too ambiguous: there are more than {} ways to begin",
                        Matcher::kMaxWays));
    }
    return compiled;
}

std::size_t tokens_left(const spec::OutputGrammar& grammar, std::span<const Token> output) {
    if (grammar.within_tokens == 0) return std::numeric_limits<std::size_t>::max();
    const auto within = static_cast<std::size_t>(grammar.within_tokens);
    return within - std::min(output.size(), within);
}

bool same_marks(const spec::Thought& a, const spec::Thought& b) {
    return a.open == b.open && a.close == b.close && a.never == b.never;
}

}  // namespace

base::Result<std::shared_ptr<const Automaton>> compile(const spec::OutputGrammar& grammar) {
    TRY(Compiled compiled, compile_all(grammar));
    return std::move(compiled.automaton);
}

GrammarMasks::GrammarMasks(std::shared_ptr<const Tokenizer> tokenizer, const MaskLimits& limits,
                           std::size_t max_memory_bytes)
    : tokenizer_(std::move(tokenizer)),
      trie_(std::make_shared<const TokenTrie>(*tokenizer_)),
      limits_(limits),
      max_memory_bytes_(max_memory_bytes) {}

base::Result<std::shared_ptr<GrammarMasks::Entry>> GrammarMasks::entry(
    const spec::OutputGrammar& grammar) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) {
        return e->grammar.kind == grammar.kind && e->grammar.text == grammar.text &&
               same_marks(e->grammar.thought, grammar.thought);
    });
    if (known != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, known);
        return entries_.front();
    }
    TRY(Compiled compiled, compile_all(grammar));
    auto made = std::make_shared<Entry>();
    made->grammar = grammar;
    made->free = compiled.free;
    made->texts_of = std::make_unique<ConstrainedText>(
        std::move(compiled.automaton), trie_of(std::move(compiled.markers)), tokenizer_, limits_);
    entries_.push_front(made);
    if (entries_.size() > kMaxGrammars) entries_.pop_back();
    return made;
}

// Most grammars have the one without markers.
std::shared_ptr<const TokenTrie> GrammarMasks::trie_of(std::vector<std::string> markers) {
    if (markers.empty()) return trie_;
    if (marked_trie_ == nullptr || markers != markers_) {
        marked_trie_ = std::make_shared<const TokenTrie>(*tokenizer_, markers);
        markers_ = std::move(markers);
    }
    return marked_trie_;
}

GrammarMasks::Text& GrammarMasks::text_at(Entry& entry, std::uint64_t text_id) {
    const auto known = entry.texts.find(text_id);
    if (known == entry.texts.end() && entry.texts.size() >= kMaxTexts) {
        const auto oldest = std::min_element(
            entry.texts.begin(), entry.texts.end(),
            [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
        entry.texts.erase(oldest);
    }
    Text& text = entry.texts[text_id];
    text.last_use = ++entry.uses;
    return text;
}

// Brings text to the end of output: from where it stands if output goes on from there, else from
// the beginning.
base::Status GrammarMasks::follow(Entry& entry, Text& text, std::span<const Token> output) {
    ConstrainedText& grammar = *entry.texts_of;
    const bool goes_on = !text.tokens.empty() && text.generation == grammar.generation() &&
                         text.tokens.size() <= output.size() &&
                         std::equal(text.tokens.begin(), text.tokens.end(), output.begin());
    if (!goes_on) {
        text.tokens.clear();
        text.position = grammar.start();
        text.generation = grammar.generation();
    }
    for (std::size_t i = text.tokens.size(); i < output.size(); ++i) {
        TRY(text.position, grammar.advance(text.position, output[i]));
        text.tokens.push_back(output[i]);
    }
    return base::Ok{};
}

base::Result<std::shared_ptr<const TokenMask>> GrammarMasks::allowed(
    const spec::OutputGrammar& grammar, std::uint64_t text_id, std::span<const Token> output) {
    if (grammar.kind == Kind::none) return std::shared_ptr<const TokenMask>();
    TRY(const std::shared_ptr<Entry> at, entry(grammar));
    const std::lock_guard lock(at->mutex);
    at->texts_of->drop_if_large();
    Text& text = text_at(*at, text_id);
    const base::Status followed = follow(*at, text, output);
    auto mask = followed.ok() ? at->texts_of->allowed(text.position) : followed.error();
    keep_within_bounds(*at);
    return mask;
}

base::Result<std::optional<Token>> GrammarMasks::instead_of(Token drawn,
                                                            const spec::OutputGrammar& grammar,
                                                            std::uint64_t text_id,
                                                            std::span<const Token> output) {
    const bool closes = thinks_too_long(*tokenizer_, grammar.thought, output);
    if (grammar.kind == Kind::none) {
        if (!closes) return std::optional<Token>();
        const std::lock_guard lock(mutex_);
        return next_to_close(*tokenizer_, *trie_of(marks_of(grammar.thought)), grammar.thought,
                             output);
    }
    TRY(const std::shared_ptr<Entry> at, entry(grammar));
    const std::lock_guard lock(at->mutex);
    Text& text = text_at(*at, text_id);
    TRY_VOID(follow(*at, text, output));
    if (!closes) {
        TRY(const bool fits, leaves_room(*at, text, drawn, grammar, output));
        if (fits) return std::optional<Token>();
    }
    TRY(const auto way_out, at->texts_of->way_out(text.position));
    if (way_out.tokens > tokens_left(grammar, output)) {
        return base::invalid(
            fmt::format("the shortest answer that the grammar allows needs {} "
                        "more tokens, and {} are left",
                        way_out.tokens, tokens_left(grammar, output)));
    }
    if (way_out.tokens == 0) return std::optional<Token>();
    return std::optional<Token>(way_out.first);
}

// Whether the text can be ended in time behind the drawn token.
base::Result<bool> GrammarMasks::leaves_room(const Entry& entry, const Text& text, Token drawn,
                                             const spec::OutputGrammar& grammar,
                                             std::span<const Token> output) const {
    if (grammar.within_tokens == 0) return true;
    TRY(const auto behind, entry.texts_of->advance(text.position, drawn));
    // What cannot be ended at all is no place to go to.
    const auto rest = entry.texts_of->way_out(behind);
    if (rest.ok() && rest->tokens < tokens_left(grammar, output)) return true;
    // What comes before calls that may come, or in place of them, may be cut anywhere.
    return entry.free && rest.ok() &&
           (rest->tokens <= 1 || in_thought(*tokenizer_, grammar.thought, output));
}

base::Result<std::size_t> GrammarMasks::fewest_tokens(const spec::OutputGrammar& grammar) {
    TRY(const std::shared_ptr<Entry> at, entry(grammar));
    const std::lock_guard lock(at->mutex);
    TRY(const auto way_out, at->texts_of->way_out(at->texts_of->start()));
    return way_out.tokens;
}

// Drops the grammars used longest ago while all together keep too much.
void GrammarMasks::keep_within_bounds(Entry& used) {
    const std::lock_guard lock(mutex_);
    used.memory_bytes = used.texts_of->memory_bytes();
    std::size_t sum = 0;
    for (const auto& e : entries_) sum += e->memory_bytes;
    while (sum > max_memory_bytes_ && entries_.size() > 1) {
        sum -= entries_.back()->memory_bytes;
        entries_.pop_back();
    }
}

std::size_t GrammarMasks::memory_bytes() {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& e : entries_) sum += e->memory_bytes;
    return sum;
}

std::uint64_t GrammarMasks::most_steps() {
    const std::lock_guard lock(mutex_);
    std::uint64_t most = 0;
    for (const auto& e : entries_) {
        const std::lock_guard inside(e->mutex);
        most = std::max(most, e->texts_of->most_steps());
    }
    return most;
}

}  // namespace helix::text::grammar
