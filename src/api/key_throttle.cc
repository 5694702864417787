#include "api/key_throttle.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

namespace helix::api {
namespace {

constexpr base::Duration kForgetAfter = base::from_seconds(600);

// Drops the entry that has not changed for longest.
template <typename Map, typename TimeOf>
void make_room(Map& map, std::size_t most, const TimeOf& time_of) {
    if (map.size() < most) return;
    map.erase(std::min_element(map.begin(), map.end(), [&](const auto& a, const auto& b) {
        return time_of(a.second) < time_of(b.second);
    }));
}

}  // namespace

std::string KeyThrottle::address_of(std::string_view peer) {
    in6_addr address = {};
    const std::string text(peer.substr(0, peer.find('%')));
    if (::inet_pton(AF_INET6, text.c_str(), &address) != 1) return text;
    std::fill(std::begin(address.s6_addr) + 8, std::end(address.s6_addr), std::uint8_t{0});
    std::array<char, INET6_ADDRSTRLEN> out = {};
    return ::inet_ntop(AF_INET6, &address, out.data(), out.size());
}

std::int64_t KeyThrottle::pause_s(base::TimePoint now, std::string_view peer) const {
    const auto found = failures_.find(address_of(peer));
    if (found == failures_.end() || found->second.until <= now) return 0;
    return ((found->second.until - now).ns + 999'999'999) / 1'000'000'000;
}

void KeyThrottle::failed(base::TimePoint now, std::string_view peer) {
    const std::string address = address_of(peer);
    if (!failures_.contains(address)) {
        make_room(failures_, kMostAddresses, [](const Failures& f) { return f.last; });
    }
    Failures& failures = failures_[address];
    if (now - failures.last > kForgetAfter) failures.tries = 0;
    ++failures.tries;
    failures.last = now;
    if (failures.tries <= kFreeTries) return;
    const int doublings = std::min(failures.tries - kFreeTries - 1, 6);
    failures.until = now + base::Duration{std::min(std::int64_t{1} << doublings, kLongestPauseS) *
                                          1'000'000'000};
}

void KeyThrottle::succeeded(base::TimePoint now, std::string_view peer, const std::string& label) {
    std::string who = address_of(peer) + " " + label;
    if (!good_.contains(who)) {
        make_room(good_, kMostAddresses, [](base::TimePoint at) { return at; });
    }
    good_[std::move(who)] = now;
}

bool KeyThrottle::known(base::TimePoint now, std::string_view peer,
                        const std::string& label) const {
    const auto found = good_.find(address_of(peer) + " " + label);
    return found != good_.end() && now - found->second <= kForgetAfter;
}

}  // namespace helix::api
