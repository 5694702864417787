#include "api/limits.h"

namespace helix::api {

std::string RequestLimits::name_too_long() const {
    return "at most " + std::to_string(max_name_bytes) + " bytes (max_name_bytes)";
}

std::vector<LimitRow> limit_table() {
    const RequestLimits r;
    const ServerLimits s;
    const auto n = [](auto value) { return static_cast<std::int64_t>(value); };
    return {
        {"max_json_values", n(r.max_json_values), "values and member names in a body"},
        {"max_name_bytes", n(r.max_name_bytes), "`model`, the name of a tool or schema"},
        {"max_user_bytes", n(r.max_user_bytes), "`user`"},
        {"max_metadata", n(r.max_metadata), "members of `metadata`"},
        {"max_metadata_name_bytes", n(r.max_metadata_name_bytes), "the name of such a member"},
        {"max_metadata_bytes", n(r.max_metadata_bytes), "its value"},
        {"max_messages", n(r.max_messages), "`messages`"},
        {"max_parts", n(r.max_parts), "parts of a message's `content`"},
        {"max_tool_calls", n(r.max_tool_calls), "`tool_calls` of a message"},
        {"max_tools", n(r.max_tools), "`tools`"},
        {"max_tools_bytes", n(r.max_tools_bytes), "`tools` as JSON, bytes"},
        {"max_kwargs_bytes", n(r.max_kwargs_bytes), "`chat_template_kwargs` as JSON, bytes"},
        {"max_prompts", n(r.max_prompts), "prompts of a request"},
        {"max_inputs", n(r.max_inputs),
         "inputs of a request for embeddings, texts of one for ranking"},
        {"max_n", n(r.max_n), "`n`, `best_of`"},
        {"max_choices", n(r.max_choices), "prompts times `best_of` (or `n`)"},
        {"max_echoed_bytes", n(r.max_echoed_bytes), "`echo`: prompts' text times choices, bytes"},
        {"max_stop_strings", n(r.max_stop_strings), "`stop`"},
        {"max_stop_bytes", n(r.max_stop_bytes), "one string of `stop`, bytes"},
        {"max_all_stop_bytes", n(r.max_all_stop_bytes), "all strings of `stop`, bytes"},
        {"max_stop_tokens", n(r.max_stop_tokens), "`stop_token_ids`"},
        {"max_biases", n(r.max_biases), "members of `logit_bias`"},
        {"max_logprobs", n(r.max_logprobs), "`logprobs`, `top_logprobs`"},
        {"max_streamed_prompt_logprobs", r.max_streamed_prompt_logprobs,
         "`echo` with `logprobs` and `stream`: the prompts' log-probabilities times choices"},
        {"max_prediction_bytes", n(r.max_prediction_bytes), "text of `prediction`, bytes"},
        {"max_answer_bytes", r.max_answer_bytes, "an answer that is not streamed, bytes"},
        {"max_event_readers", n(s.max_event_readers), "readers of `/helix/events` at once"},
        {"max_requests", s.max_requests, "requests of all clients that are not over"},
        {"max_request_bytes", s.max_request_bytes, "what those hold in memory, bytes"},
        {"max_preparing", n(s.max_preparing), "requests that wait to be read and tokenised"},
    };
}

}  // namespace helix::api
