#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace helix::cli {

// "helix serve" as a process of ours, on a free port of this machine that only it is reached by. It
// ends with this object, and with this process. Where it ends before, what it wrote is kept.
class LocalServer {
  public:
    // arguments: of serve, besides --listen. looks is asked ten times a second until it serves;
    // true gives up. Errors: it ended, with the last lines that it wrote; it was given up.
    static base::Result<std::unique_ptr<LocalServer>> start(
        const std::vector<std::string>& arguments, const std::function<bool()>& looks);
    ~LocalServer();
    LocalServer(const LocalServer&) = delete;
    LocalServer& operator=(const LocalServer&) = delete;

    const std::string& url() const { return url_; }

  private:
    LocalServer(pid_t pid, std::string url, std::string log)
        : pid_(pid), url_(std::move(url)), log_(std::move(log)) {}
    static base::Result<std::unique_ptr<LocalServer>> start_once(
        const std::vector<std::string>& arguments, const std::function<bool()>& looks);
    bool ended();
    base::Error how_it_ended() const;

    pid_t pid_;
    std::string url_;
    std::string log_;
    bool served_ = false;
};

}  // namespace helix::cli
