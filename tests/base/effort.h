#pragma once

// How much of a long sweep a test runs: all of it in a plain build, an eighth under a sanitizer,
// where it takes ten times as long and looks for another kind of mistake.

namespace helix {

#ifdef HELIX_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

template <typename T>
constexpr T sweep(T full) {
    return kSanitized ? full / 8 : full;
}

}  // namespace helix
