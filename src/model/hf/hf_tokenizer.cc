#include "model/hf/hf_tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "base/base64.h"
#include "model/hf/deepseek_letters.h"
#include "model/hf/hf_word_pieces.h"
#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::model {
namespace {

using spec::JsonPlace;

// GGUF's numbers (tokenizer.ggml.token_type).
enum TokenType : std::int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
};

constexpr std::int64_t kMaxTokens = 1 << 24;
// The score of a token that no merge makes, below that of every merge.
constexpr float kNoMerge = -1e9F;

constexpr std::string_view kDigits = "Digits";  // each digit is a piece
constexpr std::string_view kGptWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kEastern = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";

// The steps by which published tokenizer.json files split text, patterns and kDigits, and our names
// for them: where words only merge, and where a word that is a token is taken as it is. nullptr:
// the other one is taken, and ignore_merges says how it is. Line ends in patterns are written as \r
// and \n.
struct Splits {
    const char* merged;
    const char* whole;
    std::array<std::string_view, 6> steps;
};
constexpr Splits kSplits[] = {
    {"gpt-2", nullptr, {kGptWords}},
    {"starcoder", nullptr, {kDigits, kGptWords}},
    {"dbrx",
     "llama-bpe",
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {"qwen2",
     nullptr,
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {"qwen35",
     nullptr,
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {"gpt-4o",
     nullptr,
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {nullptr,
     "tekken",
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {"kimi-k2",
     nullptr,
     {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {"deepseek-llm",
     nullptr,
     {R"([\r\n])", R"(\s?[)" HELIX_DEEPSEEK_LETTERS "]+",
      R"(\s?[!-/:-~)"
      "\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
      R"(\s+$)", kEastern, kDigits}},
    {"deepseek-coder", nullptr, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kEastern, kDigits}},
    {"deepseek-v3",
     nullptr,
     {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
};

bool same_steps(const Splits& known, const std::vector<std::string>& steps) {
    for (std::size_t i = 0; i < known.steps.size(); ++i) {
        if (known.steps[i] != (i < steps.size() ? std::string_view(steps[i]) : "")) return false;
    }
    return steps.size() <= known.steps.size();
}

std::string known_splits() {
    std::string names;
    for (const Splits& known : kSplits) {
        for (const char* name : {known.merged, known.whole}) {
            if (name != nullptr) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
        }
    }
    return names;
}

// Patterns have line ends as they are or as \r and \n.
std::string with_written_line_ends(std::string_view pattern) {
    std::string written;
    for (const char c : pattern) {
        if (c == '\r' || c == '\n') {
            written += c == '\r' ? "\\r" : "\\n";
        } else {
            written += c;
        }
    }
    return written;
}

base::Result<nlohmann::json> read_json(const std::string& path) {
    TRY(const std::string text, spec::read_text_file(path));
    return spec::parse_json(text, path);
}

// An empty object when there is no such file.
base::Result<nlohmann::json> read_json_if_there(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return nlohmann::json::object();
    TRY(nlohmann::json document, read_json(path));
    TRY_VOID(JsonPlace(document, path).expect_object());
    return document;
}

std::string type_of(const nlohmann::json& value) {
    if (!value.is_object()) return {};
    const auto type = value.find("type");
    return type != value.end() && type->is_string() ? type->get<std::string>() : std::string();
}

bool is_true(const nlohmann::json& value, const char* key, bool otherwise) {
    const auto found = value.find(key);
    return found != value.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// The members of a Sequence under this key, else the value itself alone.
std::vector<JsonPlace> parts_of(const JsonPlace& place, const char* key) {
    std::vector<JsonPlace> parts;
    if (!place.value().is_object()) return parts;
    if (type_of(place.value()) != "Sequence" || !place.has(key) || !place.value()[key].is_array()) {
        parts.push_back(place);
        return parts;
    }
    const JsonPlace list = place.child(key);
    for (std::size_t i = 0; i < list.value().size(); ++i) parts.push_back(list.element(i));
    return parts;
}

class TokenizerReader {
  public:
    // keeps_merges: of models whose pieces merge by the list of merges alone.
    TokenizerReader(const JsonPlace& root, bool keeps_merges, GgufBuilder& metadata)
        : root_(root), keeps_merges_(keeps_merges), metadata_(metadata) {}

    base::Status read() {
        TRY(const JsonPlace model, root_.member("model"));
        const std::string type = type_of(model.value());
        if (type == "Unigram") return read_unigrams(model);
        if (type == "WordPiece") return read_word_pieces(model);
        if (type != "BPE") {
            return model.complaint(
                fmt::format("type \"{}\", expected \"BPE\", \"Unigram\" or \"WordPiece\"", type));
        }
        byte_fallback_ = is_true(model.value(), "byte_fallback", false);
        TRY_VOID(read_vocabulary(model));
        TRY_VOID(read_added_tokens());
        TRY_VOID(read_merges(model));
        TRY_VOID(name_holes());
        TRY_VOID(read_normalizer());
        if (byte_fallback_) return finish_sentencepiece(model);
        return finish_byte_level(model);
    }

    std::optional<std::int64_t> id_of(const std::string& text) const {
        const auto found = ids_.find(text);
        if (found == ids_.end()) return std::nullopt;
        return found->second;
    }
    std::size_t size() const { return n_tokens_; }
    bool begins_with_special() const { return template_has_special(true); }
    bool ends_with_special() const { return template_has_special(false); }
    // Of a tokenizer of word pieces.
    const std::optional<HfWordPieces>& word_pieces() const { return word_pieces_; }

  private:
    base::Status place_token(const JsonPlace& where, const std::string& text, std::int64_t id) {
        if (id < 0 || id >= kMaxTokens) {
            return where.complaint(
                fmt::format("token id {}, expected 0 to {}", id, kMaxTokens - 1));
        }
        const auto at = static_cast<std::size_t>(id);
        if (at >= tokens_.size()) {
            tokens_.resize(at + 1);
            types_.resize(at + 1, kUnused);
        }
        if (types_[at] != kUnused && tokens_[at] != text) {
            return where.complaint(
                fmt::format("token id {} is both \"{}\" and \"{}\"", id, tokens_[at], text));
        }
        const auto [known, is_new] = ids_.emplace(text, id);
        if (!is_new && known->second != id) {
            return where.complaint(
                fmt::format("token \"{}\" has ids {} and {}", text, known->second, id));
        }
        tokens_[at] = text;
        types_[at] = kNormal;
        return base::Ok{};
    }

    base::Status read_vocabulary(const JsonPlace& model) {
        TRY(const JsonPlace vocab, model.member("vocab"));
        TRY_VOID(vocab.expect_object());
        for (const auto& [text, id] : vocab.value().items()) {
            if (!id.is_number_integer()) return vocab.child(text).error("a token id");
            TRY_VOID(place_token(vocab, text, id.get<std::int64_t>()));
        }
        if (tokens_.empty()) return vocab.error("at least one token");
        for (std::size_t i = 0; i < tokens_.size() && byte_fallback_; ++i) {
            const std::string& text = tokens_[i];
            if (text.size() == 6 && text.starts_with("<0x") && text.ends_with(">")) {
                types_[i] = kByte;
            }
        }
        const auto unknown = model.value().find("unk_token");
        if (unknown != model.value().end() && unknown->is_string()) {
            unknown_ = id_of(unknown->get<std::string>());
        }
        return base::Ok{};
    }

    base::Status read_added_tokens() {
        if (!root_.has("added_tokens")) return base::Ok{};
        const JsonPlace added = root_.child("added_tokens");
        TRY(const std::size_t n, added.array_size());
        for (std::size_t i = 0; i < n; ++i) {
            const JsonPlace entry = added.element(i);
            TRY(const JsonPlace id_place, entry.member("id"));
            TRY(const std::int64_t id, id_place.integer());
            TRY(const JsonPlace content, entry.member("content"));
            TRY(const std::string text, content.text());
            TRY_VOID(place_token(entry, text, id));
            types_[static_cast<std::size_t>(id)] =
                is_true(entry.value(), "special", false) ? kControl : kUserDefined;
        }
        if (unknown_ && byte_fallback_) types_[static_cast<std::size_t>(*unknown_)] = kUnknown;
        return base::Ok{};
    }

    base::Status read_unigrams(const JsonPlace& model) {
        if (is_true(model.value(), "byte_fallback", false))
            return model.complaint("byte_fallback: true, expected false with \"Unigram\"");
        TRY(const JsonPlace vocab, model.member("vocab"));
        TRY(const std::size_t n, vocab.array_size());
        if (n == 0) return vocab.error("at least one token");
        std::vector<float> scores;
        for (std::size_t i = 0; i < n; ++i) {
            const JsonPlace entry = vocab.element(i);
            TRY(const std::size_t parts, entry.array_size());
            if (parts != 2) return entry.error("a token and its score");
            TRY(const std::string text, entry.element(0).text());
            TRY(const double score, entry.element(1).number());
            TRY_VOID(place_token(entry, text, static_cast<std::int64_t>(i)));
            scores.push_back(static_cast<float>(score));
        }
        TRY(const JsonPlace unknown, model.member("unk_id"));
        TRY(const std::int64_t unknown_id, unknown.integer());
        if (unknown_id < 0 || unknown_id >= static_cast<std::int64_t>(n))
            return unknown.error(fmt::format("0 to {}", n - 1));
        unknown_ = unknown_id;
        TRY_VOID(read_added_tokens());
        types_[static_cast<std::size_t>(unknown_id)] = kUnknown;
        TRY_VOID(name_holes());
        scores.resize(n_tokens_, 0);
        set_id("unknown", unknown_id);
        metadata_.set("tokenizer.ggml.model", std::string("t5"));
        metadata_.set("tokenizer.ggml.scores", std::move(scores));
        metadata_.set("tokenizer.ggml.add_space_prefix", adds_space());
        TRY(const bool merges_spaces, read_spacing());
        metadata_.set("tokenizer.ggml.remove_extra_whitespaces", merges_spaces);
        return set_tokens();
    }

    base::Status read_word_pieces(const JsonPlace& model) {
        TRY(word_pieces_, read_hf_word_pieces(root_));
        TRY_VOID(read_vocabulary(model));
        TRY_VOID(read_added_tokens());
        unknown_ = id_of(word_pieces_->unknown);
        if (!unknown_) {
            return model.complaint(
                fmt::format("unk_token \"{}\" is not a token", word_pieces_->unknown));
        }
        types_[static_cast<std::size_t>(*unknown_)] = kUnknown;
        for (const std::string& text : {word_pieces_->before, word_pieces_->after}) {
            if (text.empty()) continue;
            const auto id = id_of(text);
            if (!id) {
                return root_.complaint(
                    fmt::format("post_processor puts \"{}\", which is not a token", text));
            }
            types_[static_cast<std::size_t>(*id)] = kControl;
        }
        TRY_VOID(name_holes());
        for (std::size_t i = 0; i < n_tokens_; ++i) {
            if (types_[i] != kNormal) continue;
            auto written = gguf_word_piece(tokens_[i], *word_pieces_);
            if (!written.ok()) return model.complaint(written.error().message);
            tokens_[i] = std::move(*written);
        }
        set_id("unknown", *unknown_);
        metadata_.set("tokenizer.ggml.model", std::string("bert"));
        set_word_rules(*word_pieces_, metadata_);
        return set_tokens();
    }

    // Reads what becomes of characters, and whether several spaces count as one.
    base::Result<bool> read_spacing() {
        bool merges = false;
        if (root_.has("normalizer")) {
            for (const JsonPlace& part : parts_of(root_.child("normalizer"), "normalizers")) {
                const std::string type = type_of(part.value());
                if (type == "Precompiled") {
                    TRY_VOID(read_char_map(part));
                } else if (type == "Replace" && is_spaces_to_one(part.value())) {
                    merges = true;
                } else {
                    return part.complaint(fmt::format(
                        "\"{}\" is not known; known are Precompiled and Replace of several spaces "
                        "by one",
                        type));
                }
            }
        }
        TRY(const JsonPlace place, root_.member("pre_tokenizer"));
        bool marks = false;
        for (const JsonPlace& part : parts_of(place, "pretokenizers")) {
            const std::string type = type_of(part.value());
            TRY(const std::string mark, part.text_or("replacement", "▁"));
            if (type == "WhitespaceSplit") {
                merges = true;
            } else if (type == "Metaspace" && mark == "▁") {
                marks = true;
            } else {
                return part.complaint(fmt::format(
                    "\"{}\" is not known; known are WhitespaceSplit and Metaspace by \"▁\"", type));
            }
        }
        if (!marks) return place.error("Metaspace");
        return merges;
    }

    base::Status read_char_map(const JsonPlace& part) {
        TRY(const JsonPlace place, part.member("precompiled_charsmap"));
        TRY(const std::string text, place.text());
        const auto bytes = base::from_base64(text);
        if (!bytes) return place.error("base64");
        std::vector<std::uint8_t> map;
        for (const char byte : *bytes) map.push_back(static_cast<std::uint8_t>(byte));
        metadata_.set("tokenizer.ggml.precompiled_charsmap", std::move(map));
        return base::Ok{};
    }

    static bool is_spaces_to_one(const nlohmann::json& part) {
        const auto pattern = part.find("pattern");
        return pattern != part.end() && pattern->is_object() &&
               pattern->value("Regex", nlohmann::json()) == " {2,}" &&
               (part.value("content", nlohmann::json()) == " " ||
                part.value("content", nlohmann::json()) == "▁");
    }

    // Reads merges like "a b" or ["a", "b"], best first.
    base::Status read_merges(const JsonPlace& model) {
        TRY(const JsonPlace merges, model.member("merges"));
        TRY(const std::size_t n, merges.array_size());
        for (std::size_t i = 0; i < n; ++i) {
            const nlohmann::json& merge = merges.value()[i];
            const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                              merge[1].is_string();
            if (!pair && !merge.is_string()) {
                return merges.element(i).error("two tokens, as one string or as two");
            }
            merges_.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                                   : merge.get<std::string>());
        }
        return base::Ok{};
    }

    // Ids without a token get names, so that no two tokens have the same text.
    base::Status name_holes() {
        n_tokens_ = tokens_.size();
        for (std::size_t i = 0; i < n_tokens_; ++i) {
            if (types_[i] == kUnused) tokens_[i] = fmt::format("[PAD{}]", i);
        }
        return base::Ok{};
    }

    // Of BPE. Spaces that become marks are read with the rest of a SentencePiece vocabulary.
    base::Status read_normalizer() {
        if (!root_.has("normalizer")) return base::Ok{};
        for (const JsonPlace& part : parts_of(root_.child("normalizer"), "normalizers")) {
            const std::string type = type_of(part.value());
            if (type == "NFC") {
                metadata_.set("tokenizer.ggml.normalizer.nfc", true);
            } else if (type != "Prepend" && type != "Replace") {
                return part.complaint(
                    fmt::format("\"{}\" is not known; known are NFC, Prepend and Replace", type));
            }
        }
        return base::Ok{};
    }

    base::Status finish_sentencepiece(const JsonPlace& model) {
        if (is_true(model.value(), "ignore_merges", false)) {
            return model.complaint(
                "ignore_merges: true together with byte_fallback: expected false");
        }
        if (unknown_) set_id("unknown", *unknown_);
        if (keeps_merges_) {
            metadata_.set("tokenizer.ggml.model", std::string("gemma4"));
            metadata_.set("tokenizer.ggml.merges", std::move(merges_));
            return set_tokens();
        }
        std::vector<float> scores(tokens_.size(), kNoMerge);
        for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
            std::string joined = merges_[rank];
            const std::size_t space = joined.find(' ', 1);
            if (space == std::string::npos || space + 1 == joined.size()) {
                return model.complaint(fmt::format(
                    "merges[{}]: \"{}\", expected two tokens with a space between", rank, joined));
            }
            joined.erase(space, 1);
            const auto id = id_of(joined);
            if (!id) {
                return model.complaint(
                    fmt::format("merges[{}]: makes \"{}\", which is not a token", rank, joined));
            }
            float& score = scores[static_cast<std::size_t>(*id)];
            if (score == kNoMerge) score = -static_cast<float>(rank);
        }
        metadata_.set("tokenizer.ggml.model", std::string("llama"));
        metadata_.set("tokenizer.ggml.scores", std::move(scores));
        metadata_.set("tokenizer.ggml.add_space_prefix", adds_space());
        return set_tokens();
    }

    base::Status finish_byte_level(const JsonPlace& model) {
        const bool whole = is_true(model.value(), "ignore_merges", false);
        TRY(const std::string pre, pre_tokenizer(whole));
        metadata_.set("tokenizer.ggml.model", std::string("gpt2"));
        metadata_.set("tokenizer.ggml.pre", pre);
        metadata_.set("tokenizer.ggml.ignore_merges", whole);
        metadata_.set("tokenizer.ggml.merges", std::move(merges_));
        return set_tokens();
    }

    base::Status set_tokens() {
        metadata_.set("tokenizer.ggml.tokens", std::move(tokens_));
        metadata_.set("tokenizer.ggml.token_type", std::move(types_));
        return base::Ok{};
    }

    void set_id(const char* what, std::int64_t id) {
        metadata_.set(fmt::format("tokenizer.ggml.{}_token_id", what),
                      static_cast<std::uint32_t>(id));
    }

    // Whether a "▁" is put before the text, by the normalizer or by the Metaspace pre-tokenizer.
    bool adds_space() const {
        if (root_.has("normalizer")) {
            for (const JsonPlace& part : parts_of(root_.child("normalizer"), "normalizers")) {
                if (type_of(part.value()) == "Prepend") return true;
            }
        }
        if (!root_.has("pre_tokenizer")) return false;
        for (const JsonPlace& part : parts_of(root_.child("pre_tokenizer"), "pretokenizers")) {
            if (type_of(part.value()) != "Metaspace") continue;
            const auto scheme = part.value().find("prepend_scheme");
            if (scheme != part.value().end()) return *scheme != "never";
            return is_true(part.value(), "add_prefix_space", true);
        }
        return false;
    }

    // whole: a word that is a token is taken as it is.
    base::Result<std::string> pre_tokenizer(bool whole) const {
        TRY(const JsonPlace place, root_.member("pre_tokenizer"));
        bool byte_level = false;
        bool kept = false;  // only what a pattern matches
        std::vector<std::string> steps;
        for (const JsonPlace& part : parts_of(place, "pretokenizers")) {
            const std::string type = type_of(part.value());
            if (byte_level) return part.complaint("is behind ByteLevel, expected that to be last");
            if (type == "ByteLevel") {
                byte_level = true;
                if (is_true(part.value(), "use_regex", true)) steps.emplace_back(kGptWords);
                if (is_true(part.value(), "add_prefix_space", false)) {
                    return part.complaint("add_prefix_space: true, expected false");
                }
            } else if (type == "Digits" && is_true(part.value(), "individual_digits", false)) {
                steps.emplace_back(kDigits);
            } else if (type == "Split") {
                TRY(std::string step, split_step(part));
                steps.push_back(std::move(step));
                kept = kept || is_true(part.value(), "invert", false);
            } else {
                return part.complaint(fmt::format(
                    "\"{}\" is not known; known are ByteLevel, Digits and Split", type));
            }
        }
        if (!byte_level) return place.error("ByteLevel, or a model with byte_fallback");
        // The known patterns that split alone match all of a text, those of several steps do not.
        if (kept && steps.size() > 1) {
            return place.complaint("invert: true, expected false with several splits");
        }
        for (const Splits& known : kSplits) {
            if (!same_steps(known, steps)) continue;
            const char* name = whole ? known.whole : known.merged;
            return std::string(name != nullptr ? name : whole ? known.merged : known.whole);
        }
        std::string found;
        for (const std::string& step : steps) found += fmt::format(" \"{}\"", step);
        return place.complaint(
            fmt::format("splits by{}; known are those of {}", found, known_splits()));
    }

    static base::Result<std::string> split_step(const JsonPlace& part) {
        TRY(const JsonPlace pattern, part.member("pattern"));
        TRY(const JsonPlace regex, pattern.member("Regex"));
        TRY(const std::string text, regex.text());
        if (text.empty()) return regex.error("a pattern that is not empty");
        TRY(const std::string behavior, part.text_or("behavior", "Isolated"));
        const bool kept = is_true(part.value(), "invert", false);
        if (behavior != (kept ? "Removed" : "Isolated")) {
            return part.complaint(fmt::format("behavior \"{}\" with invert {}, expected \"{}\"",
                                              behavior, kept, kept ? "Removed" : "Isolated"));
        }
        return with_written_line_ends(text);
    }

    // Whether a special token is put at the beginning of a text, or at its end.
    bool template_has_special(bool begin) const {
        if (!root_.has("post_processor")) return false;
        for (const JsonPlace& part : parts_of(root_.child("post_processor"), "processors")) {
            const std::string type = type_of(part.value());
            // Of BERT and RoBERTa: [CLS] and [SEP], or what stands for them.
            if (type == "BertProcessing" || type == "RobertaProcessing") return true;
            if (type != "TemplateProcessing" || !part.has("single")) continue;
            const nlohmann::json& single = part.value()["single"];
            if (!single.is_array() || single.empty()) continue;
            const nlohmann::json& piece = begin ? single.front() : single.back();
            return piece.is_object() && piece.contains("SpecialToken");
        }
        return false;
    }

    JsonPlace root_;
    bool keeps_merges_;
    GgufBuilder& metadata_;
    bool byte_fallback_ = false;
    std::vector<std::string> tokens_;
    std::vector<std::int32_t> types_;
    std::vector<std::string> merges_;
    std::unordered_map<std::string, std::int64_t> ids_;
    std::optional<std::int64_t> unknown_;
    std::optional<HfWordPieces> word_pieces_;
    std::size_t n_tokens_ = 0;
};

// A special token of tokenizer_config.json, "<s>" or {"content": "<s>"}.
std::optional<std::int64_t> special_token(const nlohmann::json& config, const char* key,
                                          const TokenizerReader& tokens) {
    const auto found = config.find(key);
    if (found == config.end()) return std::nullopt;
    if (found->is_string()) return tokens.id_of(found->get<std::string>());
    if (!found->is_object() || !found->contains("content")) return std::nullopt;
    const nlohmann::json& content = (*found)["content"];
    return content.is_string() ? tokens.id_of(content.get<std::string>()) : std::nullopt;
}

base::Status check_id(const std::string& file, const char* key, std::int64_t id,
                      std::size_t n_tokens) {
    if (id >= 0 && id < static_cast<std::int64_t>(n_tokens)) return base::Ok{};
    return base::invalid(
        fmt::format("{}: {}: {}, expected a token id below {}", file, key, id, n_tokens));
}

// What begins and ends a text, and names of tokenizer_config.json where nothing does. A model of
// word pieces writes no answers, so nothing ends them.
void set_word_piece_ids(const nlohmann::json& settings, const TokenizerReader& tokens,
                        GgufBuilder& metadata) {
    const HfWordPieces& pieces = *tokens.word_pieces();
    const auto set = [&metadata](std::initializer_list<const char*> names,
                                 std::optional<std::int64_t> id) {
        if (!id) return;
        for (const char* name : names) {
            metadata.set(fmt::format("tokenizer.ggml.{}_token_id", name),
                         static_cast<std::uint32_t>(*id));
        }
    };
    const auto either = [&](const std::string& text, const char* key) {
        return text.empty() ? special_token(settings, key, tokens) : tokens.id_of(text);
    };
    set({"bos", "cls"}, either(pieces.before, "cls_token"));
    set({"eos", "seperator"}, either(pieces.after, "sep_token"));
    set({"padding"}, special_token(settings, "pad_token", tokens));
    set({"mask"}, special_token(settings, "mask_token", tokens));
    metadata.set("tokenizer.ggml.add_bos_token", !pieces.before.empty());
    metadata.set("tokenizer.ggml.add_eos_token", !pieces.after.empty());
}

base::Status set_special_ids(const std::string& folder, const HfConfig& config,
                             const nlohmann::json& settings, const TokenizerReader& tokens,
                             GgufBuilder& metadata) {
    const std::string generation_file = folder + "/generation_config.json";
    TRY(const nlohmann::json generation, read_json_if_there(generation_file));
    TRY(std::vector<std::int64_t> ends, read_eos_ids(JsonPlace(generation, generation_file)));
    const std::string ends_file = ends.empty() ? folder + "/config.json" : generation_file;
    if (ends.empty()) ends = config.end_tokens;
    for (const std::int64_t id : ends) {
        TRY_VOID(check_id(ends_file, "eos_token_id", id, tokens.size()));
    }
    auto eos = special_token(settings, "eos_token", tokens);
    if (!eos && !ends.empty()) eos = ends.front();
    auto bos = special_token(settings, "bos_token", tokens);
    const bool asks = settings.contains("add_bos_token") && settings["add_bos_token"].is_boolean();
    if (!bos && config.bos_token >= 0 && (asks || tokens.begins_with_special())) {
        TRY_VOID(
            check_id(folder + "/config.json", "bos_token_id", config.bos_token, tokens.size()));
        bos = config.bos_token;
    }
    const bool add_bos = is_true(settings, "add_bos_token", tokens.begins_with_special());
    const bool add_eos = is_true(settings, "add_eos_token", tokens.ends_with_special());
    if (bos) metadata.set("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*bos));
    if (eos) metadata.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(*eos));
    metadata.set("tokenizer.ggml.add_bos_token", add_bos && bos.has_value());
    metadata.set("tokenizer.ggml.add_eos_token", add_eos && eos.has_value());
    if (!ends.empty()) {
        std::vector<std::int32_t> ids;
        for (const std::int64_t id : ends) ids.push_back(static_cast<std::int32_t>(id));
        metadata.set("tokenizer.helix.end_token_ids", std::move(ids));
    }
    return base::Ok{};
}

// Reads chat_template.jinja, else the chat_template of tokenizer_config.json. That is one, or
// several by name, of which we take "default".
base::Result<std::string> read_chat_template(const std::string& folder,
                                             const nlohmann::json& settings) {
    const std::string file = folder + "/chat_template.jinja";
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return spec::read_text_file(file);
    const auto found = settings.find("chat_template");
    if (found == settings.end() || found->is_null()) return std::string();
    if (found->is_string()) return found->get<std::string>();
    if (found->is_array()) {
        for (const nlohmann::json& entry : *found) {
            if (!entry.is_object() || entry.value("name", nlohmann::json()) != "default") continue;
            const auto text = entry.find("template");
            if (text != entry.end() && text->is_string()) return text->get<std::string>();
        }
    }
    return base::invalid(folder +
                         "/tokenizer_config.json: chat_template: expected a string, or an array "
                         "with one named \"default\"");
}

}  // namespace

base::Status read_hf_tokenizer(const std::string& folder, const HfConfig& config,
                               GgufBuilder& metadata) {
    const std::string file = folder + "/tokenizer.json";
    TRY(const nlohmann::json document, read_json(file));
    const JsonPlace root(document, file);
    TRY_VOID(root.expect_object());
    TokenizerReader tokens(root, config.architecture == "gemma4", metadata);
    TRY_VOID(tokens.read());
    if (tokens.size() > static_cast<std::size_t>(config.vocab)) {
        return root.complaint(
            fmt::format("{} tokens, vocab_size of config.json is {}", tokens.size(), config.vocab));
    }
    TRY(const nlohmann::json settings, read_json_if_there(folder + "/tokenizer_config.json"));
    if (tokens.word_pieces()) {
        set_word_piece_ids(settings, tokens, metadata);
    } else {
        TRY_VOID(set_special_ids(folder, config, settings, tokens, metadata));
    }
    TRY(std::string chat_template, read_chat_template(folder, settings));
    if (!chat_template.empty()) metadata.set("tokenizer.chat_template", std::move(chat_template));
    return base::Ok{};
}

}  // namespace helix::model
