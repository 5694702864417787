#pragma once

#include <cstdint>

namespace helix::core {

// This says whether a worker's KV pages allow what is asked of it. The rules are vLLM's. All counts
// are pages.

// Returns the pages that new sequences leave free, so that those that run need not be preempted at
// once.
std::int64_t kv_watermark(std::int64_t total);

enum class KvRoom { ok, later, never };
// Says whether the first rows of a new sequence fit.
KvRoom can_allocate(std::int64_t needed, std::int64_t free, std::int64_t total);
// Says whether more rows of a running sequence fit; needed includes copies of the pages that it
// shares.
bool can_append(std::int64_t needed, std::int64_t free);
// Says whether pages fit into host memory, which has free_slots pages free.
bool can_swap_out(std::int64_t needed, std::int64_t free_slots);
// Says whether swapped pages fit again, and besides them appended pages for the next block of each
// sequence. When nothing else has pages they need only fit, since waiting longer would free no
// more.
bool can_swap_in(std::int64_t pages, std::int64_t appended, std::int64_t free, std::int64_t total);

}  // namespace helix::core
