#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "text/byte_bpe_encoder.h"
#include "text/normal_forms.h"
#include "text/spaces.h"
#include "text/spm_encoder.h"
#include "text/unigram_encoder.h"
#include "text/word_piece_encoder.h"

namespace helix::text {
namespace {

// Tokens by which published models end a turn. Files often mark them as ordinary text or give only
// one of them as eos; they are control tokens wherever they occur.
constexpr std::array<std::string_view, 12> kEndNames = {
    "<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",    "<turn|>", "<|end_of_text|>",
    "<|endoftext|>", "<|eom_id|>", "<EOT>",   "<|tool_response>", "<|eot|>", "<|eom|>"};
// More such names, which count only where the file itself says that they are control tokens.
constexpr std::array<std::string_view, 4> kEndNamesIfControl = {"</s>", "<|fim_pad|>",
                                                                "<|repo_name|>", "<|file_sep|>"};

template <std::size_t n>
bool among(const std::array<std::string_view, n>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool looks_like_byte(std::string_view text) {
    return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

void fill_in_kinds(Vocabulary& vocabulary) {
    if (!vocabulary.kinds.empty()) return;
    for (const std::string& token : vocabulary.tokens) {
        const bool has_bytes =
            vocabulary.model != "gpt2" && vocabulary.model != kWordPieceTokenizer;
        const bool byte = has_bytes && looks_like_byte(token);
        vocabulary.kinds.push_back(byte ? TokenKind::byte : TokenKind::normal);
    }
}

// LLaMA's convention for files that leave it out: 0 unknown, 1 BOS, 2 EOS; BOS and the space are
// added.
void fill_in_llama(Vocabulary& vocabulary) {
    const auto n = static_cast<Token>(vocabulary.tokens.size());
    if (!vocabulary.unknown) vocabulary.unknown = 0;
    if (!vocabulary.bos && n > 1) vocabulary.bos = 1;
    if (!vocabulary.eos && n > 2) vocabulary.eos = 2;
    if (!vocabulary.add_bos) vocabulary.add_bos = true;
    if (!vocabulary.add_space_prefix) vocabulary.add_space_prefix = true;
}

// T5's convention for files that leave it out: 1 EOS, 2 unknown; EOS and a space are added.
void fill_in_t5(Vocabulary& vocabulary) {
    const auto n = static_cast<Token>(vocabulary.tokens.size());
    if (!vocabulary.eos && n > 1) vocabulary.eos = 1;
    if (!vocabulary.unknown && n > 2) vocabulary.unknown = 2;
    if (!vocabulary.add_bos) vocabulary.add_bos = false;
    if (!vocabulary.add_eos) vocabulary.add_eos = true;
    if (!vocabulary.add_space_prefix) vocabulary.add_space_prefix = true;
    if (!vocabulary.remove_extra_spaces) vocabulary.remove_extra_spaces = true;
}

// BERT's convention for files that leave it out: the tokens of these names; [CLS] and [SEP] are
// added. All three are special whatever the file calls them.
base::Status fill_in_bert(Vocabulary& vocabulary) {
    const auto fill_in = [&](std::optional<Token>& id, const char* key, std::string_view name,
                             bool is_needed) -> base::Status {
        if (id || !is_needed) return base::Ok{};
        const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), name);
        if (found == vocabulary.tokens.end()) {
            return base::invalid(fmt::format(
                "tokenizer.ggml.{}: missing, and no token is called \"{}\"", key, name));
        }
        id = static_cast<Token>(found - vocabulary.tokens.begin());
        return base::Ok{};
    };
    if (!vocabulary.add_bos) vocabulary.add_bos = true;
    if (!vocabulary.add_eos) vocabulary.add_eos = true;
    vocabulary.add_space_prefix = true;
    TRY_VOID(fill_in(vocabulary.bos, "cls_token_id", "[CLS]", *vocabulary.add_bos));
    TRY_VOID(fill_in(vocabulary.eos, "seperator_token_id", "[SEP]", *vocabulary.add_eos));
    TRY_VOID(fill_in(vocabulary.unknown, "unknown_token_id", "[UNK]", true));
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        const auto id = static_cast<Token>(i);
        TokenKind& kind = vocabulary.kinds[i];
        if (id == vocabulary.unknown) {
            kind = TokenKind::unknown;
        } else if (id == vocabulary.bos || id == vocabulary.eos) {
            kind = TokenKind::control;
        } else if (kind == TokenKind::user_defined &&
                   vocabulary.tokens[i].starts_with(kSpaceMark)) {
            kind = TokenKind::normal;  // a word, which converters marked as one
        }
    }
    return base::Ok{};
}

}  // namespace

base::Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(Vocabulary vocabulary) {
    TRY_VOID(validate(vocabulary));
    std::shared_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(vocabulary)));
    TRY_VOID(tokenizer->build());
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

base::Status Tokenizer::build() {
    Vocabulary& v = vocabulary_;
    fill_in_kinds(v);
    if (v.model == kWordPieceTokenizer) TRY_VOID(fill_in_bert(v));
    mark_end_of_generation();
    if (v.model == "llama") {
        fill_in_llama(v);
        TRY(encoder_, SpmEncoder::create(v));
    } else if (v.model == kGemma4Tokenizer) {
        // Its models need BOS, and files that say otherwise are wrong.
        v.add_bos = v.bos.has_value();
        v.add_space_prefix = false;
        TRY(encoder_, SpmEncoder::create(v));
    } else if (v.model == "gpt2") {
        TRY(auto pre_tokenizer, PreTokenizer::create(v.pre));
        if (!v.add_bos) v.add_bos = pre_tokenizer.adds_bos() && v.bos.has_value();
        v.add_space_prefix = false;
        TRY(encoder_, ByteBpeEncoder::create(v, std::move(pre_tokenizer)));
    } else if (v.model == "t5") {
        fill_in_t5(v);
        TRY(encoder_, UnigramEncoder::create(v));
    } else if (v.model == kWordPieceTokenizer) {
        TRY(encoder_, WordPieceEncoder::create(v));
    } else {
        return base::invalid(
            fmt::format("tokenizer.ggml.model: unknown tokenizer \"{}\"; known are llama, gpt2, "
                        "gemma4, t5, bert",
                        v.model));
    }
    if (!v.add_eos) v.add_eos = false;
    if (*v.add_bos && !v.bos) {
        return base::invalid("tokenizer.ggml.bos_token_id: missing, but add_bos_token asks for it");
    }
    if (*v.add_eos && !v.eos) {
        return base::invalid("tokenizer.ggml.eos_token_id: missing, but add_eos_token asks for it");
    }
    bytes_.resize(v.tokens.size());
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
        const TokenKind kind = v.kinds[i];
        if (kind == TokenKind::normal || kind == TokenKind::byte) {
            bytes_[i] = encoder_->decode_token(static_cast<Token>(i));
        } else if (kind != TokenKind::unused && kind != TokenKind::undefined) {
            bytes_[i] = v.tokens[i];
        }
    }
    build_special_matchers();
    return base::Ok{};
}

void Tokenizer::mark_end_of_generation() {
    ends_generation_.assign(vocabulary_.tokens.size(), false);
    for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
        const std::string& token = vocabulary_.tokens[i];
        if (among(kEndNames, token)) {
            vocabulary_.kinds[i] = TokenKind::control;
            ends_generation_[i] = true;
        } else if (vocabulary_.kinds[i] == TokenKind::control &&
                   vocabulary_.model != kGemma4Tokenizer && among(kEndNamesIfControl, token)) {
            ends_generation_[i] = true;
        }
    }
    if (vocabulary_.model == "llama" && !vocabulary_.eos && ends_generation_.size() > 2) {
        ends_generation_[2] = true;
    }
    for (const auto id : {vocabulary_.eos, vocabulary_.eot, vocabulary_.eom}) {
        if (id) ends_generation_[static_cast<std::size_t>(*id)] = true;
    }
    for (const Token id : vocabulary_.end_tokens) {
        ends_generation_[static_cast<std::size_t>(id)] = true;
    }
    mark_harmony_ends();
}

// Where answers are messages on channels, <|end|> ends one of them and others may follow.
void Tokenizer::mark_harmony_ends() {
    const auto find = [&](std::string_view text) {
        return std::find(vocabulary_.tokens.begin(), vocabulary_.tokens.end(), text) -
               vocabulary_.tokens.begin();
    };
    const auto missing = static_cast<std::ptrdiff_t>(vocabulary_.tokens.size());
    const auto returns = find("<|return|>");
    const auto calls = find("<|call|>");
    const auto ends = find("<|end|>");
    if (returns == missing || calls == missing || find("<|channel|>") == missing) return;
    ends_generation_[static_cast<std::size_t>(returns)] = true;
    ends_generation_[static_cast<std::size_t>(calls)] = true;
    if (ends != missing) ends_generation_[static_cast<std::size_t>(ends)] = false;
}

void Tokenizer::build_special_matchers() {
    for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
        const TokenKind kind = vocabulary_.kinds[i];
        const auto id = static_cast<Token>(i);
        if (kind == TokenKind::user_defined) user_defined_.add(vocabulary_.tokens[i], id);
        if (kind == TokenKind::user_defined || is_special(id)) {
            all_special_.add(vocabulary_.tokens[i], id);
        }
    }
}

std::vector<Token> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
    std::vector<Token> out;
    if (options.add_special && adds_bos()) out.push_back(*bos());
    const SpecialMatcher& special = options.parse_special ? all_special_ : user_defined_;
    bool at_start = true;
    for (std::size_t done = 0; done < text.size();) {
        const auto match = special.find(text, done);
        const std::size_t end = match ? match->begin : text.size();
        if (end > done) {
            const std::string_view piece = text.substr(done, end - done);
            if (vocabulary_.composes) {
                encoder_->encode(composed(piece), at_start, out);
            } else {
                encoder_->encode(piece, at_start, out);
            }
            at_start = false;
        }
        done = end;
        if (match) {
            out.push_back(match->token);
            done += match->length;
            at_start = true;
        }
    }
    if (options.add_special && adds_eos()) out.push_back(*eos());
    return out;
}

std::string_view Tokenizer::token_bytes(Token token) const {
    return contains(token) ? std::string_view(bytes_[static_cast<std::size_t>(token)])
                           : std::string_view();
}

bool Tokenizer::is_special(Token token) const {
    if (!contains(token)) return false;
    const TokenKind kind = vocabulary_.kinds[static_cast<std::size_t>(token)];
    return kind == TokenKind::control || kind == TokenKind::unknown;
}

bool Tokenizer::is_end_of_generation(Token token) const {
    return contains(token) && ends_generation_[static_cast<std::size_t>(token)];
}

}  // namespace helix::text
