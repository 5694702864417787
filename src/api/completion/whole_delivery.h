#pragma once

#include <cstdint>
#include <string>

#include "api/completion/delivery.h"

namespace helix::api {

// Keeps an answer until it can be sent whole.
class WholeDelivery final : public Delivery, public std::enable_shared_from_this<WholeDelivery> {
  public:
    struct Shape {
        std::size_t prompts = 1;
        std::size_t choices_of_prompt = 1;  // that are made
        std::size_t shown_of_prompt = 1;
        std::int64_t echoed_bytes = 0;  // what the writer adds of the prompts
    };
    // id: the answer's, for the log.
    WholeDelivery(AnswerPlace place, std::shared_ptr<const WholeWriter> writer, std::string id,
                  Shape shape);

    MaybeError accepted() override { return {}; }
    MaybeError add_prompt_tokens(std::size_t prompt,
                                 std::span<const core::ProducedToken> tokens) override;
    MaybeError add_token(std::size_t choice, const core::ProducedToken& token) override;
    MaybeError add_parts(std::size_t choice, std::vector<text::OutputPart> parts,
                         const Progress& progress) override;
    MaybeError finish(std::size_t choice, const ChoiceEnd& end, const Progress& progress) override;
    void end(const Usage& usage, const std::vector<std::size_t>& shown, Leave leave) override;
    void fail(const ApiError& error) override;
    void drop() override { place_.memory.release(); }
    void on_tick(base::TimePoint /*now*/) override {}

  private:
    void send(std::shared_ptr<const std::string> body, const Leave& leave);

    AnswerPlace place_;
    std::shared_ptr<const WholeWriter> writer_;
    std::string id_;
    Shape shape_;
    std::vector<WholeChoice> choices_;
    // Log-probabilities, by prompt; null = none.
    std::vector<std::shared_ptr<std::vector<core::ProducedToken>>> scored_;
};

}  // namespace helix::api
