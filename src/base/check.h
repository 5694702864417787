#pragma once

// CHECK(condition) guards what only a bug of ours can break. It stays on in release builds: a dead
// worker is recoverable, a wrong token is not. What the world may do wrong is a Result, never a
// CHECK.

namespace helix::base {

// Prints file, line and the text, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* text);

}  // namespace helix::base

#define CHECK(condition)                                 \
    (static_cast<bool>(condition) ? static_cast<void>(0) \
                                  : ::helix::base::check_failed(__FILE__, __LINE__, #condition))
