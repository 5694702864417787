#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "engine/host/flushed_subnormals.h"
#include "engine/host/numa_nodes.h"

namespace helix::engine {

// Threads that run the tasks of one step together with the caller. Which thread runs which task is
// left to chance, so tasks must not depend on it. One thread calls run() at a time. In tasks
// subnormal numbers are zeros (FlushedSubnormals).
//
// Idle threads spin for some tens of microseconds and then sleep: several processes may share these
// cores. A job does not wait for threads that were not there to take part: when the cores are busy
// elsewhere, the caller does the work alone.
//
// The threads are divided into ranks of about the same size. Each rank works on data of its own,
// which lies near the cores that its threads run on: run_ranks() waits for them.
class ThreadPool {
  public:
    // threads counts the caller, who is thread 0. cpus: cores to pin to, thread i to cpus[i %
    // size]; the caller is pinned at its first run(). Empty = not pinned.
    explicit ThreadPool(int threads, const std::vector<int>& cpus = {});
    explicit ThreadPool(ThreadPlaces places);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(places_.cores.size()); }
    int ranks() const { return places_.ranks; }
    // Memory that one rank touched first may be far from another.
    bool several_nodes() const { return places_.several_nodes; }

    // Calls task(index, thread) once for every index in [0, count); returns when all are done.
    template <typename Task>
    void run(std::int64_t count, Task&& task) {
        if (size() == 1 || count <= 1) {
            run_alone(count, task);
            return;
        }
        run_shared(
            count, false,
            [](void* context, int, std::int64_t i, int thread) {
                (*static_cast<std::remove_reference_t<Task>*>(context))(i, thread);
            },
            const_cast<void*>(static_cast<const void*>(&task)));
    }

    // Calls task(begin, end) once for every piece of [0, count); a piece has `most` indices, and
    // the last one what is left.
    template <typename Task>
    void run_pieces(std::int64_t count, std::int64_t most, Task&& task) {
        run((count + most - 1) / most, [&](std::int64_t piece, int /*thread*/) {
            task(piece * most, std::min(count, (piece + 1) * most));
        });
    }

    // As run(), but by the caller alone: for work so small that waking the others would take
    // longer.
    template <typename Task>
    void run_alone(std::int64_t count, Task&& task) {
        const FlushedSubnormals flushed;
        for (std::int64_t i = 0; i < count; ++i) task(i, 0);
    }

    // Calls task(rank, index, thread) once for every rank and every index in [0, count), on a
    // thread of that rank; returns when all are done.
    template <typename Task>
    void run_ranks(std::int64_t count, Task&& task) {
        if (count <= 0) return;
        if (ranks() == 1) {
            run(count, [&](std::int64_t i, int thread) { task(0, i, thread); });
            return;
        }
        run_shared(
            count, true,
            [](void* context, int rank, std::int64_t i, int thread) {
                (*static_cast<std::remove_reference_t<Task>*>(context))(rank, i, thread);
            },
            const_cast<void*>(static_cast<const void*>(&task)));
    }

  private:
    using Call = void (*)(void* context, int rank, std::int64_t index, int thread);
    struct alignas(64) Queue {
        std::atomic<std::int64_t> next{0};
    };
    void run_shared(std::int64_t count, bool by_rank, Call call, void* context);
    void work(int thread);
    void drain(int thread);

    ThreadPlaces places_;
    bool caller_pinned_ = false;
    // The job; written by the caller while it is closed and nobody takes part.
    Call call_ = nullptr;
    void* context_ = nullptr;
    std::int64_t count_ = 0;
    bool by_rank_ = false;
    std::vector<Queue> queues_;  // of each rank; a job that is not by rank has the first
    alignas(64) std::atomic<std::uint32_t> ranks_left_{0};  // whose queue is not empty
    alignas(64) std::atomic<std::uint32_t> generation_{0};
    alignas(64) std::atomic<std::uint32_t> job_{0};  // kOpen, and how many workers take part
    std::atomic<bool> stop_{false};
    std::vector<std::thread> workers_;
};

}  // namespace helix::engine
