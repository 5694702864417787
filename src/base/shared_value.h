#pragma once

#include <memory>
#include <utility>

namespace helix::base {

// An optional value that nobody changes any more, so that all copies share it. Compares as the
// value does.
template <typename T>
class SharedValue {
  public:
    SharedValue() = default;
    SharedValue(T value) : value_(std::make_shared<const T>(std::move(value))) {}

    bool has_value() const { return value_ != nullptr; }
    explicit operator bool() const { return has_value(); }
    const T& operator*() const { return *value_; }
    const T* operator->() const { return value_.get(); }

    friend bool operator==(const SharedValue& a, const SharedValue& b) {
        if (a.value_ == b.value_) return true;
        return a.has_value() && b.has_value() && *a == *b;
    }

  private:
    std::shared_ptr<const T> value_;
};

}  // namespace helix::base
