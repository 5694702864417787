#pragma once

#include <optional>

#include "api/writers/responses_shape.h"

namespace helix::api {

// A stream of /v1/responses: the response begins, its items come one after another, each begun,
// continued and ended by events, and the response ends. The events are numbered.
class ResponsesStream final : public StreamWriter {
  public:
    ResponsesStream(const AnswerHead& head, std::string settings, OnResponse on_response = {})
        : object_(head, std::move(settings)), on_response_(std::move(on_response)) {}

    std::string_view content_type() const override;
    std::string_view ping() const override;
    void begin(std::string& out, const Usage& usage) override;
    void add_tokens(std::size_t choice, std::span<const core::ProducedToken> tokens) override;
    void add_parts(std::string& out, std::size_t choice, std::vector<text::OutputPart> parts,
                   const Progress& progress) override;
    void finish(std::string& out, std::size_t choice, const ChoiceEnd& end,
                const Progress& progress) override;
    void end(std::string& out, const Usage& usage) override;
    void error(std::string& out, const ApiError& error) override;

  private:
    void event(std::string& out, std::string_view type);
    // The same of the item that goes on, up to the next member.
    void item_event(std::string& out, std::string_view type, bool of_content);
    void response_event(std::string& out, std::string_view type, ResponseStatus status,
                        const Usage* usage, const ApiError* error);
    // Goes on with the item of this kind, or ends the last one and begins another.
    void go_on(std::string& out, const text::OutputPart& part);
    void close(std::string& out, ResponseStatus status);
    void close_text(std::string& out);
    bool thinks() const { return std::holds_alternative<text::ReasoningText>(*item_); }

    ResponseObject object_;
    OnResponse on_response_;
    std::int64_t number_ = 0;               // of the next event
    std::optional<text::OutputPart> item_;  // what the item that goes on has so far
    std::string item_id_;
    std::int64_t output_index_ = 0;  // of that item, or of the next one
    std::string output_;             // the items that have ended, with commas between them
};

// A response that is sent whole.
class ResponsesWhole final : public WholeWriter {
  public:
    ResponsesWhole(const AnswerHead& head, std::string settings, OnResponse on_response = {})
        : object_(head, std::move(settings)), on_response_(std::move(on_response)) {}
    std::string write(const WholeAnswer& answer) const override;

  private:
    ResponseObject object_;
    OnResponse on_response_;
};

}  // namespace helix::api
