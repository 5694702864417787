#include "api/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/field_reader.h"
#include "api/output_format.h"
#include "api/thinking.h"
#include "api/tools_request.h"
#include "spec/bounded_json.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

constexpr std::int32_t kDefaultCompletionTokens = 16;  // OpenAI's default for /v1/completions
constexpr std::size_t kShownBytes = 100;               // of a value, in a message
// The limits of one JSON text: the body, or the arguments of a tool call in it.
constexpr spec::JsonLimits kJsonLimits{.depth = 64, .elements = 2'000'000};

void read_names(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    read_model_name(fields, limits, request.model);
    const Json* user = fields.find(field::kUser);
    if (user != nullptr && (!user->is_string() ||
                            user->get_ref<const std::string&>().size() > limits.max_user_bytes)) {
        fields.fail(field::kUser,
                    fmt::format("expected a string of at most {} bytes (max_user_bytes)",
                                limits.max_user_bytes));
    }
    std::string unused;
    read_metadata(fields, limits, unused);
}

void read_sampling(FieldReader& fields, CompletionRequest& request) {
    spec::SamplingParams& s = request.sampling;
    fields.number(field::kTemperature, s.temperature);
    fields.number(field::kTopP, s.top_p);
    fields.integer(field::kTopK, s.top_k);
    s.top_k = std::max(s.top_k, 0);
    fields.number(field::kMinP, s.min_p);
    fields.number(field::kRepetitionPenalty, s.repetition_penalty);
    fields.number(field::kFrequencyPenalty, s.frequency_penalty);
    fields.number(field::kPresencePenalty, s.presence_penalty);
    std::int64_t seed = 0;
    fields.integer(field::kSeed, seed);
    if (fields.find(field::kSeed) != nullptr) request.seed = static_cast<std::uint64_t>(seed);
}

void read_logit_bias(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    const Json* bias = fields.find(field::kLogitBias);
    if (bias == nullptr) return;
    if (!bias->is_object()) {
        return fields.fail(field::kLogitBias,
                           "expected an object from token ids to numbers, got " + kind_of(*bias));
    }
    if (bias->size() > limits.max_biases) {
        return fields.fail(field::kLogitBias,
                           fmt::format("at most {} tokens (max_biases)", limits.max_biases));
    }
    for (const auto& [key, value] : bias->items()) {
        Token token = -1;
        const auto end = std::from_chars(key.data(), key.data() + key.size(), token);
        if (end.ec != std::errc() || end.ptr != key.data() + key.size() || token < 0 ||
            token >= limits.vocab_size) {
            return fields.fail(
                field::kLogitBias,
                fmt::format("'{:.40}' is not a token id from 0 to {}", key, limits.vocab_size - 1));
        }
        if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100) {
            return fields.fail(field::kLogitBias,
                               fmt::format("expected a number from -100 to 100 for token {}", key));
        }
        request.sampling.logit_bias.emplace_back(token, value.get<float>());
    }
}

// Reads token ids; false when one is not valid.
bool read_tokens(const Json& array, const RequestLimits& limits, std::vector<Token>& out) {
    for (const Json& item : array) {
        const auto id = as_integer(item);
        if (!id || *id < 0 || *id >= limits.vocab_size) return false;
        out.push_back(static_cast<Token>(*id));
    }
    return true;
}

void read_stop_strings(FieldReader& fields, const RequestLimits& limits,
                       CompletionRequest& request) {
    const Json* stop = fields.find(field::kStop);
    if (stop == nullptr) return;
    const bool one = stop->is_string();
    const std::size_t strings = one ? 1 : stop->size();
    if ((!one && !stop->is_array()) || strings > limits.max_stop_strings) {
        return fields.fail(
            field::kStop,
            fmt::format("expected a non-empty string or an array of at most {} of them "
                        "(max_stop_strings)",
                        limits.max_stop_strings));
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < strings; ++i) {
        const Json& item = one ? *stop : (*stop)[i];
        if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
            return fields.fail(field::kStop, "expected a non-empty string or an array of them");
        }
        const auto& text = item.get_ref<const std::string&>();
        bytes += text.size();
        if (text.size() > limits.max_stop_bytes || bytes > limits.max_all_stop_bytes) {
            return fields.fail(field::kStop,
                               fmt::format("at most {} bytes each (max_stop_bytes) and {} in all "
                                           "(max_all_stop_bytes)",
                                           limits.max_stop_bytes, limits.max_all_stop_bytes));
        }
        request.stop.push_back(text);
    }
}

void read_stop(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    read_stop_strings(fields, limits, request);
    const Json* ids = fields.find(field::kStopTokenIds);
    if (ids == nullptr) return;
    if (ids->size() > limits.max_stop_tokens) {
        return fields.fail(
            field::kStopTokenIds,
            fmt::format("at most {} token ids (max_stop_tokens)", limits.max_stop_tokens));
    }
    if (!ids->is_array() || !read_tokens(*ids, limits, request.stop_token_ids)) {
        fields.fail(field::kStopTokenIds, fmt::format("expected an array of token ids from 0 to {}",
                                                      limits.vocab_size - 1));
    }
}

void read_lengths(FieldReader& fields, CompletionRequest& request) {
    if (request.endpoint == Endpoint::completions) request.max_tokens = kDefaultCompletionTokens;
    const bool newer = fields.find(field::kMaxCompletionTokens) != nullptr;
    const BodyField& most = newer ? field::kMaxCompletionTokens : field::kMaxTokens;
    std::int32_t limit = 0;
    fields.integer(most, limit);
    if (fields.find(most) != nullptr) {
        if (limit == 0 && request.endpoint == Endpoint::chat)
            return fields.fail(most, "expected at least 1, or -1 for no limit, got 0");
        request.prompt_only = limit == 0;
        request.max_tokens = request.prompt_only ? 1 : std::max(limit, 0);
    }
    fields.integer(field::kMinTokens, request.min_tokens);
    if (request.max_tokens > 0 && request.min_tokens > request.max_tokens) {
        fields.fail(field::kMinTokens, fmt::format("{} is more than {} = {}", request.min_tokens,
                                                   most.name, request.max_tokens));
    }
}

void read_stream(FieldReader& fields, CompletionRequest& request, MaybeError& nested) {
    fields.boolean(field::kStream, request.stream);
    const Json* options = fields.find(field::kStreamOptions);
    if (options == nullptr) return;
    if (!options->is_object()) {
        return fields.fail(field::kStreamOptions, "expected an object, got " + kind_of(*options));
    }
    FieldReader inner(*options, "stream_options.");
    inner.boolean(field::kIncludeUsage, request.include_usage);
    inner.boolean(field::kContinuousUsage, request.continuous_usage);
    request.continuous_usage = request.continuous_usage && request.include_usage;
    nested = inner.error();
}

// Reads llama.cpp's field for drafts, and OpenAI's predicted outputs.
void read_prediction(FieldReader& fields, CompletionRequest& request);

void read_speculation(FieldReader& fields, const RequestLimits& limits,
                      CompletionRequest& request) {
    fields.integer(field::kMaxDrafts, request.max_draft_tokens);
    read_prediction(fields, request);
    if (request.prediction.size() > limits.max_prediction_bytes) {
        fields.fail(field::kPrediction,
                    fmt::format("at most {} bytes of text (max_prediction_bytes)",
                                limits.max_prediction_bytes));
    }
}

void read_prediction(FieldReader& fields, CompletionRequest& request) {
    const Json* prediction = fields.find(field::kPrediction);
    if (prediction == nullptr) return;
    const auto wrong = [&] {
        fields.fail(field::kPrediction,
                    R"(expected {"type":"content","content":TEXT}; TEXT may be an array of parts)"
                    R"( {"type":"text","text":TEXT})");
    };
    if (!prediction->is_object() || prediction->value("type", Json()) != "content") return wrong();
    const auto found = prediction->find("content");
    if (found == prediction->end()) return wrong();
    const Json& content = *found;
    if (content.is_string()) {
        request.prediction = content.get<std::string>();
        return;
    }
    if (!content.is_array()) return wrong();
    for (const Json& part : content) {
        const bool text = part.is_object() && part.value("type", Json()) == "text" &&
                          part.value("text", Json()).is_string();
        if (!text) return wrong();
        request.prediction += part["text"].get<std::string>();
    }
}

void read_early_stopping(FieldReader& fields, core::BeamSearch& beam) {
    const Json* early = fields.find(field::kEarlyStopping);
    if (early == nullptr) return;
    if (early->is_boolean()) {
        beam.early_stopping =
            early->get<bool>() ? core::EarlyStopping::yes : core::EarlyStopping::no;
    } else if (*early == "never") {
        beam.early_stopping = core::EarlyStopping::never;
    } else {
        fields.fail(field::kEarlyStopping, "expected true, false or \"never\", got " +
                                               early->dump().substr(0, kShownBytes));
    }
}

// Beams are ranked by the model's own log-probabilities.
void check_beam_sampling(FieldReader& fields, const spec::SamplingParams& sampling) {
    const char* both = "cannot be used together with use_beam_search";
    if (sampling.repetition_penalty != 1) fields.fail(field::kRepetitionPenalty, both);
    if (sampling.frequency_penalty != 0) fields.fail(field::kFrequencyPenalty, both);
    if (sampling.presence_penalty != 0) fields.fail(field::kPresencePenalty, both);
    if (!sampling.logit_bias.empty()) fields.fail(field::kLogitBias, both);
    if (sampling.grammar.present()) {
        fields.fail(field::kUseBeamSearch, "cannot be used together with a grammar or schema");
    }
}

void read_beam(FieldReader& fields, CompletionRequest& request) {
    bool wanted = false;
    fields.boolean(field::kUseBeamSearch, wanted);
    core::BeamSearch beam;
    float length_penalty = 1;
    fields.number(field::kLengthPenalty, length_penalty);
    beam.length_penalty = static_cast<double>(length_penalty);
    read_early_stopping(fields, beam);
    if (wanted) {
        check_beam_sampling(fields, request.sampling);
        if (request.tool_choice.demanded) {
            fields.fail(field::kUseBeamSearch,
                        "cannot be used together with demanded calls of tools");
        }
        beam.width = request.best_of;
        request.beam = beam;
        return;
    }
    if (length_penalty != 1) fields.fail(field::kLengthPenalty, "needs use_beam_search to be true");
    if (beam.early_stopping != core::EarlyStopping::no) {
        fields.fail(field::kEarlyStopping, "needs use_beam_search to be true");
    }
}

void read_choices(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    fields.integer(field::kN, request.n, limits.max_n);
    std::int32_t best_of = 0;
    fields.integer(field::kBestOf, best_of, limits.max_n);
    request.best_of = best_of == 0 ? request.n : best_of;
    if (request.best_of < request.n) {
        return fields.fail(field::kBestOf,
                           fmt::format("{} is less than n = {}", best_of, request.n));
    }
    read_beam(fields, request);
    if (request.stream && request.made() > request.n) {
        fields.fail(field::kBestOf,
                    "cannot be above n with stream: the best are known only at the end");
    }
    const auto prompts =
        static_cast<std::int64_t>(std::max<std::size_t>(1, request.prompts.size()));
    if (prompts * request.best_of > limits.max_choices) {
        fields.fail(field::kN,
                    fmt::format("{} prompts with {} choices each are more than {} choices "
                                "(max_choices)",
                                prompts, request.best_of, limits.max_choices));
    }
}

// The text behind the answer, which then fills in.
void read_suffix(FieldReader& fields, CompletionRequest& request) {
    fields.text(field::kSuffix, request.suffix);
    if (request.suffix.empty()) return;
    if (request.endpoint == Endpoint::chat) {
        return fields.fail(field::kSuffix, "is of prompts, not of messages");
    }
    if (request.echo) fields.fail(field::kSuffix, "cannot be used together with echo");
    for (const PlainPrompt& prompt : request.prompts) {
        if (std::holds_alternative<std::string>(prompt)) continue;
        return fields.fail(field::kSuffix, "needs a prompt of text, not of token ids");
    }
}

void read_chat(FieldReader& fields, Json& body, const RequestLimits& limits,
               CompletionRequest& request, MaybeError& nested) {
    bool logprobs = false;
    fields.boolean(field::kLogprobs, logprobs);
    std::int32_t top = 0;
    fields.integer(field::kTopLogprobs, top, limits.max_logprobs);
    if (top > 0 && !logprobs) fields.fail(field::kTopLogprobs, "needs logprobs to be true");
    if (logprobs) request.sampling.n_logprobs = top;
    fields.boolean(field::kAddGenerationPrompt, request.add_generation_prompt);
    if (const Json* kwargs = fields.find(field::kTemplateKwargs)) {
        if (!kwargs->is_object()) {
            return fields.fail(field::kTemplateKwargs,
                               "expected an object, got " + kind_of(*kwargs));
        }
        if (kwargs->dump().size() > limits.max_kwargs_bytes) {
            return fields.fail(
                field::kTemplateKwargs,
                fmt::format("at most {} bytes (max_kwargs_bytes)", limits.max_kwargs_bytes));
        }
        request.kwargs = *kwargs;
    }
    read_thinking(fields, request);
    read_tools(fields, limits, request);
    if (fields.find(field::kMessages) == nullptr)
        return fields.fail(field::kMessages, "is required");
    request.messages = std::move(body["messages"]);
    nested = normalise_messages(request.messages, limits);
}

void read_plain(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    // false is what some clients send for "none".
    const Json* logprobs = fields.find(field::kLogprobs);
    if (logprobs != nullptr && *logprobs != false) {
        fields.integer(field::kLogprobs, request.sampling.n_logprobs, limits.max_logprobs);
    }
    fields.boolean(field::kEcho, request.echo);
    if (request.prompt_only && !request.echo) {
        fields.fail(field::kMaxTokens,
                    "expected at least 1, or -1 for no limit, got 0; 0 needs echo");
    }
    read_prompts(fields, {"prompt", limits.max_prompts, "max_prompts"}, limits, request.prompts);
}

}  // namespace

void read_prompts(FieldReader& fields, const PromptField& field, const RequestLimits& limits,
                  std::vector<PlainPrompt>& prompts) {
    const Json* prompt = fields.find(field.name);
    const auto wrong = [&] {
        fields.fail(field.name,
                    fmt::format("expected a string, an array of at most {} strings ({}), or an "
                                "array (of arrays) of token ids from 0 to {}",
                                field.most, field.limit, limits.vocab_size - 1));
    };
    if (prompt == nullptr) return fields.fail(field.name, "is required");
    if (prompt->is_string()) {
        prompts.emplace_back(prompt->get<std::string>());
        return;
    }
    if (!prompt->is_array() || prompt->empty()) return wrong();
    std::vector<Token> tokens;
    if (prompt->front().is_number()) {
        if (!read_tokens(*prompt, limits, tokens)) return wrong();
        prompts.emplace_back(std::move(tokens));
        return;
    }
    if (prompt->size() > field.most) return wrong();
    for (const Json& item : *prompt) {
        tokens.clear();
        if (item.is_string()) {
            prompts.emplace_back(item.get<std::string>());
        } else if (item.is_array() && !item.empty() && read_tokens(item, limits, tokens)) {
            prompts.emplace_back(tokens);
        } else {
            return wrong();
        }
    }
}

void read_metadata(FieldReader& fields, const RequestLimits& limits, std::string& text) {
    text = "null";
    const Json* metadata = fields.find(field::kMetadata);
    if (metadata == nullptr) return;
    bool good = metadata->is_object() && metadata->size() <= limits.max_metadata;
    if (good) {
        for (const auto& [key, value] : metadata->items()) {
            good = good && key.size() <= limits.max_metadata_name_bytes && value.is_string() &&
                   value.get_ref<const std::string&>().size() <= limits.max_metadata_bytes;
        }
    }
    if (!good) {
        return fields.fail(
            field::kMetadata,
            fmt::format("expected an object of at most {} strings (max_metadata) of {} bytes "
                        "(max_metadata_bytes) with names of {} bytes (max_metadata_name_bytes)",
                        limits.max_metadata, limits.max_metadata_bytes,
                        limits.max_metadata_name_bytes));
    }
    text = metadata->dump();
}

std::optional<ApiError> parse_json_object(std::string_view body, Json& object) {
    if (const auto problem = spec::read_bounded_json(body, kJsonLimits, object)) {
        // The text of the error may quote a whole string of the body.
        return bad_field(
            "", problem->over_limit
                    ? fmt::format("The body is JSON that cannot be taken: {}.", problem->message)
                    : fmt::format("The body is not valid JSON: {:.300}", problem->message));
    }
    if (!object.is_object()) {
        return bad_field("", "The body must be a JSON object, got " + kind_of(object) + ".");
    }
    return {};
}

std::string model_named_in(const Json& body) {
    const auto found = body.find("model");
    return found != body.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void read_model_name(FieldReader& fields, const RequestLimits& limits, std::string& name) {
    fields.text(field::kModel, name);
    if (name.size() > limits.max_name_bytes) fields.fail(field::kModel, limits.name_too_long());
}

std::optional<ApiError> read_completion_request(Endpoint endpoint, Json& body,
                                                const RequestLimits& limits,
                                                CompletionRequest& request) {
    request.endpoint = endpoint;
    FieldReader fields(body);
    MaybeError nested_stream;
    MaybeError nested_messages;
    read_names(fields, limits, request);
    read_sampling(fields, request);
    read_logit_bias(fields, limits, request);
    read_stop(fields, limits, request);
    read_lengths(fields, request);
    read_stream(fields, request, nested_stream);
    read_speculation(fields, limits, request);
    fields.boolean(field::kIgnoreEos, request.ignore_eos);
    fields.boolean(field::kSkipSpecialTokens, request.skip_special_tokens);
    std::int32_t vllm_priority = 0;
    fields.integer(field::kPriority, vllm_priority);
    request.priority = -vllm_priority;
    read_output_format(fields, request);
    if (endpoint == Endpoint::chat) {
        read_chat(fields, body, limits, request, nested_messages);
    } else {
        read_plain(fields, limits, request);
    }
    read_suffix(fields, request);
    read_choices(fields, limits, request);
    if (fields.failed()) return fields.error();
    return nested_stream ? nested_stream : nested_messages;
}

}  // namespace helix::api
