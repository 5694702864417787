#include "engine/host/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/log.h"

namespace helix::engine {
namespace {

constexpr std::uint32_t kOpen = 1U << 31U;
constexpr int kSpins = 2000;  // about 50 us

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Returns once value differs from old.
void wait_while_equal(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
    for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax();
    }
    while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void pin_this_thread(const ThreadPlaces& places, int thread) {
    const std::vector<int>& cores = places.cores[static_cast<std::size_t>(thread)];
    if (cores.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<unsigned>(core), &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) {
        LOG_WARN("cannot pin engine thread {} to core {}", thread, fmt::join(cores, ", "));
    }
}

}  // namespace

ThreadPool::ThreadPool(int threads, const std::vector<int>& cpus)
    : ThreadPool(place_threads(threads, 1, cpus, {})) {}

ThreadPool::ThreadPool(ThreadPlaces places)
    : places_(std::move(places)), queues_(static_cast<std::size_t>(places_.ranks)) {
    CHECK(ranks() >= 1 && size() >= ranks());
    for (int i = 1; i < size(); ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
    stop_.store(true, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::drain(int thread) {
    const FlushedSubnormals flushed;
    const int rank = by_rank_ ? thread * ranks() / size() : 0;
    std::atomic<std::int64_t>& next = queues_[static_cast<std::size_t>(rank)].next;
    for (;;) {
        const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i < count_) {
            call_(context_, rank, i, thread);
            continue;
        }
        // The first to find it empty says so.
        if (by_rank_ && i == count_ && ranks_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            ranks_left_.notify_one();
        }
        return;
    }
}

void ThreadPool::work(int thread) {
    pin_this_thread(places_, thread);
    std::uint32_t seen = 0;
    for (;;) {
        wait_while_equal(generation_, seen);
        seen = generation_.load(std::memory_order_acquire);
        if (stop_.load(std::memory_order_acquire)) return;
        std::uint32_t job = job_.load(std::memory_order_acquire);
        while ((job & kOpen) != 0 &&
               !job_.compare_exchange_weak(job, job + 1, std::memory_order_acq_rel)) {
        }
        if ((job & kOpen) == 0) continue;  // too late
        drain(thread);
        if (job_.fetch_sub(1, std::memory_order_acq_rel) == 1) job_.notify_one();
    }
}

void ThreadPool::run_shared(std::int64_t count, bool by_rank, Call call, void* context) {
    if (!caller_pinned_) {
        pin_this_thread(places_, 0);
        caller_pinned_ = true;
    }
    call_ = call;
    context_ = context;
    count_ = count;
    by_rank_ = by_rank;
    for (Queue& queue : queues_) queue.next.store(0, std::memory_order_relaxed);
    ranks_left_.store(static_cast<std::uint32_t>(ranks()), std::memory_order_relaxed);
    job_.store(kOpen, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    drain(0);
    // Only the threads of a rank can do its tasks: the job stays open until they have come.
    for (std::uint32_t ranks = 0;
         by_rank && (ranks = ranks_left_.load(std::memory_order_acquire)) != 0;) {
        wait_while_equal(ranks_left_, ranks);
    }
    std::uint32_t left = job_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    while (left != 0) {
        wait_while_equal(job_, left);
        left = job_.load(std::memory_order_acquire);
    }
}

}  // namespace helix::engine
