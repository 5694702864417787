// What a grammar costs per token: following the last token and finding the mask of the next, for
// states that are new and for states seen before.
//     grammar_bench [MODEL.gguf [TEXTS]]     a file with a vocabulary, by default one of 32,000
//     tokens

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/grammar/output_grammar.h"
#include "text/vocabulary.h"

namespace {

using namespace helix;
using spec::OutputGrammar;
using text::grammar::GrammarMasks;
using text::grammar::TokenMask;

struct Named {
    const char* name;
    OutputGrammar grammar;
};

std::vector<Named> grammars() {
    using Kind = OutputGrammar::Kind;
    std::string wide = R"({"type":"object","properties":{)";
    for (int i = 0; i < 30; ++i) {
        wide += (i == 0 ? "\"" : ",\"") + std::string("field_") + std::to_string(i) +
                R"(":{"type":["string","number","null"]})";
    }
    wide += "}}";
    return {
        {"JSON mode", {Kind::json_object, ""}},
        {"schema, person",
         {Kind::json_schema, R"({"type":"object","properties":{"name":{"type":"string"},
          "age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},
          "tags":{"type":"array","items":{"enum":["red","green","blue"]},"maxItems":5}},
          "required":["name","age"]})"}},
        {"schema, 30 optional", {Kind::json_schema, wide}},
        {"schema, maxLength 200",
         {Kind::json_schema,
          R"({"type":"object","properties":{"t":{"type":"string","maxLength":200}},"required":["t"]})"}},
        {"GBNF, words", {Kind::gbnf, "root ::= ([a-z]+ [ ,.])+ \"!\""}},
    };
}

// The CPU time of this thread, so that what else runs on the machine does not count.
double cpu_us() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void print(const char* name, const char* what, std::vector<double> us) {
    std::sort(us.begin(), us.end());
    double sum = 0;
    for (const double t : us) sum += t;
    const auto at = [&us](double share) {
        return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
    };
    std::printf("%-24s %-7s %7zu %9.1f %9.1f %9.1f %9.1f\n", name, what, us.size(),
                sum / static_cast<double>(us.size()), at(0.5), at(0.99), us.back());
}

// Picks a random allowed token, such that a text ends sooner or later.
spec::Token pick(const text::Tokenizer& tokenizer, const TokenMask& mask, base::Random& random) {
    std::vector<spec::Token> allowed;
    for (spec::Token t = 0; t < tokenizer.vocab_size(); ++t) {
        if (mask.test(t)) allowed.push_back(t);
    }
    return allowed[random.below(allowed.size())];
}

bool write_texts(const std::shared_ptr<const text::Tokenizer>& tokenizer, const Named& named,
                 std::uint64_t texts) {
    GrammarMasks masks(tokenizer);
    std::vector<double> first;
    std::vector<double> again;
    for (std::uint64_t seed = 0; seed < texts; ++seed) {
        base::Random random(seed);
        std::vector<spec::Token> output;
        for (int i = 0; i < 200; ++i) {
            const double begin = cpu_us();
            const auto mask = masks.allowed(named.grammar, seed, output);
            first.push_back(cpu_us() - begin);
            if (!mask.ok()) {
                std::fprintf(stderr, "%s: %s\n", named.name, mask.error().message.c_str());
                return false;
            }
            const double repeated = cpu_us();
            if (!masks.allowed(named.grammar, seed, output).ok()) return false;
            again.push_back(cpu_us() - repeated);
            output.push_back(pick(*tokenizer, **mask, random));
            if (tokenizer->is_end_of_generation(output.back())) break;
        }
    }
    print(named.name, "written", std::move(first));
    print(named.name, "cached", std::move(again));
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string path = argc > 1 ? argv[1] : HELIX_DATA_DIR "/vocab/ggml-vocab-llama-spm.gguf";
    const std::uint64_t texts = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 40;
    const auto file = model::GgufFile::open(path);
    if (!file.ok()) {
        std::fprintf(stderr, "%s\n", file.error().message.c_str());
        return 1;
    }
    auto vocabulary = text::read_vocabulary(**file);
    if (!vocabulary.ok()) return 1;
    auto tokenizer = text::Tokenizer::create(std::move(*vocabulary));
    if (!tokenizer.ok()) return 1;
    std::printf("%d tokens; CPU microseconds per token: following it and the mask of the next\n",
                (*tokenizer)->vocab_size());
    std::printf("%-24s %-7s %7s %9s %9s %9s %9s\n", "grammar", "", "tokens", "mean", "p50", "p99",
                "worst");
    for (const Named& named : grammars()) {
        if (!write_texts(*tokenizer, named, texts)) return 1;
    }
    return 0;
}
