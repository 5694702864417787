#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

// Coordinators on the local network, which say where they are and find nobody's trust by it: mDNS
// and DNS-SD (RFC 6762, 6763), service type _helix._tcp, by libavahi-core in this process. What is
// found is a hint that anybody on the network may have made up.

namespace helix::net {

// What is said of a coordinator besides where it is. None of it is secret.
struct ServiceFacts {
    std::string model;
    std::string version;
    std::string fingerprint;  // of the coordinator's key; "" = it has none
};
// As the service's TXT record says it: "name=value" each, and back. Unknown names are ignored, and
// values that are too long cut.
std::vector<std::string> txt_of(const ServiceFacts& facts);
ServiceFacts facts_of(const std::vector<std::string>& txt);

// Whether coordinators are announced and looked for on an interface of this name: not on those of
// containers and of this machine alone.
bool is_lan_interface(std::string_view name);

struct Announcement {
    std::string name;  // for people; a number is added where it is taken
    std::string host;  // that is listened on, as a number
    std::uint16_t port = 0;
    ServiceFacts facts;
};

// While it lives the coordinator is announced, by a thread of its own.
class Announcer {
  public:
    // Error unavailable when the system does not let us: no network, or a port that is taken.
    static base::Result<std::unique_ptr<Announcer>> start(Announcement announcement);
    ~Announcer();
    Announcer(const Announcer&) = delete;
    Announcer& operator=(const Announcer&) = delete;

    struct Impl;

  private:
    explicit Announcer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

struct FoundCoordinator {
    std::string name;
    std::vector<std::string> addresses;  // numbers
    std::uint16_t port = 0;
    ServiceFacts facts;
};

// Listens for so long, less when there is an answer and no more come. Error unavailable as above.
base::Result<std::vector<FoundCoordinator>> find_coordinators(std::chrono::milliseconds time);

}  // namespace helix::net
