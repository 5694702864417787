#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"

// Slows down those who try keys. It has no clock: time is passed in.

namespace helix::api {

class KeyThrottle {
  public:
    // Wrong keys of one address that cost nothing, since people mistype.
    static constexpr int kFreeTries = 5;
    // After that each costs twice the pause of the one before, from one second up to a minute.
    static constexpr std::int64_t kLongestPauseS = 60;
    // How many addresses are remembered. One more makes it forget the one that failed longest ago.
    static constexpr std::size_t kMostAddresses = 4096;

    // How many seconds this address has to wait before its next key is looked at; 0 = none. A key
    // that was right from there lately is looked at in any case, so that somebody who guesses keys
    // behind a proxy does not lock out all the others.
    std::int64_t pause_s(base::TimePoint now, std::string_view peer) const;
    void failed(base::TimePoint now, std::string_view peer);
    // label says which key it was.
    void succeeded(base::TimePoint now, std::string_view peer, const std::string& label);
    bool known(base::TimePoint now, std::string_view peer, const std::string& label) const;

    // The address that a peer counts as. An IPv6 network counts as one, since nobody has only a
    // single IPv6 address.
    static std::string address_of(std::string_view peer);

    std::size_t addresses() const { return failures_.size(); }

  private:
    struct Failures {
        int tries = 0;
        base::TimePoint last;
        base::TimePoint until;
    };
    std::map<std::string, Failures> failures_;
    std::map<std::string, base::TimePoint> good_;  // address and label, and when it was last right
};

}  // namespace helix::api
