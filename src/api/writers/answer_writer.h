#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "base/time.h"
#include "core/protocol/messages.h"
#include "text/output/output_part.h"

// The seam between an answer's life (api/completion/) and its bytes. A protocol has one writer for
// answers that are streamed and one for those that are sent whole; neither decides anything about
// the answer. api/writers/make_writers.h picks them.

namespace helix::api {

// How long an answer took so far.
struct AnswerTimes {
    base::Duration all;      // since its request arrived
    base::Duration waiting;  // until it had a pipeline
    base::Duration prompt;   // from there to its first token
    base::Duration answer;   // from the first token to the last
};

struct Usage {
    std::int64_t prompt_tokens = 0;
    std::int64_t cached_tokens = 0;  // prompt tokens that came from the prefix cache
    std::int64_t completion_tokens = 0;
    std::int64_t reasoning_tokens = 0;  // of those
    AnswerTimes times = {};             // of the first choice
};

// What an answer says of itself.
struct AnswerHead {
    std::string id;
    std::int64_t created = 0;  // Unix seconds
    std::string model;         // by the name that the request used
    std::string request_id;    // of the HTTP request
};

// How far an answer is.
struct Progress {
    Usage usage;                     // of all choices so far
    std::int64_t choice_tokens = 0;  // of the choice that is written of
};

// How a choice ended.
struct ChoiceEnd {
    core::FinishReason reason = core::FinishReason::stop;  // or length
    std::string stop_string = {};                          // the one that ended it; "" = none did
};

// Writes one streamed answer. Each method appends to out what the client gets now, which may be
// nothing: a writer may keep what it is told until more comes. Choices are counted over all prompts
// of a request, and mix.
class StreamWriter {
  public:
    virtual ~StreamWriter() = default;
    virtual std::string_view content_type() const = 0;
    // What keeps the connection open while there is nothing to say.
    virtual std::string_view ping() const = 0;

    // Before all others.
    virtual void begin(std::string& out, const Usage& usage) = 0;
    // Tokens whose log-probabilities were asked for: of the choice, or of its prompt. They go out
    // with the text that they are part of, which comes next.
    virtual void add_tokens(std::size_t choice, std::span<const core::ProducedToken> tokens) = 0;
    // The choice has another token, which shows these parts, or none yet.
    virtual void add_parts(std::string& out, std::size_t choice,
                           std::vector<text::OutputPart> parts, const Progress& progress) = 0;
    // Nothing comes of the choice any more.
    virtual void finish(std::string& out, std::size_t choice, const ChoiceEnd& end,
                        const Progress& progress) = 0;
    // All choices have ended.
    virtual void end(std::string& out, const Usage& usage) = 0;
    // The answer breaks off here, in place of end().
    virtual void error(std::string& out, const ApiError& error) = 0;
};

// One choice of an answer that is sent whole.
struct WholeChoice {
    std::vector<text::OutputPart> parts;
    // If log-probabilities are asked for: those of the prompt but for its first token, which has
    // none, and those of the answer.
    std::shared_ptr<const std::vector<core::ProducedToken>> scored;  // null = none
    std::vector<core::ProducedToken> tokens;
    ChoiceEnd end;
};

struct WholeAnswer {
    std::vector<WholeChoice> choices;  // those that are shown, in order
    Usage usage;
};

// Writes an answer that is sent whole. For any thread: it is long work where there are many choices
// or log-probabilities.
class WholeWriter {
  public:
    virtual ~WholeWriter() = default;
    virtual std::string write(const WholeAnswer& answer) const = 0;
};

}  // namespace helix::api
