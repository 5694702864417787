#pragma once

#include <cstddef>

namespace helix::base {

// Asks the processor to fetch so many bytes from where an object begins, which will be needed soon,
// while it goes on. Where many objects are visited that lie apart in memory, they are asked for
// together, and their latencies pass at the same time.
template <std::size_t kBytes, typename T>
inline void prefetch(const T* object) {
    constexpr std::size_t kLine = 64;
    const auto* bytes = reinterpret_cast<const char*>(object);
    for (std::size_t at = 0; at < kBytes; at += kLine) __builtin_prefetch(bytes + at);
}

// The same for the front of an object, up to one of its members.
template <typename T, typename Member>
inline void prefetch_up_to(const T* object, const Member* member) {
    constexpr std::ptrdiff_t kLine = 64;
    const auto* begin = reinterpret_cast<const char*>(object);
    const auto* end = reinterpret_cast<const char*>(member);
    for (const char* at = begin; at < end; at += kLine) __builtin_prefetch(at);
}

}  // namespace helix::base
