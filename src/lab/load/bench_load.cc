#include "lab/load/bench_load.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace helix::lab {

base::Status check_lengths(const ApiClient& client, bool skip_too_long, BenchLoad& load) {
    const std::int64_t context = client.context_length();
    const auto too_long = [&](const LoadRequest& r) {
        return context > 0 && std::int64_t{r.prompt_tokens} + r.output_tokens > context;
    };
    if (load.plan.concurrency > 0) {
        if (context == 0 || load.plan.lengths->longest() <= context) return base::Ok{};
        return base::invalid(fmt::format(
            "requests may have {} tokens, but {} has a context of {}; ask for shorter ones",
            load.plan.lengths->longest(), client.model(), context));
    }
    std::vector<LoadRequest>& arrivals = load.plan.arrivals;
    const auto before = arrivals.size();
    if (skip_too_long) std::erase_if(arrivals, too_long);
    load.json["skipped_too_long"] = before - arrivals.size();
    std::int64_t bad = 0;
    for (const LoadRequest& request : arrivals) bad += too_long(request) ? 1 : 0;
    if (bad > 0) {
        return base::invalid(
            fmt::format("{} of {} requests are longer than the context of {}, {} "
                        "tokens; --skip-too-long leaves them out",
                        bad, arrivals.size(), client.model(), context));
    }
    if (arrivals.empty()) return base::invalid("the load has no request");
    return base::Ok{};
}

LoadWindow window_of(const BenchLoad& load, const LoadResult& result) {
    if (load.duration_s == 0 || result.interrupted) return {load.warmup_s, result.seconds};
    return {load.warmup_s, load.warmup_s + load.duration_s};
}

}  // namespace helix::lab
