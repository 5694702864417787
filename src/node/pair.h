#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "net/key.h"
#include "node/join.h"

namespace helix::node {

// Gets a key for a worker of this name from the coordinator at this HTTP address, by the code that
// is shown there (8 digits). Nobody who listens, or stands between, learns the code or gets in. The
// secret half of the key is made here and never sent. Error denied: the code is wrong there, or
// whoever answers does not know it; overloaded: too many wrong codes, the message says how long to
// wait; else what the coordinator said.
base::Result<net::WorkerKey> pair_with(const Address& address, const std::string& name,
                                       const std::string& code, std::chrono::milliseconds timeout);

// A name to ask for: that of the machine, as far as names of workers may be like it.
std::string machine_worker_name();

}  // namespace helix::node
