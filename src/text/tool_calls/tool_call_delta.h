#pragma once

#include <cstdint>
#include <string>

namespace helix::text {

// The next piece of a call of a tool in an answer, as it is streamed.
struct ToolCallDelta {
    std::int32_t index = 0;  // of the call among those of its answer
    std::string id;          // in the first piece of a call, "" in the others
    std::string name;        // of the tool; in the first piece of a call, "" in the others
    std::string arguments;   // joined over all pieces they are the text of a JSON object
    // In the last piece. A call without one was cut off, or broke off: then its text follows as
    // content, since it is no call after all.
    bool complete = false;
};

}  // namespace helix::text
