#include "core/coordinator/prompt_window.h"

#include <gtest/gtest.h>

#include <deque>

namespace helix::core::prompt_window_test {
namespace {

// Puts prompts of this many rows on a cluster that prefills rows_per_s, one after the other, and
// takes base_s for the way through; more always wait. Returns the mean time of the last half.
double settled_s(PromptWindow& window, std::int64_t rows, double rows_per_s, double base_s) {
    struct Running {
        double started_s = 0;
        double done_s = 0;
    };
    std::deque<Running> running;
    double now_s = 0;
    double free_s = 0;
    double total_s = 0;
    constexpr int kPrompts = 2000;
    for (int done = 0; done < kPrompts; ++done) {
        while (window.open()) {
            window.start(rows);
            free_s = std::max(free_s, now_s) + static_cast<double>(rows) / rows_per_s;
            running.push_back({now_s, free_s + base_s});
        }
        window.note_blocked();
        const Running first = running.front();
        running.pop_front();
        now_s = first.done_s;
        window.finish(rows, base::from_seconds(now_s - first.started_s));
        if (done >= kPrompts / 2) total_s += now_s - first.started_s;
    }
    return total_s / (kPrompts / 2.0);
}

TEST(PromptWindow, SettlesAtWhatTheClusterPrefillsInTheTargetTime) {
    for (const double rows_per_s : {1000.0, 3000.0, 20000.0}) {
        PromptWindow window(base::from_seconds(2));
        window.set_workers(4);
        EXPECT_NEAR(settled_s(window, 100, rows_per_s, 0.3), 2, 0.2) << rows_per_s;
        EXPECT_NEAR(window.rows(), 2 * rows_per_s, 0.2 * 2 * rows_per_s);
    }
}

TEST(PromptWindow, NeverClosesBelowTwoPromptsOrTwoSmallBatchesPerWorker) {
    PromptWindow slow(base::from_seconds(2));
    slow.set_workers(3);
    settled_s(slow, 1000, 50, 0);
    EXPECT_EQ(slow.rows(), 2000);
    PromptWindow wide(base::from_seconds(2));
    wide.set_workers(100);
    settled_s(wide, 10, 50, 0);
    EXPECT_EQ(wide.rows(), 12800);
}

TEST(PromptWindow, QuickPromptsWidenItOnlyWhereItHeldOthersBack) {
    PromptWindow window(base::from_seconds(2));
    const double before = window.rows();
    for (int i = 0; i < 100; ++i) {
        window.start(500);
        window.finish(500, base::from_seconds(0.1));
    }
    EXPECT_EQ(window.rows(), before);
    window.start(500);
    window.note_blocked();
    window.finish(500, base::from_seconds(0.1));
    EXPECT_EQ(window.rows(), before + 250);
}

TEST(PromptWindow, APromptLargerThanTheWindowGoesAlone) {
    PromptWindow window(base::from_seconds(2));
    EXPECT_TRUE(window.open());
    window.start(1'000'000);
    EXPECT_FALSE(window.open());
    window.abandon(1'000'000);
    EXPECT_TRUE(window.open());
    EXPECT_EQ(window.in_flight(), 0);
}

}  // namespace
}  // namespace helix::core::prompt_window_test
