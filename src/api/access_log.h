#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/guard.h"
#include "base/result.h"
#include "base/time.h"
#include "net/http_server.h"

namespace helix::api {

// A file with one JSON object a line for every request that was answered or refused.
class AccessLog {
  public:
    // Appends to the file, which is made with mode 0600; "-" is standard output.
    static base::Result<std::unique_ptr<AccessLog>> open(const std::string& path);
    ~AccessLog();
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;

    void write(std::string line);
    // Logs a request that was refused before it was read as a whole.
    void write(const net::HttpRefused& refused);
    // To be called now and then: opens the file anew when it was moved away, as log rotation does.
    void on_tick(base::TimePoint now);

  private:
    AccessLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

    std::string path_;
    int fd_ = -1;
    base::TimePoint looked_;
    bool failing_ = false;
};

// Has the end of this answer logged: in the access log, if there is one, and in the program's log
// when it is what an admin asked for and was let pass.
void log_end(AccessLog* log, net::HttpExchange& exchange, const Passage& passage,
             const std::function<base::TimePoint()>& clock, bool passed);

}  // namespace helix::api
