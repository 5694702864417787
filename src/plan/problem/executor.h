#pragma once

#include <functional>

namespace helix::plan {

// Runs job(0) .. job(n - 1), in any order or side by side, and returns when all are done. Brought
// by whoever has threads.
using Executor = std::function<void(int n, const std::function<void(int)>& job)>;

// Runs the jobs by the executor; without one (empty), one after the other.
inline void run_jobs(const Executor& executor, int n, const std::function<void(int)>& job) {
    if (executor) {
        executor(n, job);
    } else {
        for (int k = 0; k < n; ++k) job(k);
    }
}

}  // namespace helix::plan
