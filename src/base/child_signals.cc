#include "base/child_signals.h"

#include <csignal>
#include <initializer_list>

namespace helix::base {

short set_child_signals(posix_spawnattr_t& attributes) {
    sigset_t blocked;
    sigemptyset(&blocked);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    sigset_t usual;
    sigemptyset(&usual);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) sigaddset(&usual, signal);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    return POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
}

}  // namespace helix::base
