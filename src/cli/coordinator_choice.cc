#include "cli/coordinator_choice.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

#include "base/escape.h"
#include "net/addresses.h"
#include "node/join.h"

namespace helix::cli {
namespace {

using base::Errc;
using base::Error;

constexpr std::chrono::milliseconds kLookFor{3000};
constexpr int kReachTimeoutMs = 2000;
constexpr int kAskAtMost = 3;

std::string place_of(const net::FoundCoordinator& one, const std::string& address) {
    return fmt::format("{}:{}", net::url_host(address), one.port);
}

// The first of its addresses where it answers. Anybody may announce anything.
base::Result<std::string> reachable_place(const net::FoundCoordinator& one) {
    std::string problems;
    for (const std::string& address : one.addresses) {
        const auto info = node::ask_join_info({address, one.port}, kReachTimeoutMs);
        if (info.ok()) return place_of(one, address);
        problems += "\n  " + base::escaped(info.error().message);
    }
    return Error{Errc::unavailable,
                 fmt::format("\"{}\" is announced, but cannot be reached (is a firewall on its "
                             "way?):{}",
                             base::escaped(one.name), problems)};
}

Error none_found() {
    return {Errc::not_found,
            "no coordinator was found on the local network. One is found that listens beyond its "
            "machine, with a key for the cluster (helix serve --listen 0.0.0.0:8080 --key ...), in "
            "this segment of the network, where multicast is let through (UDP port 5353; guest "
            "networks, VLANs, VPNs and containers often do not). By hand: helix worker --join "
            "HOST:PORT"};
}

Error nobody_to_ask(const std::vector<net::FoundCoordinator>& found) {
    std::string commands;
    for (const net::FoundCoordinator& one : found) {
        commands += "\n  helix worker --join " + place_of(one, one.addresses.front());
        if (!one.facts.fingerprint.empty()) commands += " --pair";
    }
    return base::invalid("standard input is no terminal, so nobody can be asked which to join:" +
                         commands);
}

}  // namespace

std::string list_coordinators(const std::vector<net::FoundCoordinator>& found) {
    std::string out;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const net::FoundCoordinator& one = found[i];
        std::string places;
        for (const std::string& address : one.addresses) {
            places += (places.empty() ? "" : ", ") + place_of(one, address);
        }
        out += fmt::format("  {}  {}  {}  {}  {}\n", i + 1, base::escaped(one.name), places,
                           one.facts.model.empty() ? "?" : base::escaped(one.facts.model),
                           one.facts.fingerprint.empty()
                               ? "without keys"
                               : "key " + base::escaped(one.facts.fingerprint));
    }
    return out;
}

int typed_choice(const std::string& line, std::size_t count) {
    std::string word;
    for (const char c : line) {
        if (c != ' ' && c != '\t' && c != '\r') word += c;
    }
    if (word == "n" || word == "no" || word == "N") return 0;
    if (count == 1 && (word.empty() || word == "y" || word == "Y" || word == "yes")) return 1;
    int number = -1;
    const char* end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, number);
    const bool good = read.ec == std::errc() && read.ptr == end && number >= 1 &&
                      static_cast<std::size_t>(number) <= count;
    return good ? number : -1;
}

base::Result<std::string> choose_coordinator() {
    std::fprintf(stderr, "Looking for coordinators on the local network ...\n");
    TRY(const std::vector<net::FoundCoordinator> found, net::find_coordinators(kLookFor));
    if (found.empty()) return none_found();
    std::fputs(list_coordinators(found).c_str(), stderr);
    if (::isatty(STDIN_FILENO) == 0) return nobody_to_ask(found);
    for (int i = 0; i < kAskAtMost; ++i) {
        std::fputs(found.size() == 1
                       ? "Join it? [Y/n] "
                       : fmt::format("Which one? [1-{}, n for none] ", found.size()).c_str(),
                   stderr);
        std::string line;
        if (!std::getline(std::cin, line)) break;
        const int choice = typed_choice(line, found.size());
        if (choice == 0) break;
        if (choice > 0) return reachable_place(found[static_cast<std::size_t>(choice) - 1]);
    }
    return base::invalid("none was chosen; by hand: helix worker --join HOST:PORT");
}

}  // namespace helix::cli
