#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

// How much of a long sweep a test runs: a quarter in a plain build and a sixty-fourth under a
// sanitizer, where it takes ten times as long and looks for another kind of mistake; all of it with
// HELIX_SWEEPS=all, which is what make test-all sets.

namespace helix {

#ifdef HELIX_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Where something is done at each of many places, in turn, it is done at one of so many.
constexpr std::size_t kSweepStride = kSanitized ? 11 : 1;

// A quarter of what takes minutes and counts by itself: tokens of an answer, prompts of a file.
constexpr std::size_t few(std::size_t all) {
    return kSanitized ? (all + 3) / 4 : all;
}

// How much longer than on a quick and idle machine a test waits for what must come.
constexpr int kPatience = kSanitized ? 6 : 2;

inline bool whole_sweeps() {
    const char* wanted = std::getenv("HELIX_SWEEPS");
    return wanted != nullptr && std::string_view(wanted) == "all";
}

template <typename T>
T sweep(T full) {
    if (whole_sweeps()) return full;
    return full / (kSanitized ? 64 : 4);
}

}  // namespace helix
