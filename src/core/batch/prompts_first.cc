#include "core/batch/prompts_first.h"

#include <algorithm>

#include "base/check.h"
#include "core/kv/admission.h"

namespace helix::core {
namespace {

// Returns when the delay is over; none: it is.
std::optional<TimePoint> delayed_until(const PromptsFirst& config, const PromptsView& view) {
    if (config.delay_factor <= 0 || view.running == 0 || view.waiting.empty()) return std::nullopt;
    TimePoint first = view.waiting.front().came;
    for (const WaitingPrompt& prompt : view.waiting) first = std::min(first, prompt.came);
    const TimePoint until =
        first + base::from_seconds(config.delay_factor * view.last_prompts.seconds());
    return view.now < until ? std::optional(until) : std::nullopt;
}

}  // namespace

PromptsChoice choose_prompts(const PromptsFirst& config, const PromptsView& view) {
    CHECK(config.max_batched_tokens > 0 && config.max_seqs > 0);
    PromptsChoice choice;
    choice.not_before = delayed_until(config, view);
    if (choice.not_before) return choice;
    std::int64_t rows_left = config.max_batched_tokens;
    std::int64_t sequences = view.running;
    std::int64_t free = view.free_pages;
    for (std::size_t i = 0; i < view.waiting.size(); ++i) {
        const WaitingPrompt& prompt = view.waiting[i];
        if (prompt.rows > config.max_batched_tokens) {
            choice.too_long.push_back(i);
            continue;
        }
        const bool alone = sequences == 0;
        const bool fits = prompt.starts && !alone
                              ? can_allocate(prompt.pages, free, view.total_pages) == KvRoom::ok
                              : can_append(prompt.pages, free);
        choice.short_of_pages = !fits;
        if (!fits || prompt.rows > rows_left) break;
        if (!alone && sequences + prompt.sequences > config.max_seqs) break;
        choice.run.push_back(i);
        rows_left -= prompt.rows;
        sequences += prompt.sequences;
        free -= prompt.pages;
    }
    return choice;
}

}  // namespace helix::core
