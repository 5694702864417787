#include "core/kv/admission.h"

namespace helix::core {

std::int64_t kv_watermark(std::int64_t total) {
    return total / 100;
}

KvRoom can_allocate(std::int64_t needed, std::int64_t free, std::int64_t total) {
    const std::int64_t watermark = kv_watermark(total);
    if (total - needed < watermark) return KvRoom::never;
    return free - needed >= watermark ? KvRoom::ok : KvRoom::later;
}

bool can_append(std::int64_t needed, std::int64_t free) {
    return needed <= free;
}

bool can_swap_out(std::int64_t needed, std::int64_t free_slots) {
    return needed <= free_slots;
}

bool can_swap_in(std::int64_t pages, std::int64_t appended, std::int64_t free, std::int64_t total) {
    if (free == total) return pages <= free;
    return free - (pages + appended) >= kv_watermark(total);
}

}  // namespace helix::core
