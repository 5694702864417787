#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "byte_codec.h"

namespace helix::api {

// Makes those who come wait until it is opened.
class Gate {
  public:
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
    }
    // Waits at most ten seconds until this many wait.
    bool wait_for(int waiting) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(10),
                                 [&] { return waiting_ >= waiting; });
    }
    int came() {
        const std::lock_guard lock(mutex_);
        return waiting_;
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int waiting_ = 0;
    bool open_ = false;
};

// A codec for which some texts are long work, or too much. Prompts that begin with
//   "wait"   stand before the gate
//   "memory" find no memory
//   "length" are longer than any vector
//   "break"  meet a bug whose message is nobody's business
class GateCodec : public ByteCodec {
  public:
    explicit GateCodec(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

    std::vector<Token> encode(std::string_view text, bool add_special) const override {
        if (text.starts_with("wait")) gate_->pass();
        if (text.starts_with("memory")) throw std::bad_alloc();
        if (text.starts_with("length")) throw std::length_error("vector::_M_default_append");
        if (text.starts_with("break")) throw std::runtime_error("/secret/path is broken");
        return ByteCodec::encode(text, add_special);
    }

  private:
    std::shared_ptr<Gate> gate_;
};

}  // namespace helix::api
