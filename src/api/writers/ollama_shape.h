#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/writers/answer_writer.h"

// What the streamed and the whole answers of Ollama's two endpoints have in common: objects of
// which the last one says how the answer ended. An answer has one choice.

namespace helix::api {

enum class OllamaForm { chat, generate };

// A time as Ollama writes it: 2026-01-31T12:00:00Z.
std::string ollama_time(std::int64_t unix_seconds);

// Writes the objects of one answer, each without a line end.
class OllamaObjects {
  public:
    OllamaObjects(OllamaForm form, const AnswerHead& head);

    // Of parts of an answer that goes on. Calls must be whole.
    void append(std::string& out, const std::vector<text::OutputPart>& parts) const;
    // The last one, with what was not sent yet.
    void append_last(std::string& out, const std::vector<text::OutputPart>& parts,
                     const ChoiceEnd& end, const Usage& usage) const;
    // The answer to who only wants the model to be there.
    std::string loaded() const;

  private:
    void append_parts(std::string& out, const std::vector<text::OutputPart>& parts) const;

    OllamaForm form_;
    std::string head_;  // up to what the parts make
};

}  // namespace helix::api
