#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace helix::cli {

// While it lives, SIGINT and SIGTERM call stop (on a thread of its own); a second signal ends the
// process at once. Make it before starting other threads: they inherit the blocked signals.
class Interrupt {
  public:
    explicit Interrupt(std::function<void()> stop);
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// That a process is to stop, which one thread waits for.
class StopWish {
  public:
    void ask();  // any thread
    void wait();
    bool asked();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool asked_ = false;
};

// Blocks SIGINT and SIGTERM in the calling thread and those it starts; Interrupt receives them.
void block_interrupts();

}  // namespace helix::cli
