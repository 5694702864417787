#include "core/batch/prompts_first.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "core/kv/admission.h"

namespace helix::core {
namespace {

// Returns when the delay is over; none: it is.
std::optional<TimePoint> delayed_until(const PromptsFirst& config, const PromptsView& view) {
    if (view.later_stage || config.delay_factor <= 0) return std::nullopt;
    if (view.running == 0 || view.waiting.empty()) return std::nullopt;
    TimePoint first = view.waiting.front().came;
    for (const WaitingPrompt& prompt : view.waiting) first = std::min(first, prompt.came);
    const TimePoint until =
        first + base::from_seconds(config.delay_factor * view.last_prompts.seconds());
    return view.now < until ? std::optional(until) : std::nullopt;
}

}  // namespace

PromptsChoice choose_prompts(const PromptsFirst& config, const PromptsView& view) {
    CHECK(config.max_batched_tokens > 0 && config.max_seqs > 0 && view.schedulers > 0);
    PromptsChoice choice;
    choice.not_before = delayed_until(config, view);
    if (choice.not_before) return choice;
    std::int64_t rows_left = config.max_batched_tokens;
    std::int64_t in_batch = 0;
    std::int64_t may_start = view.later_stage ? std::numeric_limits<std::int64_t>::max()
                                              : view.schedulers * config.max_seqs - view.running;
    std::int64_t free = view.free_pages;
    for (std::size_t i = 0; i < view.waiting.size(); ++i) {
        const WaitingPrompt& prompt = view.waiting[i];
        if (prompt.rows > config.max_batched_tokens) {
            choice.too_long.push_back(i);
            continue;
        }
        const bool alone = view.running + in_batch == 0;
        const bool fits = prompt.starts && !alone
                              ? can_allocate(prompt.pages, free, view.total_pages) == KvRoom::ok
                              : can_append(prompt.pages, free);
        choice.short_of_pages = !fits;
        if (!fits || prompt.rows > rows_left) break;
        const bool first = view.later_stage ? in_batch == 0 : alone;
        const std::int64_t most = std::min(may_start, config.max_seqs - in_batch);
        if (!first && prompt.sequences > most) break;
        choice.run.push_back(i);
        rows_left -= prompt.rows;
        in_batch += prompt.sequences;
        may_start -= prompt.sequences;
        free -= prompt.pages;
    }
    return choice;
}

}  // namespace helix::core
