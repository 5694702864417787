#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace helix::net {

// Bytes that many holders share, up to a limit. A budget that is part of a whole also takes from
// the whole all that it gives. For any thread.
class MemoryBudget {
  public:
    explicit MemoryBudget(std::size_t limit_bytes, std::shared_ptr<MemoryBudget> whole = nullptr)
        : limit_bytes_(limit_bytes), whole_(std::move(whole)) {}
    MemoryBudget(const MemoryBudget&) = delete;
    MemoryBudget& operator=(const MemoryBudget&) = delete;

    std::size_t limit_bytes() const { return limit_bytes_; }
    std::size_t used_bytes() const { return used_bytes_.load(); }
    // What large holders may take; the rest is for small ones, so that these are not kept out.
    static std::size_t part_of_large(std::size_t limit_bytes) {
        return limit_bytes - limit_bytes / 16;
    }
    // Whether this many more bytes for a small or large holder are too much for this budget itself,
    // and not only for the whole.
    bool lacks(std::size_t more, bool large) const {
        return beyond(used_bytes_.load(), more, large);
    }

    // What one holder has taken, which is given back when this is destroyed.
    class Share {
      public:
        explicit Share(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
        ~Share() { budget_->give_back(bytes_); }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;

        // False if the budget has not so much left for a holder of this kind; then nothing has
        // changed.
        bool grow_to(std::size_t bytes, bool large) {
            if (bytes <= bytes_) return true;
            if (!budget_->take(bytes - bytes_, large)) return false;
            bytes_ = bytes;
            return true;
        }
        std::size_t bytes() const { return bytes_; }
        const MemoryBudget& budget() const { return *budget_; }

      private:
        std::shared_ptr<MemoryBudget> budget_;
        std::size_t bytes_ = 0;
    };

  private:
    bool beyond(std::size_t used, std::size_t more, bool large) const {
        const std::size_t limit = large ? part_of_large(limit_bytes_) : limit_bytes_;
        return used > limit || more > limit - used;
    }
    bool take(std::size_t more, bool large) {
        std::size_t used = used_bytes_.load();
        do {
            if (beyond(used, more, large)) return false;
        } while (!used_bytes_.compare_exchange_weak(used, used + more));
        if (whole_ == nullptr || whole_->take(more, large)) return true;
        used_bytes_ -= more;
        return false;
    }
    void give_back(std::size_t bytes) {
        used_bytes_ -= bytes;
        if (whole_ != nullptr) whole_->give_back(bytes);
    }

    const std::size_t limit_bytes_;
    const std::shared_ptr<MemoryBudget> whole_;
    std::atomic<std::size_t> used_bytes_{0};  // never above the limit
};

}  // namespace helix::net
