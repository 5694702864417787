#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace helix::cli {

// A progress line on standard error for work of over two seconds: a bar on a terminal, a line every
// ten seconds elsewhere. Silent before that.
class ProgressLine {
  public:
    explicit ProgressLine(std::string what);
    ~ProgressLine();
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;
    void update(std::uint64_t done, std::uint64_t total);

  private:
    std::string what_;
    std::chrono::steady_clock::time_point began_;
    std::chrono::steady_clock::time_point shown_;
    bool drawn_ = false;
};

}  // namespace helix::cli
