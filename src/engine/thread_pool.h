#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace helix::engine {

// Threads that run the tasks of one step together with the caller. Which thread runs which task is
// left to chance, so tasks must not depend on it. One thread calls run() at a time.
//
// Idle threads spin for some tens of microseconds and then sleep: several processes may share these
// cores. A job does not wait for threads that were not there to take part: when the cores are busy
// elsewhere, the caller does the work alone.
class ThreadPool {
  public:
    // threads counts the caller, who is thread 0. cpus: cores to pin to, thread i to cpus[i %
    // size]; the caller is pinned at its first run(). Empty = not pinned.
    explicit ThreadPool(int threads, std::vector<int> cpus = {});
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls task(index, thread) once for every index in [0, count); returns when all are done.
    template <typename Task>
    void run(std::int64_t count, Task&& task) {
        if (size() == 1 || count <= 1) {
            for (std::int64_t i = 0; i < count; ++i) task(i, 0);
            return;
        }
        run_shared(
            count,
            [](void* context, std::int64_t i, int thread) {
                (*static_cast<std::remove_reference_t<Task>*>(context))(i, thread);
            },
            const_cast<void*>(static_cast<const void*>(&task)));
    }

  private:
    using Call = void (*)(void* context, std::int64_t index, int thread);
    void run_shared(std::int64_t count, Call call, void* context);
    void work(int thread);
    void drain(int thread);

    std::vector<int> cpus_;
    bool caller_pinned_ = false;
    // The job; written by the caller while it is closed and nobody takes part.
    Call call_ = nullptr;
    void* context_ = nullptr;
    std::int64_t count_ = 0;
    alignas(64) std::atomic<std::int64_t> next_{0};
    alignas(64) std::atomic<std::uint32_t> generation_{0};
    alignas(64) std::atomic<std::uint32_t> job_{0};  // kOpen, and how many workers take part
    std::atomic<bool> stop_{false};
    std::vector<std::thread> workers_;
};

}  // namespace helix::engine
