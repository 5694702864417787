#pragma once

#include <string_view>

#include "text/output/part_sink.h"
#include "text/tool_calls/tool_schemas.h"

namespace helix::text {

// What a parser of calls works with; both outlive it.
struct CallContext {
    PartSink& sink;
    const ToolSchemas& tools;
};

// Reads the calls of tools out of the text of one answer, in one model family's form, and tells the
// sink what is a call and what is content. Text comes byte by byte, so that nothing depends on how
// it was cut. A name and arguments are told as soon as it is sure that a call has begun; a call
// that turns out to be malformed is content, whole (PartSink::give_up).
class CallParser {
  public:
    virtual ~CallParser() = default;
    virtual void push(char byte) = 0;
    // The text ends. cut: because of its length, so that a call that has begun stays what it is;
    // otherwise what is unfinished is content.
    virtual void finish(bool cut) = 0;
};

// Where a call is unfinished when its text ends.
inline void end_unfinished(PartSink& sink, std::string_view raw, bool cut) {
    if (!(cut && sink.calling())) sink.give_up(raw);
}

}  // namespace helix::text
