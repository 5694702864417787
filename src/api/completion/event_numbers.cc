#include "api/completion/event_numbers.h"

#include "api/json_text.h"
#include "base/check.h"

namespace helix::api {
namespace {

constexpr std::string_view kEventEnd = "\n\n";

}  // namespace

EventNumbers::EventNumbers(const KeyedAnswer& keyed, std::size_t choices)
    : fingerprint_(keyed.fingerprint), had_(keyed.had), made_(choices) {
    had_.resize(choices);
    events_ = had_;
}

std::string EventNumbers::number(std::size_t choice, std::string_view events,
                                 std::string_view ping) {
    std::string out;
    bool sent = true;
    while (!events.empty()) {
        const std::size_t end = events.find(kEventEnd);
        CHECK(end != std::string_view::npos);
        const std::string_view event = events.substr(0, end + kEventEnd.size());
        events.remove_prefix(event.size());
        if (event != ping) {
            sent = ++made_[choice] > had_[choice];
            if (sent) {
                events_[choice] = made_[choice];
                append_id(out);
            }
        }
        if (sent) out += event;
    }
    return out;
}

void EventNumbers::append_id(std::string& out) const {
    out += "id: ";
    out += fingerprint_;
    char before = '-';
    for (const std::int64_t count : events_) {
        out += before;
        append_json_number(out, count);
        before = '.';
    }
    out += '\n';
}

bool EventNumbers::had_more() const {
    for (std::size_t i = 0; i < had_.size(); ++i) {
        if (had_[i] > made_[i]) return true;
    }
    return false;
}

std::string_view ping_between_ids(std::string_view ping) {
    if (ping.starts_with(':') && ping.ends_with(kEventEnd)) ping.remove_suffix(1);
    return ping;
}

}  // namespace helix::api
