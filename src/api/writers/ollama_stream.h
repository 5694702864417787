#pragma once

#include "api/writers/ollama_shape.h"

namespace helix::api {

// A stream of Ollama's endpoints: an object on a line for what each token shows. A call of a tool
// comes as a whole.
class OllamaStream final : public StreamWriter {
  public:
    OllamaStream(OllamaForm form, const AnswerHead& head) : objects_(form, head) {}

    std::string_view content_type() const override { return "application/x-ndjson"; }
    // There is no line that says nothing.
    std::string_view ping() const override { return {}; }
    void begin(std::string& out, const Usage& usage) override;
    void add_tokens(std::size_t choice, std::span<const core::ProducedToken> tokens) override;
    void add_parts(std::string& out, std::size_t choice, std::vector<text::OutputPart> parts,
                   const Progress& progress) override;
    void finish(std::string& out, std::size_t choice, const ChoiceEnd& end,
                const Progress& progress) override;
    void end(std::string& out, const Usage& usage) override;
    void error(std::string& out, const ApiError& error) override;

  private:
    void line(std::string& out, const text::OutputPart& part) const;
    // Tells the call that was kept, if it is whole or the answer is cut off here.
    void tell_call(std::string& out, bool cut);

    OllamaObjects objects_;
    std::vector<text::OutputPart> call_;  // the call that goes on; none or one
};

// Ollama's answer that is sent whole.
class OllamaWhole final : public WholeWriter {
  public:
    OllamaWhole(OllamaForm form, const AnswerHead& head) : objects_(form, head) {}
    std::string write(const WholeAnswer& answer) const override;

  private:
    OllamaObjects objects_;
};

}  // namespace helix::api
