#include "core/kv/kv_estimate.h"

#include <algorithm>

#include "base/check.h"
#include "base/planted_bug.h"
#include "spec/kv_fill.h"

namespace helix::core {
namespace {

// Returns the first charge of this request or a later one.
template <typename Charges>
auto charge_from(Charges& charges, RequestId request) {
    return std::partition_point(charges.begin(), charges.end(),
                                [&](const auto& charge) { return charge.first < request; });
}

}  // namespace

void KvEstimate::reset(std::int64_t total_pages) {
    CHECK(charges_.empty());
    total_ = total_pages;
    reported_ = 0;
}

void KvEstimate::add(RequestId request, std::int64_t pages) {
    CHECK(pages > 0);
    const auto at = charge_from(charges_, request);
    CHECK(at == charges_.end() || at->first != request);
    charges_.emplace(at, request, pages);
    charged_ += pages;
    if (base::planted(base::PlantedBug::admission_counts_twice)) charged_ += pages;
}

void KvEstimate::remove(RequestId request) {
    const auto it = charge_from(charges_, request);
    CHECK(it != charges_.end() && it->first == request);
    charged_ -= it->second;
    if (it->second == 0) --swapped_;
    charges_.erase(it);
    if (charges_.empty()) reported_ = 0;  // the reported pages are being freed
}

void KvEstimate::set(RequestId request, std::int64_t pages) {
    const auto it = charge_from(charges_, request);
    CHECK(it != charges_.end() && it->first == request);
    CHECK(pages >= 0);
    if (it->second == 0) --swapped_;
    if (pages == 0) ++swapped_;
    charged_ += pages - it->second;
    it->second = pages;
}

std::optional<std::int64_t> KvEstimate::charge_of(RequestId request) const {
    const auto it = charge_from(charges_, request);
    if (it == charges_.end() || it->first != request) return std::nullopt;
    return it->second;
}

double KvEstimate::most_pages(double high_water) const {
    const auto running = static_cast<double>(charges_.size() - swapped_);
    return spec::kv_fill(high_water, running) * static_cast<double>(total_);
}

bool KvEstimate::can_add(std::int64_t pages, double high_water) const {
    if (charges_.size() == swapped_) return pages <= total_;
    return static_cast<double>(used() + pages) <= most_pages(high_water);
}

}  // namespace helix::core
