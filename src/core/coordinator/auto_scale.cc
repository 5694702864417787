#include "core/coordinator/auto_scale.h"

#include <algorithm>

#include "base/check.h"

namespace helix::core {
namespace {

bool due(const std::optional<TimePoint>& since, TimePoint now, Duration hold) {
    return since && now - *since >= hold;
}

std::size_t serving(const ScaleView& view) {
    return static_cast<std::size_t>(
        std::count_if(view.nodes.begin(), view.nodes.end(),
                      [](const ScaleNode& node) { return !node.load.draining(); }));
}

// Returns the freeness that the other nodes would have if they had this node's load as well, spread
// evenly over them.
double freeness_without(const ScaleView& view, const ScaleNode& gone) {
    double left = 0;
    double batch = 0;
    std::int64_t others = 0;
    for (const ScaleNode& node : view.nodes) {
        batch += static_cast<double>(node.load.batch());
        if (node.load.draining() || &node == &gone) {
            left -= static_cast<double>(node.load.used());
        } else {
            left += static_cast<double>(node.load.memory() - node.load.used());
            ++others;
        }
    }
    if (others == 0 || left < 0) return left;
    return left / std::max(batch, 1.0);
}

// Returns the freeness of all nodes together once this many more nodes like them share their load.
double freeness_with(const ScaleView& view, std::size_t more) {
    double left = 0;
    double memory = 0;
    double batch = 0;
    for (const ScaleNode& node : view.nodes) {
        batch += static_cast<double>(node.load.batch());
        left -= static_cast<double>(node.load.used());
        if (!node.load.draining()) memory += static_cast<double>(node.load.memory());
    }
    const auto count = static_cast<double>(std::max<std::size_t>(1, serving(view)));
    left += memory * (1 + static_cast<double>(more) / count);
    return left < 0 ? left : left / std::max(batch, 1.0);
}

// Returns the freeness that a stop must leave.
double enough(const AutoScaleConfig& config) {
    return config.low + (config.high - config.low) / 4;
}

}  // namespace

AutoScaler::AutoScaler(const AutoScaleConfig& config) : config_(config) {
    CHECK(config.low < config.high);
    CHECK(config.min_nodes >= 1 && config.max_nodes >= config.min_nodes);
}

void AutoScaler::could_not(TimePoint now) {
    starting_ = false;
    changed_ = now;
}

std::optional<ScaleDecision> AutoScaler::step(TimePoint now, const ScaleView& view) {
    const std::size_t count = serving(view);
    if (starting_ && count >= expected_) starting_ = false;
    if (starting_ && now - *changed_ > config_.start_timeout) starting_ = false;
    if (count != serving_) {
        const bool ours = stopping_ && count + 1 == serving_;
        stopping_ = false;
        serving_ = count;
        changed_ = now;
        low_since_.reset();
        if (!ours) high_since_.reset();
    }
    const double free = freeness_with(view, 0);
    const auto note = [&](std::optional<TimePoint>& since, bool outside) {
        if (!outside) since.reset();
        if (outside && !since) since = now;
    };
    note(low_since_, count > 0 && free < config_.low);
    note(high_since_, count > 0 && free > config_.high);
    const std::size_t coming = starting_ && expected_ > count ? expected_ - count : 0;
    if (starting_ && due(low_since_, now, config_.hold) &&
        count + coming < static_cast<std::size_t>(config_.max_nodes) &&
        freeness_with(view, coming) < config_.low) {
        ++expected_;
        changed_ = now;
        return ScaleDecision{true, {}};
    }
    if (starting_ || (changed_ && now - *changed_ < config_.cool_down)) return std::nullopt;
    const bool too_few = count < static_cast<std::size_t>(config_.min_nodes);
    if (too_few || due(low_since_, now, config_.hold)) {
        if (count >= static_cast<std::size_t>(config_.max_nodes)) return std::nullopt;
        starting_ = true;
        expected_ = count + 1;
        changed_ = now;
        return ScaleDecision{true, {}};
    }
    if (due(high_since_, now, config_.hold_down)) return least_loaded(now, view);
    return std::nullopt;
}

std::optional<ScaleDecision> AutoScaler::least_loaded(TimePoint now, const ScaleView& view) {
    // A node that still drains goes first, since its load is on its way to the others.
    if (serving(view) != view.nodes.size()) return std::nullopt;
    if (serving_ <= static_cast<std::size_t>(config_.min_nodes)) return std::nullopt;
    CHECK(view.spare.size() == view.nodes.size());
    const ScaleNode* best = nullptr;
    for (std::size_t i = 0; i < view.nodes.size(); ++i) {
        const ScaleNode& node = view.nodes[i];
        if (view.spare[i] == 0) continue;
        const bool fewer =
            best == nullptr || node.load.batch() < best->load.batch() ||
            (node.load.batch() == best->load.batch() && node.load.used() < best->load.used());
        if (fewer) best = &node;
    }
    if (best == nullptr || freeness_without(view, *best) < enough(config_)) return std::nullopt;
    changed_ = now;
    stopping_ = true;
    return ScaleDecision{false, best->worker};
}

}  // namespace helix::core
