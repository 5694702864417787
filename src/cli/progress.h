#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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
    // The same with what note says after it, which is asked for when it is shown. total may be 0
    // for an unknown one: then there is no bar.
    void update(std::uint64_t done, std::uint64_t total, const std::function<std::string()>& note);
    // Takes the line away, so that another one can be written; the next update draws it again.
    void interrupt();

  private:
    std::string what_;
    std::chrono::steady_clock::time_point began_;
    std::chrono::steady_clock::time_point shown_;
    bool drawn_ = false;
};

}  // namespace helix::cli
