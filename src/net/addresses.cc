#include "net/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace helix::net {

std::string number_of(const sockaddr* address) {
    std::array<char, NI_MAXHOST> text = {};
    const auto size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::getnameinfo(address, static_cast<socklen_t>(size), text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0) {
        return {};
    }
    return text.data();
}

std::string url_host(const std::string& host) {
    return host.find(':') != std::string::npos ? "[" + host + "]" : host;
}

bool is_every_address(const std::string& host) {
    return host == "0.0.0.0" || host == "::" || host == "*";
}

base::Result<std::string> resolve_listen_host(const std::string& host) {
    if (host == "*") return std::string("0.0.0.0");
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* all = nullptr;
    const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &all);
    if (failed != 0) {
        return base::invalid(fmt::format("{}: no such host: {}", host, ::gai_strerror(failed)));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(all, ::freeaddrinfo);
    std::string found;
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
        if (one->ai_family == AF_INET) return number_of(one->ai_addr);
        if (one->ai_family == AF_INET6 && found.empty()) found = number_of(one->ai_addr);
    }
    if (found.empty()) return base::invalid(host + ": has no IP address");
    return found;
}

std::vector<std::string> reachable_addresses(const std::string& host) {
    if (!is_every_address(host)) return {host};
    std::vector<std::string> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {"127.0.0.1"};
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
            (one->ifa_flags & IFF_LOOPBACK) != 0) {
            continue;
        }
        const int family = one->ifa_addr->sa_family;
        if (family != AF_INET && !(family == AF_INET6 && host == "::")) continue;
        const std::string number = number_of(one->ifa_addr);
        const bool link_local = number.find('%') != std::string::npos;  // needs a zone to be used
        if (number.empty() || link_local) continue;
        if (std::find(found.begin(), found.end(), number) == found.end()) found.push_back(number);
    }
    if (found.empty()) found.emplace_back("127.0.0.1");
    return best_first(std::move(found));
}

std::vector<std::string> best_first(std::vector<std::string> addresses) {
    std::stable_partition(addresses.begin(), addresses.end(), [](const std::string& address) {
        return !address.starts_with("169.254.");
    });
    return addresses;
}

}  // namespace helix::net
