#include "api/completion/streamed_delivery.h"

#include <utility>

namespace helix::api {

StreamedDelivery::StreamedDelivery(AnswerPlace place, std::unique_ptr<StreamWriter> writer,
                                   std::size_t choices_of_prompt, const Usage& usage,
                                   std::optional<EventNumbers> numbers)
    : place_(std::move(place)),
      writer_(std::move(writer)),
      choices_of_prompt_(choices_of_prompt),
      numbers_(std::move(numbers)),
      last_write_(place_.context.options.clock()) {
    writer_->begin(pending_, usage);
    pending_ = numbered(0, std::move(pending_));
}

Delivery::MaybeError StreamedDelivery::accepted() {
    opened_ = true;
    place_.exchange->begin_stream(200, writer_->content_type(),
                                  {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}});
    place_.memory.sent();
    return emit(std::exchange(pending_, {}));
}

Delivery::MaybeError StreamedDelivery::emit(std::string_view events) {
    if (!opened_) {
        auto error = place_.memory.keep(static_cast<std::int64_t>(events.size()));
        if (!error) pending_ += events;
        return error;
    }
    if (events.empty()) return {};
    last_write_ = place_.context.options.clock();
    place_.exchange->write(events);
    return {};
}

std::string StreamedDelivery::numbered(std::size_t choice, std::string events) {
    return numbers_ ? numbers_->number(choice, events, writer_->ping()) : events;
}

Delivery::MaybeError StreamedDelivery::emit_of(std::size_t choice, std::string events) {
    return emit(numbered(choice, std::move(events)));
}

void StreamedDelivery::on_tick(base::TimePoint now) {
    if (!opened_ || now - last_write_ < place_.context.options.ping_interval) return;
    const std::string_view ping = writer_->ping();
    emit(numbers_ ? ping_between_ids(ping) : ping);
}

Delivery::MaybeError StreamedDelivery::add_prompt_tokens(
    std::size_t prompt, std::span<const core::ProducedToken> tokens) {
    for (std::size_t i = 0; i < choices_of_prompt_; ++i) {
        writer_->add_tokens(prompt * choices_of_prompt_ + i, tokens);
    }
    return {};
}

Delivery::MaybeError StreamedDelivery::add_token(std::size_t choice,
                                                 const core::ProducedToken& token) {
    writer_->add_tokens(choice, {&token, 1});
    return {};
}

Delivery::MaybeError StreamedDelivery::add_parts(std::size_t choice,
                                                 std::vector<text::OutputPart> parts,
                                                 const Progress& progress) {
    std::string events;
    writer_->add_parts(events, choice, std::move(parts), progress);
    return emit_of(choice, std::move(events));
}

Delivery::MaybeError StreamedDelivery::finish(std::size_t choice, const ChoiceEnd& end,
                                              const Progress& progress) {
    std::string events;
    writer_->finish(events, choice, end, progress);
    return emit_of(choice, std::move(events));
}

// Each choice has an end, so all prompts were accepted.
void StreamedDelivery::end(const Usage& usage, const std::vector<std::size_t>& /*shown*/,
                           Leave leave) {
    std::string events;
    writer_->end(events, usage);
    emit_of(0, std::move(events));
    if (numbers_ && numbers_->had_more()) {
        std::string event;
        writer_->error(event, bad_field("Last-Event-ID",
                                        "Last-Event-ID: this answer has fewer events than that"));
        emit(event);
    }
    place_.exchange->end_stream();
    leave();
}

// How far an answer comes before an error is chance, so that the error has no id.
void StreamedDelivery::fail(const ApiError& error) {
    if (!opened_) return place_.context.refuse(*place_.exchange, error);
    std::string event;
    writer_->error(event, error);
    emit(event);
    place_.exchange->end_stream();
    ++place_.context.metrics.http_errors;
}

}  // namespace helix::api
