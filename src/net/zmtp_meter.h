#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace helix::net {

struct ZmtpLimits {
    std::int64_t max_frame_bytes = std::int64_t{160} << 20;    // of one part
    std::int64_t max_message_bytes = std::int64_t{320} << 20;  // of all parts of a message
    int max_parts = 4;
    std::int64_t max_command_bytes = std::int64_t{64} << 10;
};

// Watches what a peer sends over ZMTP 3 (RFC 23) before libzmq sees it, since libzmq keeps all
// parts of a message until its last one is there, however many there are. It has no clock and no
// socket, and keeps nothing but counts.
class ZmtpMeter {
  public:
    explicit ZmtpMeter(const ZmtpLimits& limits) : limits_(limits) {}

    // Takes the next bytes of the stream. Error invalid: they are no ZMTP, or over a limit, which
    // is named. A frame is refused by its announced size, before it comes. Nothing may follow an
    // error.
    base::Status pass(std::span<const std::byte> data);

    std::uint64_t messages() const {
        return messages_;
    }  // messages that have begun their last part

  private:
    base::Status on_greeting(std::uint8_t byte);
    base::Status on_flags(std::uint8_t flags);
    base::Status on_size();

    ZmtpLimits limits_;
    int greeting_bytes_ = 0;
    enum class State { greeting, flags, size, content } state_ = State::greeting;
    std::uint8_t flags_ = 0;
    int size_bytes_left_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t content_left_ = 0;
    int parts_ = 0;                // parts of the message under way
    std::int64_t part_bytes_ = 0;  // bytes of these parts
    std::uint64_t messages_ = 0;
};

}  // namespace helix::net
