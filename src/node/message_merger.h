#pragma once

#include <deque>
#include <vector>

#include "core/protocol/messages.h"

namespace helix::node {

// Messages to one receiver, in order, with neighbours of one kind joined. What arrived or was
// produced together stays together, so that requests which travel together are batched together.
class MessageMerger {
  public:
    void add(core::WorkerMessage message);
    std::vector<core::WorkerMessage> take() { return std::exchange(messages_, {}); }
    bool empty() const { return messages_.empty(); }

  private:
    std::vector<core::WorkerMessage> messages_;
};

template <typename T>
void append_to(std::vector<T>& to, std::vector<T>&& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

inline void MessageMerger::add(core::WorkerMessage message) {
    if (!messages_.empty() && messages_.back().index() == message.index()) {
        if (auto* inputs = std::get_if<core::StageInputs>(&message)) {
            append_to(std::get<core::StageInputs>(messages_.back()).inputs,
                      std::move(inputs->inputs));
            return;
        }
        if (auto* freed = std::get_if<core::FreeSequences>(&message)) {
            append_to(std::get<core::FreeSequences>(messages_.back()).keys, std::move(freed->keys));
            return;
        }
    }
    messages_.push_back(std::move(message));
}

}  // namespace helix::node
