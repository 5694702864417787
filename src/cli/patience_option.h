#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "base/time.h"
#include "net/zmq_transport.h"

// How long the other side of a connection may be silent.

namespace helix::cli {

void add_lost_after(CLI::App& command, double& seconds);
// Fills the heartbeats: at least four of them in that time.
base::Status fill_lost_after(double seconds, net::TransportOptions& transport);

// A bound on waiting, 0 to 3600 s; option is for the message.
base::Result<base::Duration> parse_wait(const char* option, double seconds);

}  // namespace helix::cli
