#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_key.h"

namespace helix::api {

// Gives the events of a stream their ids, and leaves out those that the client has already. A
// choice's events are the same each time its tokens are, which is what makes them countable.
class EventNumbers {
  public:
    EventNumbers(const KeyedAnswer& keyed, std::size_t choices);

    // What the client gets of whole events of a choice. Those that equal ping have no number: they
    // say nothing of the answer.
    std::string number(std::size_t choice, std::string_view events, std::string_view ping);
    // Whether the client says that it has events that there were not. Asked when all are there.
    bool had_more() const;

  private:
    void append_id(std::string& out) const;

    std::string fingerprint_;
    std::vector<std::int64_t> had_;
    std::vector<std::int64_t> events_;  // so far, by choice, or as many as the client has
    std::vector<std::int64_t> made_;    // so far, by choice
};

// A ping as it may stand between events with ids. Some clients take the empty line behind a comment
// for the end of an event once they have seen an id.
std::string_view ping_between_ids(std::string_view ping);

}  // namespace helix::api
