#include "engine/thread_pool.h"

#include <pthread.h>
#include <sched.h>

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

void pin_this_thread(const std::vector<int>& cpus, int thread) {
    if (cpus.empty()) return;
    const int cpu = cpus[static_cast<std::size_t>(thread) % cpus.size()];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) {
        LOG_WARN("cannot pin engine thread {} to core {}", thread, cpu);
    }
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::vector<int> cpus) : cpus_(std::move(cpus)) {
    CHECK(threads >= 1);
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
    stop_.store(true, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::drain(int thread) {
    for (;;) {
        const std::int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= count_) return;
        call_(context_, i, thread);
    }
}

void ThreadPool::work(int thread) {
    pin_this_thread(cpus_, thread);
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

void ThreadPool::run_shared(std::int64_t count, Call call, void* context) {
    if (!caller_pinned_) {
        pin_this_thread(cpus_, 0);
        caller_pinned_ = true;
    }
    call_ = call;
    context_ = context;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    job_.store(kOpen, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    drain(0);
    std::uint32_t left = job_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    while (left != 0) {
        wait_while_equal(job_, left);
        left = job_.load(std::memory_order_acquire);
    }
}

}  // namespace helix::engine
