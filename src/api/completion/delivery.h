#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/completion/answer_memory.h"
#include "api/context.h"
#include "api/writers/answer_writer.h"
#include "base/time.h"
#include "net/http_server.h"

// How the parts of an answer reach its client: as they come, or all at once.

namespace helix::api {

// To whom an answer goes, and what may be kept of it meanwhile.
struct AnswerPlace {
    ApiContext& context;
    std::shared_ptr<net::HttpExchange> exchange;
    AnswerMemory memory;
};

// Choices are counted over all prompts. An error that a method returns ends the answer: the caller
// is to hand it to fail().
class Delivery {
  public:
    virtual ~Delivery() = default;
    using MaybeError = std::optional<ApiError>;

    // The service has accepted all prompts, so that there will be an answer.
    virtual MaybeError accepted() = 0;
    // Log-probabilities of the next tokens of a prompt, and of a choice's next token.
    virtual MaybeError add_prompt_tokens(std::size_t prompt,
                                         std::span<const core::ProducedToken> tokens) = 0;
    virtual MaybeError add_token(std::size_t choice, const core::ProducedToken& token) = 0;
    // The choice has one more token or ends, and shows these parts of it, if any.
    virtual MaybeError add_parts(std::size_t choice, std::vector<text::OutputPart> parts,
                                 const Progress& progress) = 0;
    virtual MaybeError finish(std::size_t choice, const ChoiceEnd& end,
                              const Progress& progress) = 0;

    // Called when the last bytes of the answer are ready, perhaps after end() has returned. False
    // if the answer has ended otherwise meanwhile; then nothing is sent any more.
    using Leave = std::function<bool()>;
    // All choices have ended; shown are those that the client gets, in order, of an answer that is
    // sent whole.
    virtual void end(const Usage& usage, const std::vector<std::size_t>& shown, Leave leave) = 0;
    // Ends the answer with an error, in the way that is left.
    virtual void fail(const ApiError& error) = 0;
    // Gives back the memory of what will not be sent.
    virtual void drop() = 0;
    virtual void on_tick(base::TimePoint now) = 0;
};

}  // namespace helix::api
