#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What one request may ask for, and what all together may hold. Whatever is over a limit is refused
// with an answer that names it; docs/api.md has this table.

namespace helix::api {

// The limits of one request. They are counts and bytes, so that a request ends alike on every
// machine.
struct RequestLimits {
    // From the model that is served.
    std::int32_t vocab_size = 0;
    std::int32_t context_length = 0;

    // JSON of a body.
    std::size_t max_json_values = std::size_t{1} << 20U;  // names of members count, too
    // Text fields.
    std::size_t max_name_bytes = 256;   // model, name of a tool, of a schema
    std::string name_too_long() const;  // says so
    std::size_t max_user_bytes = 1024;
    std::size_t max_prediction_bytes = std::size_t{256} << 10U;
    // Chat.
    std::size_t max_messages = 8192;
    std::size_t max_parts = 1024;                         // of the content of one message
    std::size_t max_tool_calls = 256;                     // of one message
    std::size_t max_tools = 256;                          // and
    std::size_t max_tools_bytes = std::size_t{1} << 20U;  // of their JSON
    std::size_t max_kwargs_bytes = std::size_t{64} << 10U;
    // Completions.
    std::size_t max_prompts = 128;
    std::size_t max_echoed_bytes = std::size_t{16} << 20U;  // of all choices
    std::size_t max_inputs = 2048;  // of a request for embeddings or ranking
    // Both.
    std::int32_t max_n = 128;         // choices for one prompt,
    std::int64_t max_choices = 1024;  // and for all
    std::size_t max_stop_strings = 64;
    std::size_t max_stop_bytes = std::size_t{4} << 10U;       // of one,
    std::size_t max_all_stop_bytes = std::size_t{64} << 10U;  // and of all
    std::size_t max_stop_tokens = 1024;
    std::size_t max_biases = 4096;  // of logit_bias
    std::int32_t max_logprobs = 20;
    // Log-probabilities of a prompt in a stream: its tokens, times those asked for with each, times
    // choices.
    std::int64_t max_streamed_prompt_logprobs = 16'384;
    std::size_t max_metadata = 16;
    std::size_t max_metadata_name_bytes = 64;
    std::size_t max_metadata_bytes = 512;  // of one value
    // What is kept of an answer until it may be sent; of an answer that is not streamed this is
    // all.
    std::int64_t max_answer_bytes = std::int64_t{64} << 20U;
};

// The limits of the process, over all requests that are not over yet.
struct ServerLimits {
    std::int64_t max_requests = 16'384;
    std::int64_t max_request_bytes = std::int64_t{1} << 30U;
    // Requests that wait for a thread that prepares them.
    std::size_t max_preparing = 1024;
    std::size_t max_event_readers = 64;  // of GET /helix/events
    int prepare_threads = 0;  // 0 = as many as the machine has cores to spare: from 2 to 8
};

// One row for each limit above: what a refusal calls it, its value, and what it limits.
struct LimitRow {
    std::string name;
    std::int64_t value = 0;
    std::string of;
};
std::vector<LimitRow> limit_table();

}  // namespace helix::api
