#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace helix::net {

// Bytes that many holders share; what is over the limit is not given. Any thread.
class MemoryBudget {
  public:
    explicit MemoryBudget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}
    MemoryBudget(const MemoryBudget&) = delete;
    MemoryBudget& operator=(const MemoryBudget&) = delete;

    std::size_t limit_bytes() const { return limit_bytes_; }
    std::size_t used_bytes() const { return used_bytes_.load(); }

    // What one holder has taken; gives it back at its end.
    class Share {
      public:
        explicit Share(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
        ~Share() { budget_->used_bytes_ -= bytes_; }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;

        // False: nothing changed, the budget has not so much left.
        bool grow_to(std::size_t bytes) {
            if (bytes <= bytes_) return true;
            const std::size_t more = bytes - bytes_;
            std::size_t used = budget_->used_bytes_.load();
            do {
                if (more > budget_->limit_bytes_ - used) return false;
            } while (!budget_->used_bytes_.compare_exchange_weak(used, used + more));
            bytes_ = bytes;
            return true;
        }
        std::size_t bytes() const { return bytes_; }

      private:
        std::shared_ptr<MemoryBudget> budget_;
        std::size_t bytes_ = 0;
    };

  private:
    const std::size_t limit_bytes_;
    std::atomic<std::size_t> used_bytes_{0};  // never above the limit
};

}  // namespace helix::net
