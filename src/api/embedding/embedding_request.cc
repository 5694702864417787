#include "api/embedding/embedding_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/embedding/embedding_writer.h"
#include "api/field_reader.h"
#include "api/preparation.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

// What the server keeps of a text besides its tokens, and writes of it in its log.
constexpr std::int64_t kTextBytes = 2048;

const char* field_of(EmbeddingForm form) {
    return form == EmbeddingForm::ollama_single ? "prompt" : "input";
}

// Whether Ollama's client asks for nothing.
bool is_nothing(const Json* value) {
    if (value == nullptr) return true;
    return value->is_array() ? value->empty()
                             : value->is_string() && value->get_ref<const std::string&>().empty();
}

MaybeError read_embedding(EmbeddingForm form, const Json& body, const RequestLimits& limits,
                          std::int32_t hidden, EmbeddingRequest& request) {
    request.form = form;
    FieldReader fields(body);
    read_model_name(fields, limits, request.model);
    const std::int32_t widest = hidden > 0 ? hidden : std::numeric_limits<std::int32_t>::max();
    if (form != EmbeddingForm::ollama_single) {
        fields.integer(field::kDimensions, request.dimensions, widest);
    }
    if (form == EmbeddingForm::openai) {
        std::string format = "float";
        fields.text(field::kEncodingFormat, format);
        if (format != "float" && format != "base64") {
            fields.fail(field::kEncodingFormat, "expected \"float\" or \"base64\"");
        }
        request.base64 = format == "base64";
        std::int32_t vllm_priority = 0;
        fields.integer(field::kPriority, vllm_priority);
        request.priority = -vllm_priority;
    } else {
        request.truncate = form == EmbeddingForm::ollama;
        fields.boolean(field::kTruncate, request.truncate);
    }
    const bool nothing = form != EmbeddingForm::openai && is_nothing(fields.find(field_of(form)));
    if (!nothing) {
        read_prompts(fields, {field_of(form), limits.max_inputs, "max_inputs"}, limits,
                     request.texts);
    }
    return fields.error();
}

class EmbeddingPreparation {
  public:
    EmbeddingPreparation(const RequestLimits& limits, const std::atomic<bool>& dropped,
                         PreparedEmbedding& out)
        : limits_(limits), dropped_(dropped), out_(out) {}

    MaybeError run(const ModelRegistry& models, EmbeddingForm form, const std::string& body) {
        Json object;
        if (auto error = read_body(limits_, body, *out_.share, object)) return error;
        out_.model = models.find(model_named_in(object));
        // What is wrong with the request whatever its model is said before that this is unknown.
        const ModelEntry& model = out_.model != nullptr ? *out_.model : models.first();
        limits_.vocab_size = model.codec->vocab_size();
        if (auto error = read_embedding(form, object, limits_, model.info.hidden, out_.request)) {
            return error;
        }
        if (out_.model == nullptr) return model_not_found(out_.request.model);
        object = nullptr;
        if (model.info.pooling == spec::Pooling::none) {
            return bad_field("model", fmt::format("The model '{}' makes no embeddings, by the "
                                                  "pooling_type of its file.",
                                                  model.info.name));
        }
        if (auto error = check_answer_bytes()) return error;
        for (PlainPrompt& text : out_.request.texts) {
            if (dropped_) return unavailable("The client is gone.", 1);
            if (auto error = encode(text)) return error;
        }
        out_.request.texts = {};
        return hold();
    }

  private:
    // An answer is whole before it is sent, and its length is known beforehand.
    std::int64_t answer_bytes() const {
        const std::int64_t width = out_.request.width(out_.model->info.hidden);
        const auto texts =
            static_cast<std::int64_t>(std::max(out_.prompts.size(), out_.request.texts.size()));
        return texts * (width * most_value_bytes(out_.request.base64) +
                        width * static_cast<std::int64_t>(sizeof(float)));
    }

    MaybeError check_answer_bytes() const {
        if (answer_bytes() <= limits_.max_answer_bytes) return {};
        return bad_field(field_of(out_.request.form),
                         fmt::format("'{}': the answer to {} inputs may take {} bytes, more than "
                                     "the {} (max_answer_bytes) that are kept of one; ask for "
                                     "fewer at once",
                                     field_of(out_.request.form), out_.request.texts.size(),
                                     answer_bytes(), limits_.max_answer_bytes));
    }

    MaybeError encode(PlainPrompt& text) {
        const TextCodec& codec = *out_.model->codec;
        const auto* written = std::get_if<std::string>(&text);
        std::vector<Token> tokens = written != nullptr
                                        ? codec.encode(*written, true)
                                        : std::move(std::get<std::vector<Token>>(text));
        text = {};
        const char* field = field_of(out_.request.form);
        if (tokens.empty()) return bad_field(field, fmt::format("'{}': an input is empty", field));
        // As with any other request, there has to be room for one token behind the prompt, but with
        // encoders, which draw none.
        const ModelInfo& model = out_.model->info;
        const auto most =
            static_cast<std::size_t>(std::max(model.context_length - (model.encoder ? 0 : 1), 1));
        if (tokens.size() > most && !out_.request.truncate) {
            ApiError error = bad_field(
                field, fmt::format("This model's maximum context length is {} tokens, of which an "
                                   "input may have {}; an input has {}. Please shorten it.",
                                   out_.model->info.context_length, most, tokens.size()));
            error.code = "context_length_exceeded";
            return error;
        }
        if (tokens.size() > most) cut(codec, most, tokens);
        out_.prompts.push_back(std::move(tokens));
        return {};
    }

    // The mark that ends a text stays: with some models it is the token that counts.
    static void cut(const TextCodec& codec, std::size_t most, std::vector<Token>& tokens) {
        const std::vector<Token>& ends = codec.end_tokens();
        const Token last = tokens.back();
        tokens.resize(most);
        if (std::find(ends.begin(), ends.end(), last) != ends.end()) tokens.back() = last;
    }

    MaybeError hold() {
        std::int64_t bytes = out_.answer_bytes = answer_bytes();
        for (const std::vector<Token>& prompt : out_.prompts) {
            bytes += kTextBytes + static_cast<std::int64_t>(prompt.size() * sizeof(Token));
        }
        const base::Status held = out_.share->resize(bytes);
        if (!held.ok()) return from_error(held.error());
        return {};
    }

    RequestLimits limits_;
    const std::atomic<bool>& dropped_;
    PreparedEmbedding& out_;
};

}  // namespace

std::optional<ApiError> prepare_embedding(const RequestLimits& limits, const ModelRegistry& models,
                                          EmbeddingForm form, const std::string& body,
                                          const std::atomic<bool>& dropped,
                                          PreparedEmbedding& prepared) {
    return EmbeddingPreparation(limits, dropped, prepared).run(models, form, body);
}

}  // namespace helix::api
