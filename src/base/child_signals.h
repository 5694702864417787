#pragma once

#include <spawn.h>

namespace helix::base {

// What a program that we start has of signals: none is blocked, and those end it that we ignore, or
// that a shell lets what runs in its background ignore. Returns the flags for
// posix_spawnattr_setflags() that this needs.
short set_child_signals(posix_spawnattr_t& attributes);

}  // namespace helix::base
