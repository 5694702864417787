#pragma once

#include <cstdint>

namespace helix::core {

// When a worker's KV pages allow what is asked of it. The rules are vLLM's. All counts are pages.

// Kept free of new sequences, so that those that run do not have to be preempted at once.
std::int64_t kv_watermark(std::int64_t total);

enum class KvRoom { ok, later, never };
// For the first rows of a new sequence.
KvRoom can_allocate(std::int64_t needed, std::int64_t free, std::int64_t total);
// For more rows of one that runs: needed includes the copies of what it shares.
bool can_append(std::int64_t needed, std::int64_t free);
// To host memory, of which so many pages are free.
bool can_swap_out(std::int64_t needed, std::int64_t free_slots);
// From host memory: pages, and appended for the next block of each sequence. When nothing else has
// pages they need only fit: waiting longer would give no more.
bool can_swap_in(std::int64_t pages, std::int64_t appended, std::int64_t free, std::int64_t total);

}  // namespace helix::core
