#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace helix::base {

// A map from numbers to plain values that finds one in one or two looks, whatever its size: a hash
// table with linear probing. It has no order, so one cannot iterate over it.
template <typename Value>
class IdMap {
    static_assert(std::is_trivially_copyable_v<Value>);

  public:
    std::size_t size() const { return size_; }

    // Null if there is none; valid until the next insert or erase.
    const Value* find(std::uint64_t id) const {
        if (slots_.empty()) return nullptr;
        const Slot& slot = slots_[place_of(id)];
        return slot.used ? &slot.value : nullptr;
    }
    // Asks for the place where the id is, before find() looks there.
    void prefetch(std::uint64_t id) const {
        if (!slots_.empty()) __builtin_prefetch(&slots_[home_of(id)]);
    }
    // id must be new.
    void insert(std::uint64_t id, Value value) {
        if ((size_ + 1) * 2 > slots_.size()) grow();
        Slot& slot = slots_[place_of(id)];
        CHECK(!slot.used);
        slot = {id, value, true};
        ++size_;
    }
    // id must be here. Entries that it had pushed to later places move back.
    void erase(std::uint64_t id) {
        CHECK(!slots_.empty());
        std::size_t hole = place_of(id);
        CHECK(slots_[hole].used);
        for (std::size_t at = next(hole); slots_[at].used; at = next(at)) {
            const std::size_t home = home_of(slots_[at].id);
            const std::size_t mask = slots_.size() - 1;
            if (((at - home) & mask) < ((at - hole) & mask)) continue;
            slots_[hole] = slots_[at];
            hole = at;
        }
        slots_[hole].used = false;
        --size_;
    }

  private:
    struct Slot {
        std::uint64_t id = 0;
        Value value = {};
        bool used = false;
    };
    static constexpr std::size_t kLeastSlots = 16;

    std::size_t home_of(std::uint64_t id) const {
        return static_cast<std::size_t>(mix64(id)) & (slots_.size() - 1);
    }
    std::size_t next(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
    // The place where id is, or would be put.
    std::size_t place_of(std::uint64_t id) const {
        std::size_t at = home_of(id);
        while (slots_[at].used && slots_[at].id != id) at = next(at);
        return at;
    }
    void grow() {
        std::vector<Slot> old(slots_.empty() ? kLeastSlots : slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.used) slots_[place_of(slot.id)] = slot;
        }
    }

    std::vector<Slot> slots_;  // a power of two, at most half used
    std::size_t size_ = 0;
};

}  // namespace helix::base
