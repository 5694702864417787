#pragma once

#include <cstddef>

namespace helix::base {

// Asks the system for large pages (2 MiB) for the next so many bytes that this process takes from
// its heap, at most 1 GiB: whoever visits hundreds of megabytes in no order waits for the
// addresses of small ones as long as for the memory itself. Nothing is taken until it is used. To
// be called before other threads run. False where the C library or the system has none. From
// then on the heap keeps what is freed, and blocks of up to 32 MiB come from it.
bool prefer_large_pages(std::size_t bytes);

}  // namespace helix::base
