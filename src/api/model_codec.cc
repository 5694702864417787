#include "api/model_codec.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "model/arch/decoder.h"
#include "text/detokenizer.h"
#include "text/tool_calls/drawn_calls.h"
#include "text/vocabulary.h"

namespace helix::api {
namespace {

// The mark is U+FDD0, a noncharacter: proper text does not have it, and it is dropped from what
// does.
constexpr std::string_view kMark = "\xEF\xB7\x90";

std::string without_marks(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(kMark), text.size());
        out += text.substr(0, end);
        text.remove_prefix(std::min(end + kMark.size(), text.size()));
    }
    return out;
}

}  // namespace

base::Result<std::unique_ptr<const TextCodec>> ModelCodec::create(const model::GgufFile& file,
                                                                  const std::string& chat_template,
                                                                  std::string_view tool_parser) {
    TRY(auto vocabulary, text::read_vocabulary(file));
    std::string source = chat_template.empty() ? vocabulary.chat_template : chat_template;
    if (source.empty()) source = kPlainTemplate;
    std::unique_ptr<ModelCodec> codec(new ModelCodec());
    TRY(codec->tokenizer_, text::Tokenizer::create(std::move(vocabulary)));
    auto parsed = text::ChatTemplate::parse(source);
    if (!parsed.ok()) return base::invalid("the chat template: " + parsed.error().message);
    codec->template_ = std::move(parsed).value();
    codec->template_source_ = source;
    codec->knows_developers_ = source.find("developer") != std::string::npos;
    for (Token token = 0; token < codec->tokenizer_->vocab_size(); ++token) {
        if (codec->tokenizer_->is_end_of_generation(token)) codec->end_tokens_.push_back(token);
        if (!codec->tokenizer_->is_special(token)) continue;
        const std::string_view text = codec->tokenizer_->token_bytes(token);
        if (text.size() > 1) codec->control_texts_.add(text, token);
    }
    codec->infill_tokens_ = text::find_infill_tokens(codec->tokenizer_->vocabulary());
    TRY_VOID(codec->choose_answer_format(source, tool_parser));
    const auto architecture = file.get_string("general.architecture");
    const auto* traits = architecture.ok() ? model::find_traits(*architecture) : nullptr;
    codec->keeps_ends_ = traits != nullptr && traits->encoder;
    return std::unique_ptr<const TextCodec>(std::move(codec));
}

base::Status ModelCodec::choose_answer_format(std::string_view source,
                                              std::string_view tool_parser) {
    const auto& tokens = tokenizer_->vocabulary().tokens;
    const auto has_token = [&tokens](std::string_view text) {
        return std::find(tokens.begin(), tokens.end(), text) != tokens.end();
    };
    answer_format_.tools = tool_parser == "auto" ? &text::detect_tool_format(source, has_token)
                                                 : text::find_tool_format(tool_parser);
    if (answer_format_.tools == nullptr) {
        std::string known = "auto";
        for (const text::ToolFormat& format : text::tool_formats()) {
            known += ", " + std::string(format.name);
        }
        return base::invalid("there is no form of tool calls '" + std::string(tool_parser) +
                             "'; known are " + known);
    }
    answer_format_.reasoning = text::detect_reasoning_format(source, has_token);
    drawn_form_ = text::drawn_form(answer_format_.tools->name, source, has_token);
    call_style_ = text::probe_call_style(*template_, *answer_format_.tools);
    if (answer_format_.tools->make == nullptr) answer_format_.tools = nullptr;
    return base::Ok{};
}

// Puts a mark after the first byte of each place where a control text begins, even inside another
// one, so that none is left between two marks.
std::string ModelCodec::break_control_text(std::string_view written) const {
    std::string text = without_marks(written);
    auto match = control_texts_.find(text, 0);
    if (!match) return text;
    std::string out;
    std::size_t done = 0;
    for (; match; match = control_texts_.find(text, done)) {
        out.append(text, done, match->begin + 1 - done);
        out += kMark;
        done = match->begin + 1;
    }
    out.append(text, done);
    return out;
}

// A copy in which no string spells a control token.
nlohmann::ordered_json ModelCodec::guarded(nlohmann::ordered_json value) const {
    if (value.is_string()) return break_control_text(value.get_ref<const std::string&>());
    if (value.is_array()) {
        for (auto& item : value) item = guarded(std::move(item));
        return value;
    }
    if (value.is_object()) {
        auto copy = nlohmann::ordered_json::object();
        // Members are appended, since [] would compare each name with all before it. Names that
        // differ only by marks may become equal.
        auto& members = copy.get_ref<nlohmann::ordered_json::object_t&>();
        members.reserve(value.size());
        for (auto& [key, item] : value.get_ref<nlohmann::ordered_json::object_t&>()) {
            members.emplace_back(break_control_text(key), guarded(std::move(item)));
        }
        return copy;
    }
    return value;
}

base::Result<std::vector<Token>> ModelCodec::encode_chat(const ChatPrompt& prompt) const {
    const auto token_text = [&](const std::optional<Token>& token) {
        return token ? std::string(tokenizer_->token_bytes(*token)) : std::string();
    };
    text::ChatRequest request;
    if (prompt.messages != nullptr) {
        request.messages = *prompt.messages;
        text::bring_history_into_style(call_style_, request.messages);
    }
    if (prompt.tools != nullptr && call_style_.generic) {
        text::tell_of_tools(*prompt.tools, request.messages);
    }
    request.messages = guarded(std::move(request.messages));
    if (!knows_developers_) {
        for (auto& message : request.messages) {
            if (message["role"] == "developer") message["role"] = "system";
        }
    }
    if (prompt.tools != nullptr) {
        request.tools = guarded(text::tools_in_style(call_style_, *prompt.tools));
    }
    if (prompt.kwargs != nullptr) request.extra = guarded(*prompt.kwargs);
    request.add_generation_prompt = prompt.add_generation_prompt;
    request.bos_token = token_text(tokenizer_->bos());
    request.eos_token = token_text(tokenizer_->eos());
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &request.now);
    TRY(const std::string rendered, template_->render_chat(request));
    return encode_marked(rendered);
}

// Encodes the pieces between marks, as the beginning of an answer's text.
std::vector<Token> ModelCodec::encode_marked(std::string_view rendered) const {
    // Most templates write the beginning-of-text token themselves, so it is not put there twice.
    const std::string_view bos =
        tokenizer_->bos() ? tokenizer_->token_bytes(*tokenizer_->bos()) : std::string_view();
    const bool has_bos = !bos.empty() && rendered.starts_with(bos);
    std::vector<Token> tokens;
    for (std::size_t at = 0; at <= rendered.size();) {
        const std::size_t end = std::min(rendered.find(kMark, at), rendered.size());
        const auto piece =
            tokenizer_->encode(rendered.substr(at, end - at),
                               {.add_special = at == 0 && !has_bos, .parse_special = true});
        tokens.insert(tokens.end(), piece.begin(), piece.end());
        at = end + kMark.size();
    }
    // The answer follows, so an end-of-text token that encode() added has no place here.
    if (tokenizer_->adds_eos() && !tokens.empty() && tokenizer_->eos() == tokens.back()) {
        tokens.pop_back();
    }
    return tokens;
}

std::vector<Token> ModelCodec::encode_pieces(std::span<const PromptPiece> pieces) const {
    std::string text;
    for (const PromptPiece& piece : pieces) {
        text += piece.by_user ? break_control_text(piece.text) : without_marks(piece.text);
    }
    return encode_marked(text);
}

// As llama.cpp puts it together: texts apart, so that no token reaches across their ends.
std::optional<std::vector<Token>> ModelCodec::encode_infill(std::string_view before,
                                                            std::string_view after) const {
    if (!infill_tokens_) return {};
    std::vector<Token> tokens;
    if (tokenizer_->adds_bos()) tokens.push_back(*tokenizer_->bos());
    const auto add = [&](Token mark, std::string_view text) {
        tokens.push_back(mark);
        const auto piece = tokenizer_->encode(text, {.add_special = false, .parse_special = false});
        tokens.insert(tokens.end(), piece.begin(), piece.end());
    };
    add(infill_tokens_->prefix, before);
    add(infill_tokens_->suffix, after);
    tokens.push_back(infill_tokens_->middle);
    return tokens;
}

// As BERT and RoBERTa were trained: [CLS] a [SEP] b [SEP], and <s> a </s></s> b </s>.
std::optional<std::vector<Token>> ModelCodec::encode_pair(std::string_view query,
                                                          std::string_view document) const {
    if (!keeps_ends_ || !tokenizer_->bos() || !tokenizer_->eos()) return {};
    std::vector<Token> tokens{*tokenizer_->bos()};
    const auto add = [&](std::string_view text) {
        const auto piece = tokenizer_->encode(text, {.add_special = false, .parse_special = false});
        tokens.insert(tokens.end(), piece.begin(), piece.end());
        tokens.push_back(*tokenizer_->eos());
    };
    add(query);
    const bool one_separator = tokenizer_->vocabulary().model == text::kWordPieceTokenizer;
    if (!one_separator) tokens.push_back(*tokenizer_->eos());
    add(document);
    return tokens;
}

std::vector<Token> ModelCodec::encode(std::string_view text, bool add_special) const {
    std::vector<Token> tokens =
        tokenizer_->encode(text, {.add_special = add_special, .parse_special = true});
    if (add_special && !keeps_ends_ && tokenizer_->adds_eos() && tokens.size() > 1 &&
        tokenizer_->eos() == tokens.back()) {
        tokens.pop_back();  // a prompt is to be continued
    }
    return tokens;
}

base::Status ModelCodec::check_grammar(const spec::OutputGrammar& grammar) const {
    {
        const std::lock_guard lock(mutex_);
        if (masks_ == nullptr) {
            masks_ = std::make_unique<text::grammar::GrammarMasks>(tokenizer_);
        }
    }
    TRY_VOID(masks_->allowed(grammar, 0, {}));
    if (grammar.within_tokens == 0) return base::Ok{};
    TRY(const std::size_t fewest, masks_->fewest_tokens(grammar));
    if (fewest > static_cast<std::size_t>(grammar.within_tokens)) {
        return base::invalid("the shortest answer takes " + std::to_string(fewest) +
                             " tokens, and max_tokens leaves " +
                             std::to_string(grammar.within_tokens));
    }
    return base::Ok{};
}

base::Result<spec::OutputGrammar> ModelCodec::grammar_of_calls(const nlohmann::ordered_json& tools,
                                                               ToolChoice choice) const {
    text::WantedCalls wanted;
    if (!drawn_form_) {
        return base::invalid("calls cannot be demanded where none are read (--tool-parser none)");
    }
    wanted.form = &*drawn_form_;
    const auto named = text::tools_to_call(tools);
    wanted.tools = &named;
    wanted.several = choice.several;
    wanted.demanded = choice.demanded;
    TRY(std::string form, text::grammar_of_calls(wanted));
    return spec::OutputGrammar{spec::OutputGrammar::Kind::tool_calls, std::move(form)};
}

std::string ModelCodec::decode(std::span<const Token> tokens, bool skip_special) const {
    return text::decode(*tokenizer_, tokens,
                        {.skip_special_tokens = skip_special, .starts_text = true});
}

std::string ModelCodec::token_bytes(Token token) const {
    return std::string(tokenizer_->token_bytes(token));
}

std::unique_ptr<text::IncrementalDetokenizer> ModelCodec::detokenizer(bool skip_special) const {
    return std::make_unique<text::Detokenizer>(
        tokenizer_,
        text::DetokenizerOptions{.skip_special_tokens = skip_special, .starts_text = false});
}

std::unique_ptr<text::IncrementalDetokenizer> ModelCodec::marked_detokenizer(
    const text::AnswerFormat& reads, bool skip_special) const {
    auto shown = std::make_shared<std::vector<Token>>();
    for (const std::string_view marker : reads.markers()) {
        const auto found = control_texts_.find(marker, 0);
        if (found && found->length == marker.size()) shown->push_back(found->token);
    }
    std::sort(shown->begin(), shown->end());
    return std::make_unique<text::Detokenizer>(
        tokenizer_,
        text::DetokenizerOptions{
            .skip_special_tokens = skip_special, .starts_text = false, .shown = std::move(shown)});
}

}  // namespace helix::api
