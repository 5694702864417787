#include "net/zmtp_meter.h"

#include <algorithm>

#include <fmt/format.h>

namespace helix::net {

using base::invalid;
using base::Ok;
using base::Status;

namespace {

constexpr int kGreetingBytes = 64;
constexpr int kLastOfSignature = 9;
constexpr int kMajorVersion = 10;
constexpr std::uint8_t kMore = 1;
constexpr std::uint8_t kLong = 2;
constexpr std::uint8_t kCommand = 4;

}  // namespace

Status ZmtpMeter::on_greeting(std::uint8_t byte) {
    const int at = greeting_bytes_++;
    if (at == 0 && byte != 0xFF) return invalid("it does not speak ZMTP");
    if (at == kLastOfSignature && byte != 0x7F) return invalid("it does not speak ZMTP");
    if (at == kMajorVersion && byte < 3) return invalid("it speaks a ZMTP before version 3");
    if (greeting_bytes_ == kGreetingBytes) state_ = State::flags;
    return Ok{};
}

Status ZmtpMeter::on_flags(std::uint8_t flags) {
    const bool bad = (flags & ~(kMore | kLong | kCommand)) != 0;
    if (bad || ((flags & kCommand) != 0 && (flags & kMore) != 0)) {
        return invalid(fmt::format("it sent a frame with the flags {:#x}", flags));
    }
    flags_ = flags;
    size_ = 0;
    size_bytes_left_ = (flags & kLong) != 0 ? 8 : 1;
    state_ = State::size;
    return Ok{};
}

Status ZmtpMeter::on_size() {
    if ((flags_ & kCommand) != 0) {
        if (size_ > static_cast<std::uint64_t>(limits_.max_command_bytes)) {
            return invalid(fmt::format("it sent a command of {} bytes, at most {} are taken", size_,
                                       limits_.max_command_bytes));
        }
    } else {
        if (size_ > static_cast<std::uint64_t>(limits_.max_frame_bytes)) {
            return invalid(fmt::format("it sent a frame of {} bytes, at most {} are taken", size_,
                                       limits_.max_frame_bytes));
        }
        part_bytes_ += static_cast<std::int64_t>(size_);
        if (++parts_ > limits_.max_parts) {
            return invalid(
                fmt::format("it sent a message of more than {} parts", limits_.max_parts));
        }
        if (part_bytes_ > limits_.max_message_bytes) {
            return invalid(
                fmt::format("it sent a message of more than {} bytes", limits_.max_message_bytes));
        }
        if ((flags_ & kMore) == 0) {
            ++messages_;
            parts_ = 0;
            part_bytes_ = 0;
        }
    }
    content_left_ = size_;
    state_ = size_ > 0 ? State::content : State::flags;
    return Ok{};
}

Status ZmtpMeter::pass(std::span<const std::byte> data) {
    while (!data.empty()) {
        if (state_ == State::content) {
            const auto n =
                static_cast<std::size_t>(std::min<std::uint64_t>(content_left_, data.size()));
            content_left_ -= n;
            data = data.subspan(n);
            if (content_left_ == 0) state_ = State::flags;
            continue;
        }
        const auto byte = static_cast<std::uint8_t>(data.front());
        data = data.subspan(1);
        if (state_ == State::greeting) {
            TRY_VOID(on_greeting(byte));
        } else if (state_ == State::flags) {
            TRY_VOID(on_flags(byte));
        } else {
            size_ = (size_ << 8U) | byte;
            if (--size_bytes_left_ == 0) TRY_VOID(on_size());
        }
    }
    return Ok{};
}

}  // namespace helix::net
