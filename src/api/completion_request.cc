#include "api/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "api/field_reader.h"
#include "api/output_format.h"
#include "api/thinking.h"
#include "spec/bounded_json.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMinInt64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kDefaultCompletionTokens = 16;  // OpenAI's default for /v1/completions
constexpr std::int32_t kMaxDraftTokens = 64;
constexpr std::size_t kShownBytes = 100;  // of a value, in a message
// The limits of one JSON text: the body, or the arguments of a tool call in it.
constexpr spec::JsonLimits kJsonLimits{.depth = 64, .elements = 2'000'000};

std::string too_long_a_name(const RequestLimits& limits) {
    return fmt::format("at most {} bytes (max_name_bytes)", limits.max_name_bytes);
}

void read_names(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    read_model_name(fields, limits, request.model);
    const Json* user = fields.find("user");
    if (user != nullptr && (!user->is_string() ||
                            user->get_ref<const std::string&>().size() > limits.max_user_bytes)) {
        fields.fail("user", fmt::format("expected a string of at most {} bytes (max_user_bytes)",
                                        limits.max_user_bytes));
    }
    std::string unused;
    read_metadata(fields, limits, unused);
}

void read_sampling(FieldReader& fields, CompletionRequest& request) {
    spec::SamplingParams& s = request.sampling;
    fields.number("temperature", 0, 100, s.temperature);
    fields.number("top_p", 0, 1, s.top_p);
    fields.integer("top_k", -1, kMaxInt32, s.top_k);
    s.top_k = std::max(s.top_k, 0);
    fields.number("min_p", 0, 1, s.min_p);
    fields.number("repetition_penalty", 0.01, 100, s.repetition_penalty);
    fields.number("frequency_penalty", -2, 2, s.frequency_penalty);
    fields.number("presence_penalty", -2, 2, s.presence_penalty);
    std::int64_t seed = 0;
    fields.integer("seed", kMinInt64, kMaxInt64, seed);
    if (fields.find("seed") != nullptr) request.seed = static_cast<std::uint64_t>(seed);
}

void read_logit_bias(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    const Json* bias = fields.find("logit_bias");
    if (bias == nullptr) return;
    if (!bias->is_object()) {
        return fields.fail("logit_bias",
                           "expected an object from token ids to numbers, got " + kind_of(*bias));
    }
    if (bias->size() > limits.max_biases) {
        return fields.fail("logit_bias",
                           fmt::format("at most {} tokens (max_biases)", limits.max_biases));
    }
    for (const auto& [key, value] : bias->items()) {
        Token token = -1;
        const auto end = std::from_chars(key.data(), key.data() + key.size(), token);
        if (end.ec != std::errc() || end.ptr != key.data() + key.size() || token < 0 ||
            token >= limits.vocab_size) {
            return fields.fail("logit_bias", fmt::format("'{:.40}' is not a token id from 0 to {}",
                                                         key, limits.vocab_size - 1));
        }
        if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100) {
            return fields.fail("logit_bias",
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
    const Json* stop = fields.find("stop");
    if (stop == nullptr) return;
    const bool one = stop->is_string();
    const std::size_t strings = one ? 1 : stop->size();
    if ((!one && !stop->is_array()) || strings > limits.max_stop_strings) {
        return fields.fail(
            "stop", fmt::format("expected a non-empty string or an array of at most {} of them "
                                "(max_stop_strings)",
                                limits.max_stop_strings));
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < strings; ++i) {
        const Json& item = one ? *stop : (*stop)[i];
        if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
            return fields.fail("stop", "expected a non-empty string or an array of them");
        }
        const auto& text = item.get_ref<const std::string&>();
        bytes += text.size();
        if (text.size() > limits.max_stop_bytes || bytes > limits.max_all_stop_bytes) {
            return fields.fail("stop",
                               fmt::format("at most {} bytes each (max_stop_bytes) and {} in all "
                                           "(max_all_stop_bytes)",
                                           limits.max_stop_bytes, limits.max_all_stop_bytes));
        }
        request.stop.push_back(text);
    }
}

void read_stop(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    read_stop_strings(fields, limits, request);
    const Json* ids = fields.find("stop_token_ids");
    if (ids == nullptr) return;
    if (ids->size() > limits.max_stop_tokens) {
        return fields.fail("stop_token_ids", fmt::format("at most {} token ids (max_stop_tokens)",
                                                         limits.max_stop_tokens));
    }
    if (!ids->is_array() || !read_tokens(*ids, limits, request.stop_token_ids)) {
        fields.fail("stop_token_ids", fmt::format("expected an array of token ids from 0 to {}",
                                                  limits.vocab_size - 1));
    }
}

void read_lengths(FieldReader& fields, CompletionRequest& request) {
    if (request.endpoint == Endpoint::completions) request.max_tokens = kDefaultCompletionTokens;
    const char* name =
        fields.find("max_completion_tokens") != nullptr ? "max_completion_tokens" : "max_tokens";
    std::int32_t limit = 0;
    fields.integer(name, -1, kMaxInt32, limit);
    if (fields.find(name) != nullptr) {
        if (limit == 0 && request.endpoint == Endpoint::chat)
            return fields.fail(name, "expected at least 1, or -1 for no limit, got 0");
        request.prompt_only = limit == 0;
        request.max_tokens = request.prompt_only ? 1 : std::max(limit, 0);
    }
    fields.integer("min_tokens", 0, kMaxInt32, request.min_tokens);
    if (request.max_tokens > 0 && request.min_tokens > request.max_tokens) {
        fields.fail("min_tokens", fmt::format("{} is more than {} = {}", request.min_tokens, name,
                                              request.max_tokens));
    }
}

void read_stream(FieldReader& fields, CompletionRequest& request, MaybeError& nested) {
    fields.boolean("stream", request.stream);
    const Json* options = fields.find("stream_options");
    if (options == nullptr) return;
    if (!options->is_object()) {
        return fields.fail("stream_options", "expected an object, got " + kind_of(*options));
    }
    FieldReader inner(*options, "stream_options.");
    inner.boolean("include_usage", request.include_usage);
    inner.boolean("continuous_usage_stats", request.continuous_usage);
    request.continuous_usage = request.continuous_usage && request.include_usage;
    nested = inner.error();
}

// Reads llama.cpp's field for drafts, and OpenAI's predicted outputs.
void read_prediction(FieldReader& fields, CompletionRequest& request);

void read_speculation(FieldReader& fields, const RequestLimits& limits,
                      CompletionRequest& request) {
    fields.integer("speculative.n_max", 0, kMaxDraftTokens, request.max_draft_tokens);
    read_prediction(fields, request);
    if (request.prediction.size() > limits.max_prediction_bytes) {
        fields.fail("prediction", fmt::format("at most {} bytes of text (max_prediction_bytes)",
                                              limits.max_prediction_bytes));
    }
}

void read_prediction(FieldReader& fields, CompletionRequest& request) {
    const Json* prediction = fields.find("prediction");
    if (prediction == nullptr) return;
    const auto wrong = [&] {
        fields.fail("prediction",
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
    const Json* early = fields.find("early_stopping");
    if (early == nullptr) return;
    if (early->is_boolean()) {
        beam.early_stopping =
            early->get<bool>() ? core::EarlyStopping::yes : core::EarlyStopping::no;
    } else if (*early == "never") {
        beam.early_stopping = core::EarlyStopping::never;
    } else {
        fields.fail("early_stopping", "expected true, false or \"never\", got " +
                                          early->dump().substr(0, kShownBytes));
    }
}

// Beams are ranked by the model's own log-probabilities.
void check_beam_sampling(FieldReader& fields, const spec::SamplingParams& sampling) {
    const char* both = "cannot be used together with use_beam_search";
    if (sampling.repetition_penalty != 1) fields.fail("repetition_penalty", both);
    if (sampling.frequency_penalty != 0) fields.fail("frequency_penalty", both);
    if (sampling.presence_penalty != 0) fields.fail("presence_penalty", both);
    if (!sampling.logit_bias.empty()) fields.fail("logit_bias", both);
    if (sampling.grammar.present()) {
        fields.fail("use_beam_search", "cannot be used together with a grammar or schema");
    }
}

void read_beam(FieldReader& fields, CompletionRequest& request) {
    bool wanted = false;
    fields.boolean("use_beam_search", wanted);
    core::BeamSearch beam;
    float length_penalty = 1;
    fields.number("length_penalty", -10, 10, length_penalty);
    beam.length_penalty = static_cast<double>(length_penalty);
    read_early_stopping(fields, beam);
    if (wanted) {
        check_beam_sampling(fields, request.sampling);
        if (request.tool_choice.demanded) {
            fields.fail("use_beam_search", "cannot be used together with demanded calls of tools");
        }
        beam.width = request.best_of;
        request.beam = beam;
        return;
    }
    if (length_penalty != 1) fields.fail("length_penalty", "needs use_beam_search to be true");
    if (beam.early_stopping != core::EarlyStopping::no) {
        fields.fail("early_stopping", "needs use_beam_search to be true");
    }
}

void read_choices(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    fields.integer("n", 1, limits.max_n, request.n);
    std::int32_t best_of = 0;
    fields.integer("best_of", 0, limits.max_n, best_of);
    request.best_of = best_of == 0 ? request.n : best_of;
    if (request.best_of < request.n) {
        return fields.fail("best_of", fmt::format("{} is less than n = {}", best_of, request.n));
    }
    read_beam(fields, request);
    if (request.stream && request.made() > request.n) {
        fields.fail("best_of", "cannot be above n with stream: the best are known only at the end");
    }
    const auto prompts =
        static_cast<std::int64_t>(std::max<std::size_t>(1, request.prompts.size()));
    if (prompts * request.best_of > limits.max_choices) {
        fields.fail("n", fmt::format("{} prompts with {} choices each are more than {} choices "
                                     "(max_choices)",
                                     prompts, request.best_of, limits.max_choices));
    }
}

// The text behind the answer, which then fills in.
void read_suffix(FieldReader& fields, CompletionRequest& request) {
    fields.text("suffix", request.suffix);
    if (request.suffix.empty()) return;
    if (request.endpoint == Endpoint::chat) {
        return fields.fail("suffix", "is of prompts, not of messages");
    }
    if (request.echo) fields.fail("suffix", "cannot be used together with echo");
    for (const PlainPrompt& prompt : request.prompts) {
        if (std::holds_alternative<std::string>(prompt)) continue;
        return fields.fail("suffix", "needs a prompt of text, not of token ids");
    }
}

std::string tool_name(const Json& tool) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || function == tool.end() || !function->is_object()) return {};
    const auto name = function->find("name");
    return name != function->end() && name->is_string() ? name->get<std::string>() : "";
}

bool check_tools(FieldReader& fields, const RequestLimits& limits, const Json& tools) {
    if (!tools.is_array()) {
        fields.fail("tools", "expected an array, got " + kind_of(tools));
        return false;
    }
    if (tools.size() > limits.max_tools || tools.dump().size() > limits.max_tools_bytes) {
        fields.fail("tools", fmt::format("at most {} (max_tools), of {} bytes in all "
                                         "(max_tools_bytes)",
                                         limits.max_tools, limits.max_tools_bytes));
        return false;
    }
    for (std::size_t i = 0; i < tools.size(); ++i) {
        const std::string name = tool_name(tools[i]);
        const std::string where = fmt::format("tools[{}].function.name", i);
        if (name.empty()) {
            fields.fail(where, "expected a string that is not empty");
            return false;
        }
        if (name.size() > limits.max_name_bytes) {
            fields.fail(where, too_long_a_name(limits));
            return false;
        }
    }
    return true;
}

// Leaves of the request's tools those that the choice names.
void keep_named(FieldReader& fields, const Json& named, CompletionRequest& request) {
    Json kept = Json::array();
    for (const Json& one : named) {
        const std::string name = tool_name(one);
        const auto known = std::ranges::find_if(
            request.tools, [&](const Json& tool) { return tool_name(tool) == name; });
        if (name.empty() || known == request.tools.end()) {
            return fields.fail("tool_choice", "names no tool of the request: " +
                                                  one.dump().substr(0, kShownBytes));
        }
        kept.push_back(*known);
    }
    request.tools = std::move(kept);
}

// allowed_tools: {"mode": "auto" | "required", "tools": [...]}.
void take_allowed_tools(FieldReader& fields, const Json& choice, CompletionRequest& request) {
    const auto allowed = choice.find("allowed_tools");
    const auto member = [&](const char* name) -> const Json* {
        if (allowed == choice.end() || !allowed->is_object()) return nullptr;
        const auto at = allowed->find(name);
        return at == allowed->end() ? nullptr : &*at;
    };
    const Json* mode = member("mode");
    const Json* tools = member("tools");
    const bool good = mode != nullptr && (*mode == "auto" || *mode == "required") &&
                      tools != nullptr && tools->is_array() && !tools->empty();
    if (!good) {
        return fields.fail("tool_choice.allowed_tools",
                           "expected mode \"auto\" or \"required\", and tools");
    }
    request.tool_choice.demanded = *mode == "required";
    keep_named(fields, *tools, request);
}

void read_tool_choice(FieldReader& fields, const Json& choice, CompletionRequest& request) {
    if (choice == "auto") return;
    if (choice == "none") {
        request.tools = nullptr;
    } else if (choice == "required") {
        request.tool_choice.demanded = true;
    } else if (choice.is_object() && choice.value("type", Json()) == "allowed_tools") {
        take_allowed_tools(fields, choice, request);
    } else if (choice.is_object() && choice.value("type", Json()) == "function") {
        request.tool_choice = {.demanded = true, .several = false};
        keep_named(fields, Json::array({choice}), request);
    } else {
        fields.fail("tool_choice",
                    "expected \"none\", \"auto\", \"required\", or an object of type function or "
                    "allowed_tools, got " +
                        choice.dump().substr(0, kShownBytes));
    }
}

void read_tools(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    for (const char* old : {"functions", "function_call"}) {
        if (fields.find(old) != nullptr) fields.fail(old, "is not supported; use tools");
    }
    fields.boolean("parallel_tool_calls", request.tool_choice.several);
    const Json* tools = fields.find("tools");
    if (tools != nullptr && !check_tools(fields, limits, *tools)) return;
    if (tools != nullptr && !tools->empty()) request.tools = *tools;
    const Json* choice = fields.find("tool_choice");
    if (choice == nullptr) return;
    if (request.tools.is_null() && *choice != "none" && *choice != "auto") {
        return fields.fail("tool_choice", "there are no tools to call");
    }
    read_tool_choice(fields, *choice, request);
    if (!request.tool_choice.demanded) return;
    if (request.ignore_eos) fields.fail("ignore_eos", "demanded calls say where the answer ends");
    if (request.sampling.grammar.present()) {
        fields.fail("tool_choice", "demanded calls leave no room for another output format");
    }
}

void read_chat(FieldReader& fields, Json& body, const RequestLimits& limits,
               CompletionRequest& request, MaybeError& nested) {
    bool logprobs = false;
    fields.boolean("logprobs", logprobs);
    std::int32_t top = 0;
    fields.integer("top_logprobs", 0, limits.max_logprobs, top);
    if (top > 0 && !logprobs) fields.fail("top_logprobs", "needs logprobs to be true");
    if (logprobs) request.sampling.n_logprobs = top;
    fields.boolean("add_generation_prompt", request.add_generation_prompt);
    if (const Json* kwargs = fields.find("chat_template_kwargs")) {
        if (!kwargs->is_object()) {
            return fields.fail("chat_template_kwargs",
                               "expected an object, got " + kind_of(*kwargs));
        }
        if (kwargs->dump().size() > limits.max_kwargs_bytes) {
            return fields.fail(
                "chat_template_kwargs",
                fmt::format("at most {} bytes (max_kwargs_bytes)", limits.max_kwargs_bytes));
        }
        request.kwargs = *kwargs;
    }
    read_thinking(fields, request);
    read_tools(fields, limits, request);
    if (fields.find("messages") == nullptr) return fields.fail("messages", "is required");
    request.messages = std::move(body["messages"]);
    nested = normalise_messages(request.messages, limits);
}

void read_plain(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request) {
    // false is what some clients send for "none".
    const Json* logprobs = fields.find("logprobs");
    if (logprobs != nullptr && *logprobs != false) {
        fields.integer("logprobs", 0, limits.max_logprobs, request.sampling.n_logprobs);
    }
    fields.boolean("echo", request.echo);
    if (request.prompt_only && !request.echo) {
        fields.fail("max_tokens", "expected at least 1, or -1 for no limit, got 0; 0 needs echo");
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
    const Json* metadata = fields.find("metadata");
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
            "metadata",
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
    fields.text("model", name);
    if (name.size() > limits.max_name_bytes) fields.fail("model", too_long_a_name(limits));
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
    fields.boolean("ignore_eos", request.ignore_eos);
    fields.boolean("skip_special_tokens", request.skip_special_tokens);
    std::int32_t vllm_priority = 0;
    fields.integer("priority", -kMaxInt32, kMaxInt32, vllm_priority);
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
