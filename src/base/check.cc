#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace helix::base {

void check_failed(const char* file, int line, const char* text) {
    std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, text);
    std::fflush(stderr);
    std::abort();
}

}  // namespace helix::base
