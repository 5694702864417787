#pragma once

#include <optional>

namespace helix::node {

// What lies between two workers of one host.
struct HostLink {
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
};

// Measured the way that rows travel between workers of one host: frames of 2 MiB through the
// transport and this machine's loopback, encrypted where there are keys. The quickest of a few, so
// that what else runs just now counts little. It is measured once in a process, in about 50 ms, for
// links with keys and for those without. nullopt: it could not be measured, which is logged; then
// each link is probed like those to other hosts (node/link_probe.h). Any thread.
std::optional<HostLink> host_link(bool with_keys);

}  // namespace helix::node
