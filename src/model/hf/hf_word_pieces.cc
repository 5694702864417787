#include "model/hf/hf_word_pieces.h"

#include <string_view>

#include <fmt/format.h>

namespace helix::model {
namespace {

using spec::JsonPlace;

constexpr std::string_view kWordMark = "\xe2\x96\x81";  // "▁", before what begins a word

// Whether there is something, null is nothing.
bool has_value(const JsonPlace& place, const char* key) {
    return place.has(key) && !place.value()[key].is_null();
}

base::Result<bool> truth_or(const JsonPlace& place, const char* key, bool otherwise) {
    if (!has_value(place, key)) return otherwise;
    const JsonPlace child = place.child(key);
    if (!child.value().is_boolean()) return child.error("true or false");
    return child.value().get<bool>();
}

// Complains of a part of any other type.
base::Status expect_type(const JsonPlace& part, std::string_view known) {
    TRY(const JsonPlace place, part.member("type"));
    TRY(const std::string type, place.text());
    if (type == known) return base::Ok{};
    return part.complaint(
        fmt::format("\"{}\" is not known with \"WordPiece\"; known is {}", type, known));
}

base::Status read_model(const JsonPlace& model, HfWordPieces& out) {
    TRY(out.unknown, model.text_or("unk_token", "[UNK]"));
    TRY(out.within_word, model.text_or("continuing_subword_prefix", "##"));
    if (out.within_word.empty()) {
        return model.child("continuing_subword_prefix").error("a prefix that is not empty");
    }
    if (!has_value(model, "max_input_chars_per_word")) return base::Ok{};
    const JsonPlace longest = model.child("max_input_chars_per_word");
    TRY(out.max_characters, longest.integer());
    if (out.max_characters < 1) return longest.error("at least 1");
    return base::Ok{};
}

base::Status read_word_normaliser(const JsonPlace& part, HfWordPieces& out) {
    TRY_VOID(expect_type(part, "BertNormalizer"));
    TRY(out.clean_text, truth_or(part, "clean_text", true));
    TRY(out.handle_chinese_chars, truth_or(part, "handle_chinese_chars", true));
    TRY(out.lowercase, truth_or(part, "lowercase", true));
    TRY(out.strip_accents, truth_or(part, "strip_accents", out.lowercase));
    return base::Ok{};
}

// Reads "single", what becomes of one text: a list like [CLS] $A [SEP].
base::Status read_text_template(const JsonPlace& processor, HfWordPieces& out) {
    TRY(const JsonPlace single, processor.member("single"));
    TRY(const std::size_t n, single.array_size());
    bool has_text = false;
    for (std::size_t i = 0; i < n; ++i) {
        const JsonPlace piece = single.element(i);
        if (piece.has("Sequence")) {
            if (has_text) return piece.complaint("a second Sequence, expected one");
            has_text = true;
            continue;
        }
        TRY(const JsonPlace special, piece.member("SpecialToken"));
        TRY(const JsonPlace id, special.member("id"));
        TRY(const std::string text, id.text());
        std::string& side = has_text ? out.after : out.before;
        if (!side.empty()) {
            return piece.complaint(
                fmt::format("\"{}\" beside \"{}\", expected one special token before the text and "
                            "one after it",
                            text, side));
        }
        side = text;
    }
    if (!has_text) return single.error("a Sequence among them");
    return base::Ok{};
}

// "cls" and "sep" are each a token and its id.
base::Status read_bert_processing(const JsonPlace& processor, HfWordPieces& out) {
    const auto read = [&processor](const char* key, std::string& text) -> base::Status {
        TRY(const JsonPlace pair, processor.member(key));
        TRY(const std::size_t n, pair.array_size());
        if (n != 2) return pair.error("a token and its id");
        TRY(text, pair.element(0).text());
        return base::Ok{};
    };
    TRY_VOID(read("cls", out.before));
    return read("sep", out.after);
}

base::Status read_processor(const JsonPlace& processor, HfWordPieces& out) {
    TRY(const JsonPlace place, processor.member("type"));
    TRY(const std::string type, place.text());
    if (type == "TemplateProcessing") return read_text_template(processor, out);
    if (type == "BertProcessing") return read_bert_processing(processor, out);
    return processor.complaint(fmt::format(
        "\"{}\" is not known with \"WordPiece\"; known are TemplateProcessing and BertProcessing",
        type));
}

base::Status read_word_decoder(const JsonPlace& decoder, HfWordPieces& out) {
    TRY_VOID(expect_type(decoder, "WordPiece"));
    TRY(const std::string prefix, decoder.text_or("prefix", out.within_word));
    if (prefix != out.within_word) {
        return decoder.complaint(fmt::format("prefix \"{}\", expected \"{}\", which tokens have",
                                             prefix, out.within_word));
    }
    TRY(out.cleanup, truth_or(decoder, "cleanup", true));
    return base::Ok{};
}

}  // namespace

base::Result<HfWordPieces> read_hf_word_pieces(const JsonPlace& root) {
    HfWordPieces out;
    TRY(const JsonPlace model, root.member("model"));
    TRY_VOID(read_model(model, out));
    if (has_value(root, "normalizer")) {
        TRY_VOID(read_word_normaliser(root.child("normalizer"), out));
    }
    TRY(const JsonPlace splits, root.member("pre_tokenizer"));
    TRY_VOID(expect_type(splits, "BertPreTokenizer"));
    if (has_value(root, "post_processor")) {
        TRY_VOID(read_processor(root.child("post_processor"), out));
    }
    if (has_value(root, "decoder")) TRY_VOID(read_word_decoder(root.child("decoder"), out));
    return out;
}

void set_word_rules(const HfWordPieces& pieces, GgufBuilder& metadata) {
    metadata.set("tokenizer.ggml.normalizer.lowercase", pieces.lowercase);
    metadata.set("tokenizer.ggml.normalizer.strip_accents", pieces.strip_accents);
    metadata.set("tokenizer.helix.clean_text", pieces.clean_text);
    metadata.set("tokenizer.helix.handle_chinese_chars", pieces.handle_chinese_chars);
    metadata.set("tokenizer.helix.max_input_chars_per_word", pieces.max_characters);
    metadata.set("tokenizer.helix.cleanup", pieces.cleanup);
}

base::Result<std::string> gguf_word_piece(const std::string& token, const HfWordPieces& pieces) {
    const std::string_view text = token;
    const std::size_t prefix = pieces.within_word.size();
    if (text.size() <= prefix || !text.starts_with(pieces.within_word))
        return std::string(kWordMark) + token;
    const std::string_view rest = text.substr(prefix);
    if (rest.size() > kWordMark.size() && rest.starts_with(kWordMark)) {
        return base::invalid(fmt::format(
            "token \"{}\": a \"▁\" before other characters within a word is not supported", token));
    }
    return std::string(rest);
}

}  // namespace helix::model
