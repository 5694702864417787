#include "api/completion/whole_delivery.h"

#include <exception>
#include <utility>

#include "api/heavy_work.h"
#include "api/long_answer.h"
#include "base/log.h"

namespace helix::api {
namespace {

// What a log-probability takes in memory, and as JSON.
constexpr std::int64_t kLogprobBytes = 96;
// An answer of at most this many bytes is written at once; a longer one on another thread.
constexpr std::int64_t kShortAnswerBytes = std::int64_t{64} << 10U;

std::int64_t logprob_bytes(const core::ProducedToken& token) {
    return static_cast<std::int64_t>(1 + token.top.size()) * kLogprobBytes;
}

}  // namespace

WholeDelivery::WholeDelivery(AnswerPlace place, std::shared_ptr<const WholeWriter> writer,
                             std::string id, Shape shape)
    : place_(std::move(place)),
      writer_(std::move(writer)),
      id_(std::move(id)),
      shape_(shape),
      choices_(shape.prompts * shape.choices_of_prompt),
      scored_(shape.prompts) {}

Delivery::MaybeError WholeDelivery::add_prompt_tokens(std::size_t prompt,
                                                      std::span<const core::ProducedToken> tokens) {
    std::int64_t bytes = 0;
    for (const core::ProducedToken& token : tokens) bytes += logprob_bytes(token);
    // Each choice shows the prompt's log-probabilities.
    bytes *= static_cast<std::int64_t>(shape_.shown_of_prompt);
    if (auto error = place_.memory.keep(bytes)) return error;
    auto& scored = scored_[prompt];
    if (scored == nullptr) scored = std::make_shared<std::vector<core::ProducedToken>>();
    scored->insert(scored->end(), tokens.begin(), tokens.end());
    return {};
}

Delivery::MaybeError WholeDelivery::add_token(std::size_t choice,
                                              const core::ProducedToken& token) {
    if (auto error = place_.memory.keep(logprob_bytes(token))) return error;
    choices_[choice].tokens.push_back(token);
    return {};
}

Delivery::MaybeError WholeDelivery::add_parts(std::size_t choice,
                                              std::vector<text::OutputPart> parts,
                                              const Progress& /*progress*/) {
    std::size_t bytes = 0;
    for (const text::OutputPart& part : parts) bytes += text::text_bytes(part);
    if (auto error = place_.memory.keep(static_cast<std::int64_t>(bytes))) return error;
    for (text::OutputPart& part : parts) {
        text::append_part(choices_[choice].parts, std::move(part));
    }
    return {};
}

Delivery::MaybeError WholeDelivery::finish(std::size_t choice, const ChoiceEnd& end,
                                           const Progress& /*progress*/) {
    choices_[choice].end = end;
    if (end.reason == core::FinishReason::stop) text::drop_broken_calls(choices_[choice].parts);
    return {};
}

void WholeDelivery::end(const Usage& usage, const std::vector<std::size_t>& shown, Leave leave) {
    WholeAnswer answer;
    answer.usage = usage;
    for (const std::size_t index : shown) {
        WholeChoice& choice = answer.choices.emplace_back(std::move(choices_[index]));
        choice.scored = scored_[index / shape_.choices_of_prompt];
    }
    const std::int64_t bytes = place_.memory.kept_bytes() + shape_.echoed_bytes;
    if (bytes <= kShortAnswerBytes) {
        return send(std::make_shared<const std::string>(writer_->write(answer)), leave);
    }
    // The client may go away meanwhile.
    PreparePool::Job job;
    job.client = client_of(place_.context, place_.exchange->request());
    job.bytes = static_cast<std::size_t>(bytes);
    job.run = [self = shared_from_this(), post = place_.context.post, answer = std::move(answer),
               leave = std::move(leave)] {
        std::shared_ptr<const std::string> body;
        try {
            body = std::make_shared<const std::string>(self->writer_->write(answer));
        } catch (const std::exception& e) {
            LOG_ERROR("{}: {}", self->id_, e.what());
        }
        post([self, body, leave] { self->send(body, leave); });
    };
    place_.context.pool.add_owed(std::move(job));
}

// body is null if there was no memory to write it.
void WholeDelivery::send(std::shared_ptr<const std::string> body, const Leave& leave) {
    auto share = place_.memory.release();
    if (!leave()) return;
    if (body == nullptr) {
        return fail(unavailable("The server had not enough memory to write this answer.", 1));
    }
    send_long(place_.context, place_.exchange, std::move(body), std::move(share));
}

void WholeDelivery::fail(const ApiError& error) {
    place_.context.refuse(*place_.exchange, error);
}

}  // namespace helix::api
