// Schemas of a folder in the form of MaskBench (github.com/guidance-ai/jsonschemabench,
// maskbench/data): files {"schema", "tests": [{"valid", "data"}]}. Which are compiled, whether each
// test's document is accepted as it should be, and what a token costs: following it and the mask of
// the next.
//     schema_bench FOLDER [MODEL.gguf [LIST]]
// A file's name up to "---" or "_" is its category. LIST names a file that gets a line for each
// schema that does not pass.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "text/grammar/output_grammar.h"
#include "text/vocabulary.h"

namespace {

using namespace helix;
using Json = nlohmann::ordered_json;
using text::grammar::GrammarMasks;

struct Counts {
    std::size_t schemas = 0;
    std::size_t passed = 0;
    std::size_t refused = 0;           // not compiled
    std::size_t valid_refused = 0;     // schemas with a valid document that is not accepted
    std::size_t invalid_accepted = 0;  // schemas with an invalid document that is accepted
    std::size_t too_costly = 0;        // a limit was met on the way
    std::vector<double> mask_us;
    std::vector<double> first_us;

    void add(const Counts& other) {
        schemas += other.schemas;
        passed += other.passed;
        refused += other.refused;
        valid_refused += other.valid_refused;
        invalid_accepted += other.invalid_accepted;
        too_costly += other.too_costly;
        mask_us.insert(mask_us.end(), other.mask_us.begin(), other.mask_us.end());
        first_us.insert(first_us.end(), other.first_us.begin(), other.first_us.end());
    }
};

// The CPU time of this thread, so that what else runs on the machine does not count.
double cpu_us() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// With a blank after commas and colons, as Python's json writes.
void write(const Json& value, std::string& out) {
    if (!value.is_structured()) {
        out += value.dump();
        return;
    }
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& [key, part] : value.items()) {
        if (!first) out += ", ";
        first = false;
        if (value.is_object()) out += Json(key).dump() + ": ";
        write(part, out);
    }
    out += value.is_object() ? '}' : ']';
}

enum class Verdict : std::uint8_t { accepted, rejected, costly };

Verdict read_document(GrammarMasks& masks, const text::Tokenizer& tokenizer,
                      const spec::OutputGrammar& grammar, const std::string& document,
                      std::uint64_t id, std::vector<double>& us, std::string& why) {
    auto tokens = tokenizer.encode(document, {.add_special = false});
    std::vector<spec::Token> output;
    for (std::size_t i = 0; i <= tokens.size(); ++i) {
        const double begin = cpu_us();
        const auto mask = masks.allowed(grammar, id, output);
        us.push_back(cpu_us() - begin);
        if (!mask.ok()) {
            why = mask.error().message;
            return Verdict::costly;
        }
        if (i == tokens.size()) {
            bool ends = false;
            for (spec::Token token = 0; token < tokenizer.vocab_size(); ++token) {
                ends |= tokenizer.is_end_of_generation(token) && (*mask)->test(token);
            }
            if (!ends) why = "it may not end";
            return ends ? Verdict::accepted : Verdict::rejected;
        }
        if (!(*mask)->test(tokens[i])) {
            std::string so_far;
            for (const spec::Token token : output) so_far += tokenizer.token_bytes(token);
            why = so_far.substr(so_far.size() > 60 ? so_far.size() - 60 : 0) + " <<" +
                  std::string(tokenizer.token_bytes(tokens[i])) + ">>";
            return Verdict::rejected;
        }
        output.push_back(tokens[i]);
    }
    return Verdict::accepted;
}

Counts run(const std::filesystem::path& path, const text::Tokenizer& tokenizer, GrammarMasks& masks,
           std::ofstream& list) {
    Counts out;
    out.schemas = 1;
    std::ifstream file(path);
    const Json described = Json::parse(file, nullptr, false);
    const auto note = [&](const char* what, std::string_view why) {
        if (list.is_open()) list << what << '\t' << path.filename().string() << '\t' << why << '\n';
    };
    if (described.is_discarded()) {
        out.refused = 1;
        note("refused", "the file is not JSON");
        return out;
    }
    const spec::OutputGrammar grammar{spec::OutputGrammar::Kind::json_schema,
                                      described["schema"].dump()};
    const double begin = cpu_us();
    const auto compiled = text::grammar::compile(grammar);
    if (!compiled.ok()) {
        out.refused = 1;
        note("refused", compiled.error().message);
        return out;
    }
    (void)masks.allowed(grammar, 0, {});
    // The schema is compiled once for the answer to the request, and once where masks are found.
    out.first_us.push_back(cpu_us() - begin);
    std::uint64_t id = 0;
    for (const Json& test : described["tests"]) {
        std::string document;
        write(test["data"], document);
        std::string why;
        const Verdict verdict =
            read_document(masks, tokenizer, grammar, document, ++id, out.mask_us, why);
        const bool valid = test["valid"] == true;
        if (verdict == Verdict::costly) {
            out.too_costly = 1;
            note("costly", why);
        } else if (valid && verdict == Verdict::rejected) {
            out.valid_refused = 1;
            note("valid refused", why);
        } else if (!valid && verdict == Verdict::accepted) {
            out.invalid_accepted = 1;
            note("invalid accepted", document.substr(0, 200));
        }
    }
    const bool wrong = out.too_costly + out.valid_refused + out.invalid_accepted > 0;
    out.passed = wrong ? 0 : 1;
    return out;
}

std::string category(const std::string& name) {
    const std::size_t dashes = name.find("---");
    if (dashes != std::string::npos) return name.substr(0, dashes);
    return name.substr(0, name.find('_'));
}

void print_times(const char* what, std::vector<double> us) {
    if (us.empty()) return;
    std::sort(us.begin(), us.end());
    double sum = 0;
    for (const double t : us) sum += t;
    const auto at = [&us](double share) {
        return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
    };
    std::printf("%-24s %9zu times  mean %9.1f  p50 %9.1f  p99 %9.1f  worst %9.1f us\n", what,
                us.size(), sum / static_cast<double>(us.size()), at(0.5), at(0.99), us.back());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2 || !std::filesystem::is_directory(argv[1])) {
        std::printf("skipped: no folder of schemas is given, or it is not there\n");
        return 0;
    }
    const std::string model = argc > 2 ? argv[2] : HELIX_DATA_DIR "/vocab/ggml-vocab-gpt-2.gguf";
    const auto file = model::GgufFile::open(model);
    if (!file.ok()) {
        std::printf("skipped: %s\n", file.error().message.c_str());
        return 0;
    }
    auto vocabulary = text::read_vocabulary(**file);
    if (!vocabulary.ok()) return 1;
    auto tokenizer = text::Tokenizer::create(std::move(*vocabulary));
    if (!tokenizer.ok()) return 1;
    std::ofstream list;
    if (argc > 3) list.open(argv[3]);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    std::map<std::string, Counts> by_category;
    Counts all;
    GrammarMasks masks(*tokenizer);
    for (const auto& path : files) {
        const Counts one = run(path, **tokenizer, masks, list);
        by_category[category(path.filename().string())].add(one);
        all.add(one);
    }
    std::printf("%-18s %8s %8s %8s %14s %17s %8s\n", "category", "schemas", "passed", "refused",
                "valid refused", "invalid accepted", "costly");
    by_category["all"] = all;
    for (const auto& [name, counts] : by_category) {
        std::printf("%-18s %8zu %8zu %8zu %14zu %17zu %8zu\n", name.c_str(), counts.schemas,
                    counts.passed, counts.refused, counts.valid_refused, counts.invalid_accepted,
                    counts.too_costly);
    }
    print_times("first mask, compiled", all.first_us);
    print_times("a token", all.mask_us);
    return 0;
}
