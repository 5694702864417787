#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"
#include "api/limits.h"

// The lines of batch files (OpenAI's Batch API): requests that go in and answers that come out.

namespace helix::api {

// What is wrong with a batch's input, as the batch object lists it.
struct BatchProblem {
    std::string code;
    std::string message;
    std::string param;      // "" = null
    std::int64_t line = 0;  // 0 = the file as a whole
};
nlohmann::json to_json(const BatchProblem& problem);

// A line {"custom_id","method":"POST","url","body"} without its body.
struct LineHead {
    std::string custom_id;
    std::string model;  // "" = none named
};
struct LineRequest {
    LineHead head;
    nlohmann::ordered_json body;
};

// Whether requests to this path ("/v1/completions") may come in a batch.
bool is_batch_endpoint(std::string_view path);
std::string list_batch_endpoints();

// Goes through the line once and keeps nothing of its body, however deep or full that is: what a
// body asks for is judged when it runs. A problem's line is left 0; head is usable only when there
// is none.
std::optional<BatchProblem> read_head(std::string_view text, std::string_view endpoint,
                                      LineHead& head);

// Reads a line whose head was read. The error is the line's answer: its body is over a limit.
std::optional<ApiError> read_line(std::string_view text, const RequestLimits& limits,
                                  LineRequest& request);

// Makes the body that of a request which runs behind all others that wait, and which says the same
// however often it is run: if it names no seed it gets one, made of the batch's id and the line's.
// The error is the line's answer: it asks for what a batch cannot give.
std::optional<ApiError> prepare_line(std::string_view batch, LineRequest& request);

// The line of the output or error file, without its line end. body is JSON.
std::string answer_line(std::string_view batch, std::int64_t line, std::string_view custom_id,
                        int status, std::string_view request_id, std::string_view body);
// The line for a request that was never run. code is "batch_expired" or "batch_cancelled".
std::string not_run_line(std::string_view batch, std::int64_t line, std::string_view custom_id,
                         std::string_view code, std::string_view message);

}  // namespace helix::api
