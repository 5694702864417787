#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

namespace helix::cli {
namespace {

sigset_t interrupts() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

}  // namespace

void block_interrupts() {
    const sigset_t set = interrupts();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void StopWish::ask() {
    const std::lock_guard lock(mutex_);
    asked_ = true;
    changed_.notify_all();
}

void StopWish::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asked_; });
}

bool StopWish::asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
}

struct Interrupt::Impl {
    std::function<void()> stop;
    std::atomic<bool> over{false};
    std::thread thread;

    void wait() {
        const sigset_t set = interrupts();
        const timespec pause{0, 100'000'000};
        int seen = 0;
        while (!over) {
            if (sigtimedwait(&set, nullptr, &pause) < 0) continue;
            if (seen++ > 0) _exit(130);
            stop();
        }
    }
};

Interrupt::Interrupt(std::function<void()> stop) : impl_(std::make_unique<Impl>()) {
    block_interrupts();
    impl_->stop = std::move(stop);
    impl_->thread = std::thread([this] { impl_->wait(); });
}

Interrupt::~Interrupt() {
    impl_->over = true;
    impl_->thread.join();
}

}  // namespace helix::cli
