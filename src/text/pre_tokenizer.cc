#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "model/hf/deepseek_letters.h"
#include "text/utf8.h"

// \s in these patterns is Unicode's White_Space; PCRE2's \s has U+180E as well, so it is spelt out.
#define WS "\\x09-\\x0d\\x85\\p{Z}"
#define WORDS \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|[" WS "]+(?![^" WS "])"
#define CONTRACTIONS "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
#define SPACES "[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"
#define LINES " ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
// Letters that a word of o200k may begin with, capitals, and those that it may end with.
#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
// The same without Han: all that is not in other categories, so that each is one class.
#define HAN "\\p{sc:Han}"
#define CAPITALS_NO_HAN "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" HAN "]"
#define SMALL_NO_HAN "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" HAN "]"
// What DeepSeek's first tokenizers call Chinese, Japanese and Korean.
#define EASTERN "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"

namespace helix::text {
namespace {

// One pre-tokenizer. Each pattern cuts the pieces that the one before left; a match is a piece, and
// so is what lies between two matches.
struct Row {
    std::array<std::string_view, 8> names;
    std::array<const char*, 6> patterns;
    bool whole_words_first;
    bool adds_bos;
};

constexpr Row kRows[] = {
    {{"default"}, {"[\\p{P}$+<=>^~|]+", WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
    {{"gpt-2", "gpt2", "jina-v1-en", "jina-v2-code", "jina-v2-de", "jina-v2-es", "roberta-bpe",
      "modern-bert"},
     {WORDS},
     false,
     false},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3"},
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" LINES},
     true,
     true},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"},
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" LINES},
     false,
     false},
    {{"qwen2", "deepseek-r1-qwen"},
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" LINES},
     false,
     false},
    {{"gpt-4o", "llama4", "minimax-m2"},
     {"[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALL "+(?:" CONTRACTIONS ")?|"
      "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALL "*(?:" CONTRACTIONS ")?|\\p{N}{1,3}|"
      " ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
     false,
     false},
    {{"qwen35"},
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS
                   "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES},
     false,
     false},
    {{"tekken"},
     {"[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALL "+|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALL
      "*|\\p{N}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
     true,
     true},
    {{"kimi-k2"},
     {HAN "+|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS_NO_HAN "*" SMALL_NO_HAN "+(?:" CONTRACTIONS ")?|"
          "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS_NO_HAN "+" SMALL_NO_HAN "*(?:" CONTRACTIONS ")?|"
          "\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" SPACES},
     false,
     false},
    // Spaces at the end begin where no space is before them: a search from each would be quadratic.
    {{"deepseek-llm"},
     {"[\\r\\n]", "[" WS "]?[" HELIX_DEEPSEEK_LETTERS "]+",
      "[" WS "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
      "\\x{3000}-\\x{3002}]+",
      "(?<![" WS "])[" WS "]++\\z", EASTERN, "\\p{N}"},
     false,
     false},
    {{"deepseek-coder"},
     {"[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+", EASTERN, "\\p{N}"},
     false,
     false},
    {{"deepseek-v3"},
     {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+",
      "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES},
     false,
     false},
    {{"starcoder", "refact", "smollm", "codeshell"}, {"\\p{N}", WORDS}, false, false},
    {{"command-r"}, {"\\p{N}", WORDS}, false, false},
};

std::string known_names() {
    std::string out;
    for (const Row& row : kRows) {
        for (const std::string_view name : row.names) {
            if (!name.empty()) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
        }
    }
    return out;
}

struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

class SplitPattern {
  public:
    explicit SplitPattern(const char* pattern) : context_(pcre2_match_context_create(nullptr)) {
        int error = 0;
        PCRE2_SIZE where = 0;
        code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                  PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
        CHECK(code_ != nullptr && context_ != nullptr);
        // Where the system forbids generated code, pcre2_match interprets, which is slower with the
        // same result.
        pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
        // Our patterns are linear or nearly so; a limit would only make long inputs fail.
        constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();
        pcre2_set_match_limit(context_.get(), kNoLimit);
        pcre2_set_depth_limit(context_.get(), kNoLimit);
        pcre2_set_heap_limit(context_.get(), kNoLimit);
    }

    // Appends the pieces of text, which must be valid UTF-8.
    void split(std::string_view text, std::vector<std::string_view>& out) const {
        const std::unique_ptr<pcre2_match_data, FreeMatchData> match(
            pcre2_match_data_create_from_pattern(code_.get(), nullptr));
        CHECK(match != nullptr);
        std::size_t done = 0;
        while (done < text.size()) {
            const int found =
                pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                            done, PCRE2_NO_UTF_CHECK, match.get(), context_.get());
            if (found == PCRE2_ERROR_NOMATCH) break;
            CHECK(found > 0);
            const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
            CHECK(range[0] >= done && range[1] > range[0]);
            if (range[0] > done) out.push_back(text.substr(done, range[0] - done));
            out.push_back(text.substr(range[0], range[1] - range[0]));
            done = range[1];
        }
        if (done < text.size()) out.push_back(text.substr(done));
    }

  private:
    std::unique_ptr<pcre2_code, FreeCode> code_;
    std::unique_ptr<pcre2_match_context, FreeMatchContext> context_;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

base::Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
    if (name.empty()) name = "default";
    for (const Row& row : kRows) {
        for (const std::string_view known : row.names) {
            if (name != known) continue;
            PreTokenizer made;
            for (const char* pattern : row.patterns) {
                if (pattern != nullptr) made.patterns_.emplace_back(pattern);
            }
            made.whole_words_first_ = row.whole_words_first;
            made.adds_bos_ = row.adds_bos;
            return made;
        }
    }
    return base::invalid(fmt::format(
        "tokenizer.ggml.pre: unknown pre-tokenizer \"{}\"; known are {}", name, known_names()));
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
    std::vector<std::string_view> words;
    const auto split_valid = [&](std::string_view part) {
        std::vector<std::string_view> pieces{part};
        for (const SplitPattern& pattern : patterns_) {
            std::vector<std::string_view> finer;
            for (const std::string_view piece : pieces) pattern.split(piece, finer);
            pieces.swap(finer);
        }
        words.insert(words.end(), pieces.begin(), pieces.end());
    };
    std::size_t valid_from = 0;
    for (std::size_t i = 0; i < text.size();) {
        const Utf8Prefix prefix = utf8_prefix(text.substr(i));
        if (prefix.kind == Utf8Prefix::Kind::character) {
            i += prefix.length;
            continue;
        }
        if (i > valid_from) split_valid(text.substr(valid_from, i - valid_from));
        words.push_back(text.substr(i, 1));
        valid_from = ++i;
    }
    if (valid_from < text.size()) split_valid(text.substr(valid_from));
    return words;
}

}  // namespace helix::text
