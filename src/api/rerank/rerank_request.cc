#include "api/rerank/rerank_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/completion_request.h"
#include "api/field_reader.h"
#include "api/preparation.h"
#include "api/rerank/rank_template.h"
#include "api/rerank/rerank_writer.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

// What the server keeps of a prompt besides its tokens, and writes of it in its log.
constexpr std::int64_t kPromptBytes = 2048;

// A field's text, or that of an object {"text": ...}; null when it is neither.
const std::string* text_of(const Json& value) {
    const Json* text = &value;
    if (value.is_object()) {
        const auto found = value.find("text");
        if (found == value.end()) return nullptr;
        text = &*found;
    }
    return text->is_string() ? &text->get_ref<const std::string&>() : nullptr;
}

// A text or a list of texts. Reads the first of the fields that the body has, and returns which.
const BodyField& read_texts(FieldReader& fields, const std::vector<const BodyField*>& names,
                            const RequestLimits& limits, std::vector<std::string>& texts) {
    const auto there = std::ranges::find_if(
        names, [&](const BodyField* one) { return fields.find(*one) != nullptr; });
    const BodyField& name = **(there != names.end() ? there : names.begin());
    const Json* value = fields.find(name);
    const auto wrong = [&]() -> const BodyField& {
        fields.fail(name, fmt::format("expected a text (a string, or an object with a string "
                                      "'text'), or an array of 1 to {} texts (max_inputs)",
                                      limits.max_inputs));
        return name;
    };
    if (value == nullptr) {
        fields.fail(name, "is required");
        return name;
    }
    if (const std::string* text = text_of(*value)) {
        texts.push_back(*text);
        return name;
    }
    if (!value->is_array() || value->empty() || value->size() > limits.max_inputs) return wrong();
    for (const Json& item : *value) {
        const std::string* text = text_of(item);
        if (text == nullptr) return wrong();
        texts.push_back(*text);
    }
    return name;
}

void read_rerank(FieldReader& fields, const RequestLimits& limits, RerankRequest& request) {
    std::string& query = request.queries.emplace_back();
    fields.text(field::kQuery, query);
    if (fields.find(field::kQuery) == nullptr) fields.fail(field::kQuery, "is required");
    read_texts(fields, {&field::kDocuments}, limits, request.documents);
    fields.integer(field::kTopN, request.top_n);
    fields.boolean(field::kReturnDocuments, request.return_documents);
}

// One query for all documents, or one for each.
void read_score(FieldReader& fields, const RequestLimits& limits, RerankRequest& request) {
    const BodyField& queries =
        read_texts(fields, {&field::kText1, &field::kQueries}, limits, request.queries);
    const BodyField& documents =
        read_texts(fields, {&field::kText2, &field::kDocuments}, limits, request.documents);
    if (request.queries.size() == 1 || request.queries.size() == request.documents.size()) return;
    fields.fail(queries,
                fmt::format("{} texts for {} of '{}'; expected one, or as many",
                            request.queries.size(), request.documents.size(), documents.name));
}

MaybeError read_rerank_body(RerankForm form, const Json& body, const RequestLimits& limits,
                            RerankRequest& request) {
    request.form = form;
    FieldReader fields(body);
    read_model_name(fields, limits, request.model);
    if (form == RerankForm::rerank) {
        read_rerank(fields, limits, request);
    } else {
        read_score(fields, limits, request);
    }
    if (fields.find(field::kInstruction) != nullptr) {
        fields.text(field::kInstruction, request.instruction.emplace());
    }
    if (fields.find(field::kTruncatePrompt) != nullptr) {
        fields.fail(field::kTruncatePrompt, "is not supported: shorten the texts");
    }
    std::int32_t vllm_priority = 0;
    fields.integer(field::kPriority, vllm_priority);
    request.priority = -vllm_priority;
    return fields.error();
}

class RerankPreparation {
  public:
    RerankPreparation(const RequestLimits& limits, const std::atomic<bool>& dropped,
                      PreparedRerank& out)
        : limits_(limits), dropped_(dropped), out_(out) {}

    MaybeError run(const ModelRegistry& models, RerankForm form, const std::string& body) {
        RerankRequest& request = out_.request;
        {
            Json object;
            if (auto error = read_body(limits_, body, *out_.share, object)) return error;
            out_.model = models.find(model_named_in(object));
            // What is wrong with the request whatever its model is said before that this is
            // unknown.
            if (auto error = read_rerank_body(form, object, limits_, request)) return error;
        }
        if (out_.model == nullptr) return model_not_found(request.model);
        if (!out_.model->info.ranks) return cannot_rank();
        if (auto error = check_answer_bytes()) return error;
        if (auto error = encode()) return error;
        request.queries = {};
        if (form == RerankForm::score || !request.return_documents) request.documents = {};
        return hold(kept_bytes());
    }

  private:
    ApiError cannot_rank() const {
        const ModelInfo& info = out_.model->info;
        return bad_field(
            "model",
            fmt::format("The model '{}' cannot rank: {}.", info.name,
                        info.encoder ? "it is an encoder without the head of a cross-encoder"
                                     : "its file has no classifier head with a row \"yes\", nor is "
                                       "it a model of text with the tokens \"yes\" and \"no\""));
    }

    MaybeError hold(std::int64_t bytes) {
        const base::Status held = out_.share->resize(bytes);
        if (!held.ok()) return from_error(held.error());
        return {};
    }

    MaybeError check_answer_bytes() {
        out_.answer_bytes = most_rerank_bytes(out_.request);
        if (out_.answer_bytes <= limits_.max_answer_bytes) return {};
        return bad_field(
            "documents",
            fmt::format("'documents': the answer may take {} bytes, more than the {} "
                        "(max_answer_bytes) that are kept of one; ask for fewer at once, or "
                        "without return_documents",
                        out_.answer_bytes, limits_.max_answer_bytes));
    }

    // make(i): the prompt of the document of that number.
    template <typename Make>
    MaybeError encode_each(const Make& make) {
        const std::int64_t before = out_.share->bytes();
        for (std::size_t i = 0; i < out_.request.documents.size(); ++i) {
            if (dropped_) return unavailable("The client is gone.", 1);
            std::optional<std::vector<Token>> prompt = make(i);
            if (!prompt) {
                return bad_field("model",
                                 "The vocabulary of the model's file has no tokens for "
                                 "the ends of a text.");
            }
            out_.prompts.push_back(std::move(*prompt));
            prompt_bytes_ += kPromptBytes +
                             static_cast<std::int64_t>(out_.prompts.back().size() * sizeof(Token));
            if (auto error = check_length(i)) return error;
            if (auto error = hold(before + prompt_bytes_)) return error;
        }
        return {};
    }

    // A cross-encoder was trained on pairs of texts as they are.
    MaybeError encode_pairs() {
        const RerankRequest& request = out_.request;
        if (request.instruction) {
            return bad_field("instruction",
                             "'instruction': the model is a cross-encoder, which takes none");
        }
        return encode_each([&](std::size_t i) {
            return out_.model->codec->encode_pair(request.query_of(i), request.documents[i]);
        });
    }

    MaybeError encode() {
        if (out_.model->info.encoder) return encode_pairs();
        const RerankRequest& request = out_.request;
        const TextCodec& codec = *out_.model->codec;
        const auto written = RankTemplate::parse(codec.rerank_template());
        if (!written.ok()) return bad_field("model", written.error().message);
        if (request.instruction && !written->takes_instruction()) {
            return bad_field("instruction",
                             "'instruction': the rerank template of the model's "
                             "file has no place for one");
        }
        const std::string_view instruction =
            request.instruction ? std::string_view(*request.instruction) : kDefaultInstruction;
        return encode_each([&](std::size_t i) {
            return std::optional(codec.encode_pieces(
                written->fill({instruction, request.query_of(i), request.documents[i]})));
        });
    }

    // As with any other request, there has to be room for one token behind the prompt, but not
    // behind an encoder's.
    MaybeError check_length(std::size_t document) const {
        const std::int32_t context = out_.model->info.context_length;
        const std::int32_t behind = out_.model->info.encoder ? 0 : 1;
        const auto most = static_cast<std::size_t>(std::max(context - behind, 1));
        const std::size_t tokens = out_.prompts.back().size();
        if (tokens <= most) return {};
        ApiError error = bad_field(
            out_.request.form == RerankForm::rerank ? "documents" : "text_2",
            fmt::format("This model's maximum context length is {} tokens, of which a prompt may "
                        "have {}; that of document {}, with its query, has {}. Please shorten it.",
                        context, most, document, tokens));
        error.code = "context_length_exceeded";
        return error;
    }

    std::int64_t kept_bytes() const {
        std::int64_t bytes = prompt_bytes_ + out_.answer_bytes;
        for (const std::string& document : out_.request.documents) {
            bytes += static_cast<std::int64_t>(document.size());
        }
        return bytes;
    }

    const RequestLimits& limits_;
    const std::atomic<bool>& dropped_;
    PreparedRerank& out_;
    std::int64_t prompt_bytes_ = 0;
};

}  // namespace

std::optional<ApiError> prepare_rerank(const RequestLimits& limits, const ModelRegistry& models,
                                       RerankForm form, const std::string& body,
                                       const std::atomic<bool>& dropped, PreparedRerank& prepared) {
    return RerankPreparation(limits, dropped, prepared).run(models, form, body);
}

}  // namespace helix::api
