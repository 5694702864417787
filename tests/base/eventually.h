#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/effort.h"

namespace helix {

// Waits until the condition holds, at most so many seconds on a quick and idle machine; whether it
// does.
inline bool eventually(const std::function<bool()>& condition, int seconds = 60) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds * kPatience);
    while (std::chrono::steady_clock::now() < until) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return condition();
}

}  // namespace helix
