#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace helix::base {

// Memory for many objects of one kind that come and go and stay where they are while they live.
// They lie side by side in blocks, each at its alignment; the place of one that is gone is used
// next. Whoever makes objects drops them before the slab goes. With sanitizers each has memory of
// its own, so that they see when one is used that is gone.
template <typename T>
class Slab {
  public:
    Slab() = default;
    Slab(const Slab&) = delete;
    Slab& operator=(const Slab&) = delete;
    ~Slab() = default;

    template <typename... Arguments>
    T& make(Arguments&&... arguments) {
#ifdef HELIX_SANITIZED
        return *new T(std::forward<Arguments>(arguments)...);
#else
        if (free_.empty()) add_block();
        T* object = ::new (free_.back()->bytes) T(std::forward<Arguments>(arguments)...);
        free_.pop_back();
        return *object;
#endif
    }
    void drop(T& object) {
#ifdef HELIX_SANITIZED
        delete &object;
#else
        object.~T();
        free_.push_back(reinterpret_cast<Place*>(&object));
#endif
    }

  private:
    static constexpr std::size_t kInBlock = 16;
    struct Place {
        alignas(T) std::byte bytes[sizeof(T)];
    };

    void add_block() {
        const auto& block = blocks_.emplace_back(std::make_unique<Place[]>(kInBlock));
        for (std::size_t i = kInBlock; i > 0; --i) free_.push_back(&block[i - 1]);
    }

    std::vector<std::unique_ptr<Place[]>> blocks_;
    std::vector<Place*> free_;
};

}  // namespace helix::base
