#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/completion/delivery.h"
#include "api/completion/event_numbers.h"

namespace helix::api {

// Streams an answer as its writer writes it. What comes before all prompts are accepted waits.
class StreamedDelivery final : public Delivery {
  public:
    StreamedDelivery(AnswerPlace place, std::unique_ptr<StreamWriter> writer,
                     std::size_t choices_of_prompt, const Usage& usage,
                     std::optional<EventNumbers> numbers);

    MaybeError accepted() override;
    MaybeError add_prompt_tokens(std::size_t prompt,
                                 std::span<const core::ProducedToken> tokens) override;
    MaybeError add_token(std::size_t choice, const core::ProducedToken& token) override;
    MaybeError add_parts(std::size_t choice, std::vector<text::OutputPart> parts,
                         const Progress& progress) override;
    MaybeError finish(std::size_t choice, const ChoiceEnd& end, const Progress& progress) override;
    void end(const Usage& usage, const std::vector<std::size_t>& shown, Leave leave) override;
    void fail(const ApiError& error) override;
    void drop() override { place_.memory.release(); }
    void on_tick(base::TimePoint now) override;

  private:
    MaybeError emit(std::string_view events);
    MaybeError emit_of(std::size_t choice, std::string events);
    std::string numbered(std::size_t choice, std::string events);

    AnswerPlace place_;
    std::unique_ptr<StreamWriter> writer_;
    std::size_t choices_of_prompt_;
    std::optional<EventNumbers> numbers_;  // absent: the events have no ids
    std::string pending_;                  // what waits
    base::TimePoint last_write_;
    bool opened_ = false;
};

}  // namespace helix::api
