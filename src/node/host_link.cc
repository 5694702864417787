#include "node/host_link.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/log.h"
#include "net/key.h"
#include "net/zmq_transport.h"
#include "node/clock.h"
#include "node/link_probe.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr const char* kLoopbackDomain = "host-link";
constexpr int kEmptyTurns = 20;
constexpr int kFullTurns = 6;
constexpr std::uint32_t kTurnBytes = 2U << 20U;
constexpr base::Duration kMeasuredWithin = base::from_ms(5000);

// Two ends of a connection of this process to itself; what comes to the one is answered with
// nothing.
class Loopback {
  public:
    static Result<std::unique_ptr<Loopback>> open(bool with_keys) {
        std::unique_ptr<Loopback> made(new Loopback);
        TRY(made->context_, net::ZmqContext::create());
        std::optional<net::KeyPair> keys;
        if (with_keys) {
            keys = net::make_key_pair();
            made->context_->allow(kLoopbackDomain,
                                  [own = keys->public_key](auto key) { return key == own; });
        }
        TRY(made->there_, net::RouterSocket::create(made->context_, keys, kLoopbackDomain));
        TRY(const std::string endpoint, made->there_->bind("tcp://127.0.0.1:0"));
        TRY(made->here_, net::DealerSocket::connect(made->context_, endpoint, keys,
                                                    with_keys ? keys->public_key : ""));
        return made;
    }

    // Seconds until so many bytes have arrived and their answer is back.
    Result<double> turn(std::uint32_t bytes) {
        const base::TimePoint sent = now();
        TRY_VOID(here_->send(net::Frame::of(std::string("turn")), padding_frame(bytes)));
        while (now() < until_) {
            net::ZmqSocket* const both[] = {here_.get(), there_.get()};
            net::wait(both, -1, until_ - now());
            if (const auto got = there_->receive()) {
                there_->admit(got->from);
                TRY_VOID(there_->send(got->from, net::Frame::of(std::string("back"))));
            }
            if (here_->receive()) return (now() - sent).seconds();
        }
        return Error{Errc::unavailable, "this machine's loopback does not answer"};
    }

  private:
    Loopback() = default;

    base::TimePoint until_ = now() + kMeasuredWithin;
    std::shared_ptr<net::ZmqContext> context_;
    std::unique_ptr<net::RouterSocket> there_;
    std::unique_ptr<net::DealerSocket> here_;
};

Result<HostLink> measure_loopback(bool with_keys) {
    TRY(const auto loopback, Loopback::open(with_keys));
    double empty = 1e9;
    double full = 1e9;
    for (int i = 0; i <= kEmptyTurns; ++i) {
        TRY(const double took, loopback->turn(0));
        if (i > 0) empty = std::min(empty, took);  // the first one connects
    }
    for (int i = 0; i < kFullTurns; ++i) {
        TRY(const double took, loopback->turn(kTurnBytes));
        full = std::min(full, took);
    }
    // On a busy machine the empty turns may have taken as long as the full ones.
    return HostLink{kTurnBytes / std::max(full - empty, full / 2), empty / 2};
}

}  // namespace

std::optional<HostLink> host_link(bool with_keys) {
    struct Measured {
        std::mutex mutex;
        std::optional<Result<HostLink>> link;
    };
    static std::array<Measured, 2> all;  // without keys, with keys
    Measured& one = all.at(with_keys ? 1 : 0);
    const std::lock_guard lock(one.mutex);
    if (!one.link.has_value()) {
        one.link = measure_loopback(with_keys);
        if (one.link->ok()) {
            LOG_INFO(
                "measured: {:.2f} GB/s and {:.0f} us from worker to worker on one machine, by "
                "loopback",
                (*one.link)->bandwidth_bytes_per_s / 1e9, (*one.link)->latency_s * 1e6);
        } else {
            LOG_WARN("links between workers of this machine are probed one by one: {}",
                     one.link->error().message);
        }
    }
    return one.link->ok() ? std::optional<HostLink>(**one.link) : std::nullopt;
}

}  // namespace helix::node
