// rooms: core
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "../tests/core/scheduler_drive.h"
#include "base/check.h"

// Whatever the bytes: forks, drafts, swaps, prefix hits and frees in any order leave every sequence
// its own text, and no page behind.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    helix::core::test::SchedulerDrive drive(std::span(data, size));
    const std::string wrong = drive.run();
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    CHECK(wrong.empty());
    return 0;
}
