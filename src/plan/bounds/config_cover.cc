#include "plan/bounds/config_cover.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

using base::at;

// Items that no other beats on both flow and price, best flow per price first.
std::vector<std::int32_t> useful_items(const std::vector<CoverItem>& items, std::int64_t demand) {
    std::vector<std::int32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    const auto flow = [&](std::int32_t i) { return std::min(items[at(i)].flow, demand); };
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        if (flow(a) != flow(b)) return flow(a) > flow(b);
        if (items[at(a)].price != items[at(b)].price)
            return items[at(a)].price < items[at(b)].price;
        return a < b;
    });
    std::vector<std::int32_t> useful;
    std::int64_t cheapest = kNever;
    for (const std::int32_t i : order) {
        if (items[at(i)].price >= cheapest) continue;
        cheapest = items[at(i)].price;
        useful.push_back(i);
    }
    std::stable_sort(useful.begin(), useful.end(), [&](std::int32_t a, std::int32_t b) {
        __extension__ using Wide = __int128;
        return Wide{items[at(a)].price} * flow(b) < Wide{items[at(b)].price} * flow(a);
    });
    return useful;
}

// Branch and bound over how often each item is taken, cheapest flow first.
class CoverSearch {
  public:
    CoverSearch(const std::vector<CoverItem>& items, const std::vector<std::int32_t>& useful,
                std::int64_t demand, std::int32_t least_items)
        : least_items_(least_items), taken_(useful.size(), 0) {
        for (const std::int32_t i : useful) {
            items_.push_back({std::min(items[at(i)].flow, demand), items[at(i)].price});
        }
        filler_ = static_cast<std::size_t>(
            std::min_element(items_.begin(), items_.end(),
                             [](auto& a, auto& b) { return a.price < b.price; }) -
            items_.begin());
        visit(0, demand, 0, 0);
    }

    bool complete() const { return visits_ < kMostVisits; }
    std::int64_t price() const { return best_price_; }
    const std::vector<std::int32_t>& best() const { return best_; }

  private:
    static constexpr std::int64_t kMostVisits = 30'000;

    void visit(std::size_t item, std::int64_t missing, std::int64_t price, std::int32_t count) {
        if (++visits_ >= kMostVisits) return;
        if (missing <= 0) return finish(price, count);
        if (item == items_.size()) return;
        const CoverItem& chosen = items_[item];
        __extension__ using Wide = __int128;
        // All later items cost at least as much per flow.
        const Wide least = Wide{price} * chosen.flow + Wide{missing} * chosen.price;
        if (best_price_ != kNever && least >= Wide{best_price_} * chosen.flow) return;
        const std::int64_t most = (missing + chosen.flow - 1) / chosen.flow;
        for (std::int64_t k = most; k >= 0; --k) {
            taken_[item] = static_cast<std::int32_t>(k);
            visit(item + 1, missing - k * chosen.flow, price + k * chosen.price,
                  count + static_cast<std::int32_t>(k));
        }
        taken_[item] = 0;
    }

    void finish(std::int64_t price, std::int32_t count) {
        const std::int32_t fill = std::max(least_items_ - count, 0);
        price += fill * items_[filler_].price;
        if (price >= best_price_) return;
        best_price_ = price;
        best_ = taken_;
        best_[filler_] += fill;
    }

    std::vector<CoverItem> items_;
    std::int32_t least_items_;
    std::size_t filler_ = 0;
    std::vector<std::int32_t> taken_;
    std::vector<std::int32_t> best_;
    std::int64_t best_price_ = kNever;
    std::int64_t visits_ = 0;
};

// price[v]: of the cheapest cover of v grid steps; ignores least_items beyond adding the cheapest.
Cover grid_cover(const std::vector<CoverItem>& items, const std::vector<std::int32_t>& useful,
                 std::int64_t demand, std::int32_t grid) {
    const std::int64_t step = std::max<std::int64_t>(1, (demand + grid - 1) / grid);
    const std::int64_t steps = demand / step;  // rounded down, flows up: still a relaxation
    std::vector<std::int64_t> price(static_cast<std::size_t>(steps) + 1, kNever);
    std::vector<std::int32_t> choice(price.size(), -1);
    price[0] = 0;
    std::vector<std::int64_t> flow;
    for (const std::int32_t i : useful) flow.push_back((items[at(i)].flow + step - 1) / step);
    for (std::size_t v = 1; v < price.size(); ++v) {
        for (std::size_t u = 0; u < useful.size(); ++u) {
            const std::int64_t rest = static_cast<std::int64_t>(v) - flow[u];
            const std::int64_t sum =
                items[at(useful[u])].price +
                price[static_cast<std::size_t>(std::max<std::int64_t>(rest, 0))];
            if (sum < price[v]) {
                price[v] = sum;
                choice[v] = static_cast<std::int32_t>(u);
            }
        }
    }
    Cover cover{.price = price.back(),
                .count = std::vector<std::int32_t>(items.size(), 0),
                .rounded = true};
    for (std::int64_t v = steps; v > 0;) {
        const std::size_t u = at(choice[static_cast<std::size_t>(v)]);
        ++cover.count[at(useful[u])];
        v -= flow[u];
    }
    return cover;
}

}  // namespace

Cover cheapest_cover(const std::vector<CoverItem>& items, std::int64_t demand,
                     std::int32_t least_items, std::int32_t grid) {
    CHECK(!items.empty() && demand > 0 && grid > 0);
    for (const CoverItem& item : items) CHECK(item.flow > 0 && item.price >= 0);
    const std::vector<std::int32_t> useful = useful_items(items, demand);
    const CoverSearch search(items, useful, demand, least_items);
    if (!search.complete()) return grid_cover(items, useful, demand, grid);
    Cover cover{.price = search.price(),
                .count = std::vector<std::int32_t>(items.size(), 0),
                .rounded = false};
    for (std::size_t u = 0; u < useful.size(); ++u) cover.count[at(useful[u])] = search.best()[u];
    return cover;
}

}  // namespace helix::plan
