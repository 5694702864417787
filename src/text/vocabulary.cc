#include "text/vocabulary.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace helix::text {
namespace {

using base::Errc;
using base::Result;
using base::Status;
using model::GgufFile;
using model::MetaArray;

// The value of a key that the file may leave out: nothing for not_found, while any other error
// passes on.
template <typename T>
Result<std::optional<T>> if_present(Result<T> value) {
    if (value.ok()) return std::optional<T>(std::move(*value));
    if (value.error().code == Errc::not_found) return std::optional<T>();
    return value.error();
}

// nullptr when the key is absent; an error when it holds anything but an array of T.
template <typename T>
Result<const std::vector<T>*> find_array(const GgufFile& file, std::string_view key,
                                         const char* expected) {
    const model::MetaValue* value = file.find(key);
    if (value == nullptr) return static_cast<const std::vector<T>*>(nullptr);
    const auto* array = std::get_if<MetaArray>(value);
    const auto* typed = array == nullptr ? nullptr : std::get_if<std::vector<T>>(array);
    if (typed == nullptr) return base::invalid(fmt::format("{}: expected {}", key, expected));
    return typed;
}

Result<std::optional<Token>> read_token_id(const GgufFile& file, std::string_view key,
                                           std::size_t n_tokens) {
    TRY(const auto id, if_present(file.get_int(key)));
    if (!id) return std::optional<Token>();
    if (*id < 0 || static_cast<std::uint64_t>(*id) >= n_tokens) {
        return base::invalid(
            fmt::format("{}: token id {} is outside [0, {}), the vocabulary", key, *id, n_tokens));
    }
    return std::optional<Token>(static_cast<Token>(*id));
}

Status read_scores(const GgufFile& file, Vocabulary& vocabulary) {
    constexpr std::string_view kKey = "tokenizer.ggml.scores";
    TRY(const auto* scores, find_array<double>(file, kKey, "an array of floats"));
    if (scores == nullptr) return base::Ok{};
    vocabulary.scores.reserve(scores->size());
    for (const double score : *scores) vocabulary.scores.push_back(static_cast<float>(score));
    return base::Ok{};
}

Status read_kinds(const GgufFile& file, Vocabulary& vocabulary) {
    constexpr std::string_view kKey = "tokenizer.ggml.token_type";
    TRY(const auto* kinds, find_array<std::int64_t>(file, kKey, "an array of integers"));
    if (kinds == nullptr) return base::Ok{};
    vocabulary.kinds.reserve(kinds->size());
    for (std::size_t i = 0; i < kinds->size(); ++i) {
        const std::int64_t kind = (*kinds)[i];
        if (kind < 0 || kind > 6) {
            return base::invalid(
                fmt::format("{}: token {} has type {}, known are 0 to 6", kKey, i, kind));
        }
        vocabulary.kinds.push_back(static_cast<TokenKind>(kind));
    }
    return base::Ok{};
}

Status read_char_map(const GgufFile& file, Vocabulary& vocabulary) {
    constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
    TRY(const auto* bytes, find_array<std::int64_t>(file, kKey, "an array of bytes"));
    if (bytes == nullptr) return base::Ok{};
    for (const std::int64_t byte : *bytes) {
        if (byte < -128 || byte > 255)
            return base::invalid(fmt::format("{}: {}, expected bytes", kKey, byte));
        vocabulary.char_map.push_back(static_cast<char>(byte));
    }
    return base::Ok{};
}

Status read_special_ids(const GgufFile& file, Vocabulary& vocabulary) {
    const std::size_t n = vocabulary.tokens.size();
    TRY(vocabulary.bos, read_token_id(file, "tokenizer.ggml.bos_token_id", n));
    TRY(vocabulary.eos, read_token_id(file, "tokenizer.ggml.eos_token_id", n));
    TRY(vocabulary.eot, read_token_id(file, "tokenizer.ggml.eot_token_id", n));
    TRY(vocabulary.eom, read_token_id(file, "tokenizer.ggml.eom_token_id", n));
    TRY(vocabulary.unknown, read_token_id(file, "tokenizer.ggml.unknown_token_id", n));
    TRY(vocabulary.add_bos, if_present(file.get_bool("tokenizer.ggml.add_bos_token")));
    TRY(vocabulary.add_eos, if_present(file.get_bool("tokenizer.ggml.add_eos_token")));
    TRY(vocabulary.add_space_prefix, if_present(file.get_bool("tokenizer.ggml.add_space_prefix")));
    return base::Ok{};
}

// The id at the first of these keys that the file has.
Result<std::optional<Token>> read_either_id(const GgufFile& file, std::string_view key,
                                            std::string_view older, std::size_t n_tokens) {
    TRY(const auto id, read_token_id(file, key, n_tokens));
    if (id) return id;
    return read_token_id(file, older, n_tokens);
}

Status read_infill_ids(const GgufFile& file, Vocabulary& vocabulary) {
    const std::size_t n = vocabulary.tokens.size();
    TRY(vocabulary.infill_prefix, read_either_id(file, "tokenizer.ggml.fim_pre_token_id",
                                                 "tokenizer.ggml.prefix_token_id", n));
    TRY(vocabulary.infill_suffix, read_either_id(file, "tokenizer.ggml.fim_suf_token_id",
                                                 "tokenizer.ggml.suffix_token_id", n));
    TRY(vocabulary.infill_middle, read_either_id(file, "tokenizer.ggml.fim_mid_token_id",
                                                 "tokenizer.ggml.middle_token_id", n));
    for (const char* key : {"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                            "tokenizer.ggml.fim_sep_token_id"}) {
        TRY(const auto id, read_token_id(file, key, n));
        if (id) vocabulary.end_tokens.push_back(*id);
    }
    return base::Ok{};
}

Status read_end_tokens(const GgufFile& file, Vocabulary& vocabulary) {
    constexpr std::string_view kKey = "tokenizer.helix.end_token_ids";
    TRY(const auto* ids, find_array<std::int64_t>(file, kKey, "an array of integers"));
    if (ids == nullptr) return base::Ok{};
    for (const std::int64_t id : *ids) {
        if (id < 0 || id >= std::ssize(vocabulary.tokens)) {
            return base::invalid(fmt::format("{}: token id {} is outside [0, {}), the vocabulary",
                                             kKey, id, vocabulary.tokens.size()));
        }
        vocabulary.end_tokens.push_back(static_cast<Token>(id));
    }
    return base::Ok{};
}

// [CLS] and [SEP] are what a text begins and ends with; where BOS and EOS are other tokens, what
// the file says of adding these says nothing of [CLS] and [SEP].
Status read_word_piece_ids(const GgufFile& file, Vocabulary& vocabulary) {
    const std::size_t n = vocabulary.tokens.size();
    TRY(const auto cls, read_token_id(file, "tokenizer.ggml.cls_token_id", n));
    if (cls && cls != vocabulary.bos) {
        vocabulary.bos = cls;
        vocabulary.add_bos.reset();
    }
    // So spelt in files.
    TRY(const auto sep, read_token_id(file, "tokenizer.ggml.seperator_token_id", n));
    if (sep && sep != vocabulary.eos) {
        vocabulary.eos = sep;
        vocabulary.add_eos.reset();
    }
    return base::Ok{};
}

Status read_word_rules(const GgufFile& file, WordRules& rules) {
    const auto read = [&file](const char* key, bool& value) -> Status {
        TRY(const auto found, if_present(file.get_bool(key)));
        if (found) value = *found;
        return base::Ok{};
    };
    TRY_VOID(read("tokenizer.helix.clean_text", rules.clean));
    TRY_VOID(read("tokenizer.helix.handle_chinese_chars", rules.chinese_apart));
    TRY_VOID(read("tokenizer.helix.cleanup", rules.joins_punctuation));
    TRY_VOID(read("tokenizer.ggml.normalizer.lowercase", rules.lowercase));
    rules.strip_accents = rules.lowercase;
    TRY_VOID(read("tokenizer.ggml.normalizer.strip_accents", rules.strip_accents));
    constexpr const char* kLongest = "tokenizer.helix.max_input_chars_per_word";
    TRY(const auto longest, if_present(file.get_int(kLongest)));
    if (longest && *longest < 1)
        return base::invalid(fmt::format("{}: {}, expected at least 1", kLongest, *longest));
    if (longest) rules.max_characters = static_cast<std::size_t>(*longest);
    return base::Ok{};
}

Status check_id(const char* key, std::optional<Token> id, std::size_t n_tokens) {
    if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < n_tokens)) return base::Ok{};
    return base::invalid(
        fmt::format("tokenizer.ggml.{}: token id {} is outside [0, {})", key, *id, n_tokens));
}

Status check_size(const char* key, std::size_t n, std::size_t n_tokens) {
    if (n == 0 || n == n_tokens) return base::Ok{};
    return base::invalid(fmt::format(
        "tokenizer.ggml.{}: {} entries, but tokenizer.ggml.tokens has {}", key, n, n_tokens));
}

Status read_tokens(const GgufFile& file, Vocabulary& vocabulary) {
    TRY(const auto* tokens,
        find_array<std::string>(file, "tokenizer.ggml.tokens", "an array of strings"));
    if (tokens == nullptr) {
        return base::Error{Errc::not_found,
                           "tokenizer.ggml.tokens: missing, the file has no vocabulary"};
    }
    vocabulary.tokens = *tokens;
    TRY_VOID(read_scores(file, vocabulary));
    return read_kinds(file, vocabulary);
}

// Where the file has no such text, it stays as it is.
Status read_text(const GgufFile& file, const char* key, std::string& text) {
    TRY(auto found, if_present(file.get_string(key)));
    if (found) text = std::move(*found);
    return base::Ok{};
}

}  // namespace

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
    Vocabulary vocabulary;
    TRY(vocabulary.model, file.get_string("tokenizer.ggml.model"));
    TRY_VOID(read_text(file, "tokenizer.ggml.pre", vocabulary.pre));
    TRY(vocabulary.ignore_merges, if_present(file.get_bool("tokenizer.ggml.ignore_merges")));
    TRY_VOID(read_tokens(file, vocabulary));
    TRY_VOID(read_char_map(file, vocabulary));
    TRY(vocabulary.remove_extra_spaces,
        if_present(file.get_bool("tokenizer.ggml.remove_extra_whitespaces")));
    TRY(const auto* merges,
        find_array<std::string>(file, "tokenizer.ggml.merges", "an array of strings"));
    if (merges != nullptr) vocabulary.merges = *merges;
    TRY_VOID(read_special_ids(file, vocabulary));
    if (vocabulary.model == kWordPieceTokenizer) {
        TRY_VOID(read_word_piece_ids(file, vocabulary));
        TRY_VOID(read_word_rules(file, vocabulary.words));
    }
    TRY(const auto composes, if_present(file.get_bool("tokenizer.ggml.normalizer.nfc")));
    vocabulary.composes = composes.value_or(false);
    TRY_VOID(read_infill_ids(file, vocabulary));
    TRY_VOID(read_end_tokens(file, vocabulary));
    TRY_VOID(read_text(file, "tokenizer.chat_template", vocabulary.chat_template));
    TRY_VOID(read_text(file, "tokenizer.chat_template.rerank", vocabulary.rerank_template));
    TRY_VOID(validate(vocabulary));
    return vocabulary;
}

Status validate(const Vocabulary& vocabulary) {
    const std::size_t n = vocabulary.tokens.size();
    if (n == 0) return base::invalid("tokenizer.ggml.tokens: empty, expected at least one token");
    if (n > static_cast<std::size_t>(std::numeric_limits<Token>::max())) {
        return base::invalid(fmt::format("tokenizer.ggml.tokens: {} tokens are too many", n));
    }
    TRY_VOID(check_size("scores", vocabulary.scores.size(), n));
    TRY_VOID(check_size("token_type", vocabulary.kinds.size(), n));
    TRY_VOID(check_id("bos_token_id", vocabulary.bos, n));
    TRY_VOID(check_id("eos_token_id", vocabulary.eos, n));
    TRY_VOID(check_id("eot_token_id", vocabulary.eot, n));
    TRY_VOID(check_id("eom_token_id", vocabulary.eom, n));
    TRY_VOID(check_id("unknown_token_id", vocabulary.unknown, n));
    TRY_VOID(check_id("fim_pre_token_id", vocabulary.infill_prefix, n));
    TRY_VOID(check_id("fim_suf_token_id", vocabulary.infill_suffix, n));
    TRY_VOID(check_id("fim_mid_token_id", vocabulary.infill_middle, n));
    for (const Token token : vocabulary.end_tokens) TRY_VOID(check_id("end_token_ids", token, n));
    return base::Ok{};
}

TokenIds token_ids(const Vocabulary& vocabulary) {
    TokenIds ids;
    ids.reserve(vocabulary.tokens.size());
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        const auto id = static_cast<Token>(i);
        const auto [known, is_new] = ids.emplace(vocabulary.tokens[i], id);
        const auto is_text = [&](Token token) {
            return encodes_text(vocabulary.kinds[static_cast<std::size_t>(token)]);
        };
        if (!is_new && (is_text(id) || !is_text(known->second))) known->second = id;
    }
    return ids;
}

}  // namespace helix::text
