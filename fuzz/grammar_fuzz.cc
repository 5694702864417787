// rooms: text
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/random.h"
#include "text/grammar/matcher.h"
#include "text/grammar/output_grammar.h"

// Any GBNF or JSON schema gives, without a crash, an error with a message, or compiles. What
// compiles can be begun, and from wherever a random walk over allowed bytes leads, some byte goes
// on or the text may end.

namespace {

using namespace helix;
using text::grammar::Matcher;

void require(bool condition) {
    if (!condition) std::abort();
}

void walk(const std::shared_ptr<const text::grammar::Automaton>& automaton, std::uint64_t seed) {
    Matcher matcher(automaton);
    base::Random random(seed);
    Matcher::State state = matcher.start();
    matcher.begin_count(2'000'000);
    for (int i = 0; i < 100 && matcher.trouble() == Matcher::Trouble::none; ++i) {
        require(state != Matcher::kDead);
        Matcher::State next = Matcher::kDead;
        std::uint64_t seen = 0;
        for (unsigned byte = 0; byte < 256; ++byte) {
            const Matcher::State to = matcher.next(state, static_cast<std::uint8_t>(byte));
            if (to != Matcher::kDead && random.below(++seen) == 0) next = to;
        }
        require(matcher.trouble() != Matcher::Trouble::none || seen > 0 || matcher.accepts(state));
        if (seen == 0 || matcher.memory_bytes() > (std::size_t{64} << 20)) return;
        state = next;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    using Kind = spec::OutputGrammar::Kind;
    const spec::OutputGrammar grammar{
        data[0] % 2 == 0 ? Kind::gbnf : Kind::json_schema,
        std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
    const auto automaton = text::grammar::compile(grammar);
    if (!automaton.ok()) {
        require(!automaton.error().message.empty());
        return 0;
    }
    walk(*automaton, size);
    return 0;
}
