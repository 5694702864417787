#include "node/link_probe.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "wire/codec.h"

namespace helix::node {
namespace {

constexpr int kEmptyPings = 4;
constexpr int kPaddedOut = kEmptyPings;
constexpr int kPaddedIn = kEmptyPings + 1;
constexpr std::uint32_t kSmallBytes = 64U << 10U;
constexpr std::uint32_t kLargeBytes = 2U << 20U;  // for when the small one was too quick to tell
constexpr double kQuick_s = 5e-3;
constexpr base::Duration kTimeout = base::from_ms(2000);
constexpr double kLeast_s = 1e-6;  // a clock's grain

}  // namespace

net::Frame padding_frame(std::uint32_t bytes) {
    static const net::Frame zeros = net::Frame::of(std::string(wire::kMaxPingBytes, '\0'));
    CHECK(bytes <= wire::kMaxPingBytes);
    return {zeros.owner, zeros.bytes.first(bytes)};
}

LinkProbe::LinkProbe(std::int32_t self, std::deque<std::int32_t> targets, Send send)
    : self_(self), targets_(std::move(targets)), send_(std::move(send)) {}

void LinkProbe::start(base::TimePoint now) {
    step_ = 0;
    padding_ = kSmallBytes;
    round_trip_s_ = 1e9;
    target_since_ = now;
    if (!done()) send_next(now);
}

void LinkProbe::send_next(base::TimePoint now) {
    wire::Ping ping{next_id_, step_ == kPaddedIn ? padding_ : 0};
    sent_ = now;
    send_(targets_.front(), ping, step_ == kPaddedOut ? padding_ : 0);
}

void LinkProbe::on_pong(base::TimePoint now, std::uint64_t id) {
    if (done() || id != next_id_) return;  // it answers a Ping to a target that was given up
    ++next_id_;
    const double took = (now - sent_).seconds();
    if (step_ < kEmptyPings) {
        round_trip_s_ = std::min(round_trip_s_, took);
    } else {
        const double padded = std::max(took - round_trip_s_, kLeast_s);
        if (step_ == kPaddedOut && padding_ == kSmallBytes && padded < kQuick_s) {
            padding_ = kLargeBytes;
            send_next(now);
            return;
        }
        (step_ == kPaddedOut ? out_s_ : in_s_) = padded;
    }
    if (step_ == kPaddedIn) {
        const std::int32_t target = targets_.front();
        links_.push_back({self_, target, padding_ / out_s_, round_trip_s_ / 2});
        links_.push_back({target, self_, padding_ / in_s_, round_trip_s_ / 2});
        finish_target(now);
        return;
    }
    ++step_;
    send_next(now);
}

void LinkProbe::finish_target(base::TimePoint now) {
    targets_.pop_front();
    start(now);
}

void LinkProbe::on_time(base::TimePoint now) {
    if (done() || now - target_since_ < kTimeout) return;
    LOG_WARN("no answer from {}; its link is not measured",
             targets_.front() == spec::kCoordinator ? std::string("the coordinator")
                                                    : "worker " + std::to_string(targets_.front()));
    ++next_id_;
    finish_target(now);
}

}  // namespace helix::node
