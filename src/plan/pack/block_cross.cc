#include "plan/pack/block_cross.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

constexpr std::int32_t kWidest = 4;  // nodes on either side of a change

using base::at;

// What the nodes at one edge carry if each has `limit` tokens/s of links; and how many they are.
struct Edge {
    std::int32_t nodes = 0;
    double flow = 0;
};

Edge edge_of(const Block& block, const std::vector<NodeType>& types, bool last, double limit) {
    Edge edge;
    for (const Block::Part& part : block.parts) {
        const std::int32_t where = last ? part.begin + part.size : part.begin;
        if (where != (last ? block.length : 0)) continue;
        ++edge.nodes;
        edge.flow += std::min(types[at(part.type)].throughput(part.size), limit);
    }
    return edge;
}

}  // namespace

Crossings::Crossings(std::vector<std::vector<double>> link, double target)
    : n_groups_(static_cast<std::int32_t>(link.size())), link_(std::move(link)), target_(target) {
    CHECK(n_groups_ <= kMostGroups);
    for (std::int32_t from = 0; from < n_groups_; ++from) {
        for (std::int32_t to = 0; to < n_groups_; ++to) {
            if (from == to) continue;
            for (std::int32_t p = 1; p <= kWidest; ++p) {
                for (std::int32_t q = 1; q <= kWidest; ++q) {
                    const auto carried = [&](std::int32_t links) {
                        return links * link_[at(from)][at(to)] >= target_;
                    };
                    // Only the narrowest pairs that suffice: wider blocks may use those too.
                    if (!carried(p * q) || (p > 1 && carried((p - 1) * q)) ||
                        (q > 1 && carried(p * (q - 1)))) {
                        continue;
                    }
                    changes_.push_back({from, to, p, q, 0});
                }
            }
        }
    }
}

bool Crossings::may_end(const Block& block, const Change& change,
                        const std::vector<NodeType>& types) const {
    if (block.group != change.from) return false;
    const Edge edge =
        edge_of(block, types, true, change.first_nodes * link_[at(change.from)][at(change.to)]);
    return edge.nodes >= change.last_nodes && edge.flow >= target_;
}

bool Crossings::may_begin(const Block& block, const Change& change,
                          const std::vector<NodeType>& types) const {
    if (block.group != change.to) return false;
    const Edge edge =
        edge_of(block, types, false, change.last_nodes * link_[at(change.from)][at(change.to)]);
    return edge.nodes >= change.first_nodes && edge.flow >= target_;
}

void Crossings::add_changes(mip::Program& program) {
    for (Change& change : changes_) {
        change.column = static_cast<std::int32_t>(program.columns.size());
        program.columns.push_back({"", 0, 1, 0, true});
    }
}

// The groups used form one path: each is entered and left at most once, there is one change less
// than groups, and no circle.
void Crossings::add_path_rows(mip::Program& program,
                              const std::vector<const Block*>& blocks) const {
    const auto first_used = static_cast<std::int32_t>(program.columns.size());
    for (std::int32_t g = 0; g < n_groups_; ++g) program.columns.push_back({"", 0, 1, 0, true});
    mip::Program::Row one_path{.name = "", .lower = -1, .upper = -1, .terms = {}};
    for (std::int32_t g = 0; g < n_groups_; ++g) {
        one_path.terms.push_back({first_used + g, -1});
        mip::Program::Row entered{.name = "", .upper = 0, .terms = {{first_used + g, -1}}};
        mip::Program::Row left = entered;
        for (const Change& change : changes_) {
            if (change.to == g) entered.terms.push_back({change.column, 1});
            if (change.from == g) left.terms.push_back({change.column, 1});
        }
        program.rows.push_back(std::move(entered));
        program.rows.push_back(std::move(left));
        for (std::int32_t b = 0; at(b) < blocks.size(); ++b) {
            if (blocks[at(b)]->group != g) continue;
            const double most = program.columns[at(b)].upper;
            program.rows.push_back(
                {.name = "", .upper = 0, .terms = {{b, 1}, {first_used + g, -most}}});
        }
    }
    for (const Change& change : changes_) one_path.terms.push_back({change.column, 1});
    program.rows.push_back(std::move(one_path));
    for (std::uint32_t set = 1; set < (1U << static_cast<std::uint32_t>(n_groups_)); ++set) {
        const auto inside = [&](std::int32_t g) {
            return ((set >> static_cast<std::uint32_t>(g)) & 1U) != 0;
        };
        std::int32_t size = 0;
        for (std::int32_t g = 0; g < n_groups_; ++g) size += inside(g) ? 1 : 0;
        if (size < 2) continue;
        mip::Program::Row no_circle{.name = "", .upper = size - 1.0, .terms = {}};
        for (const Change& change : changes_) {
            if (inside(change.from) && inside(change.to))
                no_circle.terms.push_back({change.column, 1});
        }
        program.rows.push_back(std::move(no_circle));
    }
}

void Crossings::add_edge_rows(mip::Program& program, const std::vector<const Block*>& blocks,
                              const std::vector<NodeType>& types) const {
    for (const Change& change : changes_) {
        mip::Program::Row ends{.name = "", .lower = 0, .terms = {{change.column, -1}}};
        mip::Program::Row begins = ends;
        for (std::int32_t b = 0; at(b) < blocks.size(); ++b) {
            if (may_end(*blocks[at(b)], change, types)) ends.terms.push_back({b, 1});
            if (may_begin(*blocks[at(b)], change, types)) begins.terms.push_back({b, 1});
        }
        program.rows.push_back(std::move(ends));
        program.rows.push_back(std::move(begins));
    }
    // One block cannot be at both ends of its group.
    for (const Change& in : changes_) {
        for (const Change& out : changes_) {
            if (in.to != out.from || in.from == out.to) continue;
            mip::Program::Row two{
                .name = "", .lower = -2, .terms = {{in.column, -2}, {out.column, -2}}};
            for (std::int32_t b = 0; at(b) < blocks.size(); ++b) {
                if (may_begin(*blocks[at(b)], in, types) || may_end(*blocks[at(b)], out, types))
                    two.terms.push_back({b, 1});
            }
            program.rows.push_back(std::move(two));
        }
    }
}

void Crossings::extend(mip::Program& program, const std::vector<const Block*>& blocks,
                       const std::vector<NodeType>& types) {
    CHECK(program.columns.size() == blocks.size());
    add_changes(program);
    add_path_rows(program, blocks);
    add_edge_rows(program, blocks, types);
}

std::vector<std::int32_t> Crossings::order(const std::vector<double>& values,
                                           const std::vector<const Block*>& blocks,
                                           const std::vector<NodeType>& types) const {
    std::vector<std::vector<std::int32_t>> left(at(n_groups_));  // blocks to be placed, by group
    for (std::int32_t b = 0; at(b) < blocks.size(); ++b) {
        left[at(blocks[at(b)]->group)].insert(left[at(blocks[at(b)]->group)].end(),
                                              static_cast<std::size_t>(std::llround(values[at(b)])),
                                              b);
    }
    std::vector<const Change*> into(at(n_groups_), nullptr);
    std::vector<const Change*> out_of(at(n_groups_), nullptr);
    for (const Change& change : changes_) {
        if (values[at(change.column)] < 0.5) continue;
        into[at(change.to)] = &change;
        out_of[at(change.from)] = &change;
    }
    std::int32_t group = 0;
    while (group < n_groups_ && (left[at(group)].empty() || into[at(group)] != nullptr)) ++group;
    std::vector<std::int32_t> order;
    while (group < n_groups_) {
        std::vector<std::int32_t>& here = left[at(group)];
        const Change* in = into[at(group)];
        const Change* out = out_of[at(group)];
        const auto begins = [&](std::int32_t b) {
            return in == nullptr || may_begin(*blocks[at(b)], *in, types);
        };
        const auto ends = [&](std::int32_t b) {
            return out == nullptr || may_end(*blocks[at(b)], *out, types);
        };
        // First one that can only begin, or else any that can; then one that can end.
        auto first = std::find_if(here.begin(), here.end(),
                                  [&](std::int32_t b) { return begins(b) && !ends(b); });
        if (first == here.end()) first = std::find_if(here.begin(), here.end(), begins);
        if (first == here.end()) return {};
        std::iter_swap(first, here.begin());
        if (here.size() == 1 ? !ends(here[0]) : false) return {};
        if (here.size() > 1) {
            const auto last = std::find_if(here.begin() + 1, here.end(), ends);
            if (last == here.end()) return {};
            std::iter_swap(last, here.end() - 1);
        }
        order.insert(order.end(), here.begin(), here.end());
        if (out == nullptr) break;
        group = out->to;
    }
    return order;
}

}  // namespace helix::plan
