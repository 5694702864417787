#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace helix::base {

// A std::vector of plain values that keeps up to kInline of them inside itself: where one or two
// are the rule, nothing is allocated. Its elements move when it moves.
template <typename T, std::uint32_t kInline>
class InlineVector {
    static_assert(std::is_trivially_copyable_v<T> && kInline > 0);

  public:
    using value_type = T;

    InlineVector() = default;
    InlineVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
    InlineVector(const std::vector<T>& values) { assign(values.begin(), values.end()); }
    InlineVector(const InlineVector& other) { copy(other); }
    InlineVector(InlineVector&& other) noexcept { take(other); }
    InlineVector& operator=(const InlineVector& other) {
        if (this != &other) copy(other);
        return *this;
    }
    InlineVector& operator=(InlineVector&& other) noexcept {
        if (this == &other) return *this;
        if (on_heap()) delete[] store_.heap;
        take(other);
        return *this;
    }
    ~InlineVector() {
        if (on_heap()) delete[] store_.heap;
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return on_heap() ? store_.heap : store_.inside; }
    const T* data() const { return on_heap() ? store_.heap : store_.inside; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }
    const T& front() const { return data()[0]; }
    const T& back() const { return data()[size_ - 1]; }

    void clear() { size_ = 0; }
    void push_back(T value) {
        make_room(std::size_t{size_} + 1);
        data()[size_++] = value;
    }
    void erase_front(std::size_t count) {
        CHECK(count <= size_);
        if (count < size_) std::copy(begin() + count, end(), begin());
        size_ -= static_cast<std::uint32_t>(count);
    }
    template <typename Iterator>
    void append(Iterator first, Iterator last) {
        const auto count = static_cast<std::size_t>(std::distance(first, last));
        make_room(size_ + count);
        if (count == 1) {  // the rule, and no call
            *end() = *first;
        } else {
            std::copy(first, last, end());
        }
        size_ += static_cast<std::uint32_t>(count);
    }
    template <typename Iterator, typename = std::enable_if_t<!std::is_integral_v<Iterator>>>
    void assign(Iterator first, Iterator last) {
        clear();
        append(first, last);
    }
    void assign(std::size_t count, T value) {
        clear();
        make_room(count);
        std::fill_n(data(), count, value);
        size_ = static_cast<std::uint32_t>(count);
    }

    friend bool operator==(const InlineVector& a, const InlineVector& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

  private:
    bool on_heap() const { return capacity_ > kInline; }
    void copy(const InlineVector& other) {
        if (on_heap() || other.on_heap()) return assign(other.begin(), other.end());
        store_ = other.store_;
        size_ = other.size_;
    }
    // Takes over the other's elements, which is then empty. Our own memory must have been given
    // back.
    void take(InlineVector& other) noexcept {
        std::memcpy(&store_, &other.store_, sizeof store_);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, kInline);
    }
    void make_room(std::size_t wanted) {
        if (wanted <= capacity_) return;
        CHECK(wanted <= std::numeric_limits<std::uint32_t>::max() / 2);
        const std::size_t room = std::max<std::size_t>(wanted, std::size_t{capacity_} * 2);
        T* larger = new T[room];
        std::copy(begin(), end(), larger);
        if (on_heap()) delete[] store_.heap;
        store_.heap = larger;
        capacity_ = static_cast<std::uint32_t>(room);
    }

    union Store {
        T inside[kInline];
        T* heap;
    };
    Store store_ = {};
    std::uint32_t size_ = 0;
    std::uint32_t capacity_ = kInline;
};

}  // namespace helix::base
