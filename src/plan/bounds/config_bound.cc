#include "plan/bounds/config_bound.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/index.h"
#include "plan/bounds/bounds.h"
#include "plan/bounds/config_cover.h"
#include "plan/mip/growing_lp.h"

namespace helix::plan {
namespace {

constexpr double kUnit = 1048576;       // flows are counted in 2^-20 tokens/s
constexpr double kPriceUnit = 1 << 30;  // of whole-number prices
constexpr std::int32_t kMostCutRounds = 2000;
constexpr std::int32_t kWidestCover = 3;  // m beyond it is not used: such covers are common

using base::at;

// One F of the program above. Rows: one for each item (t, j), one for each type, the link row.
class Program {
  public:
    Program(const std::vector<NodeType>& types, std::int32_t n_layers, const LinkRow& links,
            double flow)
        : types_(types),
          n_layers_(n_layers),
          widest_(links.wide_crossing ? std::min(links.crossing_links, kWidestCover) : 2),
          link_row_(links.not_all_single),
          demand_(static_cast<std::int64_t>(std::floor(flow * kUnit))) {
        collect_items(flow);
    }

    bool proves_infeasible(const std::function<bool()>& stop) {
        if (items_.empty()) return true;
        GrowingLp lp(limits());
        add_node_columns(lp);
        for (std::size_t i = 0; i < items_.size(); ++i) {
            std::vector<std::int32_t> count(items_.size(), 0);
            count[i] = static_cast<std::int32_t>((demand_ + items_[i].flow - 1) / items_[i].flow);
            add_cover(lp, count);
        }
        for (std::int32_t round = 0; round < kMostCutRounds; ++round) {
            if (stop && stop()) return false;
            if (!lp.solve()) return false;
            if (lp.objective() >= n_layers_ - 1e-9) return false;
            set_prices(lp.prices());
            std::vector<Cover> covers;
            for (std::int32_t least = 1; least <= (link_row_ ? widest_ : 1); ++least) {
                covers.push_back(cheapest_cover(items_, demand_, least, grid()));
            }
            if (prices_prove(covers)) return true;
            bool news = false;
            for (const Cover& cover : covers) news |= seen_.insert({cover.count, true}).second;
            if (!news) return false;
            for (const Cover& cover : covers) add_cover(lp, cover.count);
        }
        return false;
    }

  private:
    struct Item {
        std::size_t type = 0;
        std::int32_t layers = 0;
    };

    // (t, j) unless more layers are served as well: T counts only up to F.
    void collect_items(double flow) {
        for (std::size_t t = 0; t < types_.size(); ++t) {
            double best = 0;
            const std::size_t first = items_.size();
            for (std::int32_t j = types_[t].most(); j > 0; --j) {
                const double carried = std::min(types_[t].throughput(j), flow);
                if (carried <= best) continue;
                best = carried;
                items_.push_back({static_cast<std::int64_t>(std::ceil(carried * kUnit)), 0});
                meaning_.push_back({t, j});
            }
            std::reverse(items_.begin() + static_cast<std::ptrdiff_t>(first), items_.end());
            std::reverse(meaning_.begin() + static_cast<std::ptrdiff_t>(first), meaning_.end());
        }
    }

    std::int32_t type_row(std::size_t t) const {
        return static_cast<std::int32_t>(items_.size() + t);
    }

    std::vector<double> limits() const {
        std::vector<double> limits(items_.size(), 0.0);
        for (const NodeType& type : types_) limits.push_back(type.count());
        if (link_row_) limits.push_back(n_layers_ - 1);
        return limits;
    }

    void add_node_columns(GrowingLp& lp) const {
        for (std::size_t i = 0; i < items_.size(); ++i) {
            lp.add_column(0, {{static_cast<std::int32_t>(i), -1.0 * meaning_[i].layers},
                              {type_row(meaning_[i].type), 1}});
        }
    }

    // 1 for a single layer, 1/2 below m holders, 0 from there.
    double link_factor(std::int32_t holders) const {
        if (holders == 1) return 1;
        return holders < widest_ ? 0.5 : 0;
    }

    void add_cover(GrowingLp& lp, const std::vector<std::int32_t>& count) const {
        std::vector<GrowingLp::Term> terms;
        std::int32_t holders = 0;
        for (std::size_t i = 0; i < count.size(); ++i) {
            if (count[i] > 0) terms.push_back({static_cast<std::int32_t>(i), 1.0 * count[i]});
            holders += count[i];
        }
        if (link_row_ && link_factor(holders) > 0) {
            terms.push_back({type_row(types_.size()), link_factor(holders)});
        }
        lp.add_column(1, terms);
    }

    void set_prices(const std::vector<double>& prices) {
        for (std::size_t i = 0; i < items_.size(); ++i) {
            items_[i].price =
                static_cast<std::int64_t>(std::llround(std::min(prices[i], 4.0) * kPriceUnit));
        }
    }

    // In whole numbers: k from the cheapest covers, the link row priced so that every cover costs
    // at least k, against what the nodes can earn.
    bool prices_prove(const std::vector<Cover>& covers) const {
        std::int64_t earned = 0;
        for (std::size_t t = 0; t < types_.size(); ++t) {
            std::int64_t best = 0;
            for (std::size_t i = 0; i < items_.size(); ++i) {
                if (meaning_[i].type == t)
                    best = std::max(best, meaning_[i].layers * items_[i].price);
            }
            earned += types_[t].count() * best;
        }
        const auto least = [&](std::int64_t k) {
            std::int64_t row_price = 0;
            for (std::size_t c = 0; c + 1 < covers.size(); ++c) {
                const std::int64_t missing = std::max<std::int64_t>(k - covers[c].price, 0);
                row_price = std::max(row_price, c == 0 ? missing : 2 * missing);
            }
            return n_layers_ * k - (n_layers_ - 1) * row_price;
        };
        const std::int64_t most = covers.back().price;
        std::vector<std::int64_t> tries = {most};
        for (const Cover& cover : covers) tries.push_back(cover.price);
        if (covers.size() > 2) tries.push_back(2 * covers[1].price - covers[0].price);
        return std::any_of(tries.begin(), tries.end(),
                           [&](std::int64_t k) { return earned < least(std::min(k, most)); });
    }

    // Many items to a cover mean much rounding: more steps.
    std::int32_t grid() const {
        std::int64_t widest = 1;
        for (const CoverItem& item : items_) widest = std::max(widest, item.flow);
        return static_cast<std::int32_t>(
            std::clamp<std::int64_t>(demand_ / widest * 1000, 4'000, 40'000));
    }

    const std::vector<NodeType>& types_;
    std::int32_t n_layers_;
    std::int32_t widest_;
    bool link_row_;
    std::int64_t demand_;
    std::vector<CoverItem> items_;
    std::vector<Item> meaning_;  // parallel to items_
    std::map<std::vector<std::int32_t>, bool> seen_;
};

}  // namespace

LinkRow link_row(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                 const std::vector<NodeType>& types, double flow) {
    const auto activation_bytes = static_cast<double>(model.activation_bytes_per_token);
    // A hair below F, so that a rounding here can only make the claim weaker.
    const double wide = flow * (1 - 1e-9);
    const std::vector<std::int32_t> group = link_groups(cluster, model, wide);
    std::vector<std::int32_t> alone(group.size(), 0);  // [group]: layers on nodes of T >= F
    for (const NodeType& type : types) {
        std::int32_t layers = 0;
        for (std::int32_t j = 1; j <= type.most(); ++j) {
            if (type.throughput(j) >= wide) layers = j;
        }
        for (const std::int32_t node : type.nodes) alone[at(group[at(node)])] += layers;
    }
    const std::int32_t most = alone.empty() ? 0 : *std::max_element(alone.begin(), alone.end());
    std::vector<double> narrow;
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) continue;
        if (group[at(link.from)] == group[at(link.to)]) continue;
        narrow.push_back(link.bandwidth_bytes_per_s / activation_bytes);
    }
    std::sort(narrow.begin(), narrow.end(), std::greater<>());
    LinkRow row{.not_all_single = most < model.n_layers,
                .wide_crossing = most < model.n_layers - 1,
                .crossing_links = 0};
    double sum = 0;
    while (sum < wide && row.crossing_links < kWidestCover) {
        if (at(row.crossing_links) < narrow.size()) sum += narrow[at(row.crossing_links)];
        ++row.crossing_links;
    }
    return row;
}

bool proves_no_flow(const std::vector<NodeType>& types, std::int32_t n_layers, const LinkRow& links,
                    double flow, const std::function<bool()>& stop) {
    CHECK(flow > 0 && n_layers > 0);
    return Program(types, n_layers, links, flow).proves_infeasible(stop);
}

double config_bound(const Problem& problem, const ConfigBoundOptions& options) {
    const std::vector<NodeType> types = node_types(problem);
    double high = flow_bounds(problem).best;
    if (types.empty() || high <= 0) return 0;
    const double tolerance = std::max(options.relative_tolerance, 1e-9);
    const auto impossible = [&](double flow) {
        const LinkRow row =
            options.links ? link_row(problem.cluster, problem.model, types, flow) : LinkRow{};
        return proves_no_flow(types, problem.model.n_layers, row, flow, options.stop);
    };
    double low = 0;
    if (options.known_flow > 0) {
        low = options.known_flow;
        const double next = low * (1 + tolerance);
        if (next >= high || impossible(next)) return std::min(next, high);
        low = next;
    }
    while (high - low > tolerance * high) {
        if (options.stop && options.stop()) break;
        const double middle = (low + high) / 2;
        (impossible(middle) ? high : low) = middle;
    }
    return high;
}

}  // namespace helix::plan
