#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_part.h"

namespace helix::text {

// How ids of calls look where the model says none.
enum class CallIds : std::uint8_t {
    call,           // "call_" and 24 letters or digits
    nine_alphanum,  // what Mistral's templates take
};

// What parsers say of an answer, made into parts. Blanks beside a call or a thought belong to the
// model's format and are left out.
class PartSink {
  public:
    // Equal seeds give equal ids.
    PartSink(CallIds ids, std::uint64_t id_seed) : ids_(ids), id_seed_(id_seed) {}

    // Where parts go from now on.
    void write_to(std::vector<OutputPart>& parts) { parts_ = &parts; }

    void content(std::string_view text);
    void reasoning(std::string_view text);
    // A thought begins or ends here; also what follows another message of the same kind.
    void begin_reasoning();
    void end_reasoning();
    // What follows is a text of its own: a blank line comes before it.
    void new_paragraph();

    // With an empty id the sink makes one.
    void begin_call(std::string_view name, std::string_view id = {});
    void arguments(std::string_view text);
    void end_call();
    // What seemed to be a call is none: its text, which may have begun a call, is content.
    void give_up(std::string_view raw);
    // Whether a call has begun and not ended.
    bool calling() const { return calling_; }
    std::int32_t calls() const { return next_call_; }

    // The answer ends here.
    void finish();

  private:
    // A kind of text: blanks at its end wait until more of it comes.
    struct Run {
        std::string blanks;
        bool at_edge = false;  // blanks are left out until text comes
        bool shown = false;    // some of it
    };
    static std::string settle(Run& run, std::string_view text);
    std::string new_id() const;
    void add(OutputPart part) { append_part(*parts_, std::move(part)); }

    CallIds ids_;
    std::uint64_t id_seed_;
    std::vector<OutputPart>* parts_ = nullptr;
    Run content_;
    Run reasoning_;
    std::string before_call_;  // blanks that would be content if there is no call
    std::int32_t next_call_ = 0;
    bool calling_ = false;
};

}  // namespace helix::text
