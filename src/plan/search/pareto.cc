#include "plan/search/pareto.h"

#include <array>
#include <cmath>

namespace helix::plan {
namespace {

constexpr double kParetoRounding = 1e-9;

std::array<double, 5> larger_is_better(const Merits& m) {
    return {m.flow_tokens_per_s, m.decode_tokens_per_s, -m.depth, m.kv_tokens, m.worst_loss_share};
}

enum class Order { better, worse, equal, neither };

Order compare(const Merits& a, const Merits& b) {
    const auto x = larger_is_better(a);
    const auto y = larger_is_better(b);
    bool above = false;
    bool below = false;
    for (std::size_t k = 0; k < x.size(); ++k) {
        const double least = kParetoRounding * (std::abs(x[k]) + std::abs(y[k]));
        above = above || x[k] > y[k] + least;
        below = below || x[k] < y[k] - least;
    }
    if (above && below) return Order::neither;
    if (above) return Order::better;
    return below ? Order::worse : Order::equal;
}

}  // namespace

bool Merits::dominate(const Merits& other) const {
    return compare(*this, other) == Order::better;
}

std::vector<std::size_t> pareto_front(const std::vector<Merits>& merits) {
    std::vector<std::size_t> front;
    for (std::size_t i = 0; i < merits.size(); ++i) {
        bool stays = true;
        for (std::size_t k = 0; k < merits.size() && stays; ++k) {
            if (k == i) continue;
            const Order order = compare(merits[k], merits[i]);
            stays = order != Order::better && !(order == Order::equal && k < i);
        }
        if (stays) front.push_back(i);
    }
    return front;
}

}  // namespace helix::plan
