#include "api/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "api/json_text.h"
#include "base/log.h"

namespace helix::api {
namespace {

constexpr base::Duration kLookEvery = base::from_ms(500);
constexpr int kClientGone = 499;  // nginx's status: the client left before there was one

base::Result<int> open_file(const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    return base::Error{base::Errc::io,
                       fmt::format("--access-log: {}: {}", path, std::strerror(errno))};
}

std::string utc_now() {
    const auto now = std::chrono::system_clock::now();
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                       fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

void append_text(std::string& line, std::string_view name, std::string_view text) {
    line += fmt::format(",\"{}\":", name);
    append_json_string(line, text);
}

std::string line_of(const net::HttpExchange& exchange, const Passage& passage, int status,
                    double seconds) {
    const net::HttpRequest& request = exchange.request();
    std::string line = "{\"time\":\"" + utc_now() + "\"";
    append_text(line, "peer", request.peer);
    if (!passage.key.empty()) append_text(line, "key", passage.key);
    append_text(line, "method", request.method);
    append_text(line, "path", request.path);
    line += fmt::format(",\"status\":{},\"bytes\":{},\"seconds\":{:.6f}", status,
                        exchange.body_bytes(), seconds);
    append_text(line, "request_id", request.request_id);
    for (const auto& [name, value] : exchange.counts()) {
        line += fmt::format(",\"{}\":{}", name, value);
    }
    if (!exchange.complete()) line += ",\"aborted\":true";
    if (passage.access == Access::admin) line += ",\"admin\":true";
    return line + "}\n";
}

}  // namespace

base::Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
    int fd = STDOUT_FILENO;
    if (path != "-") {
        TRY(fd, open_file(path));
    }
    return std::unique_ptr<AccessLog>(new AccessLog(path, fd));
}

AccessLog::~AccessLog() {
    if (path_ != "-") ::close(fd_);
}

void AccessLog::write(std::string line) {
    std::string_view rest = line;
    while (!rest.empty()) {
        const ssize_t n = ::write(fd_, rest.data(), rest.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            // A failing log is told of once, and answering goes on.
            if (!failing_) LOG_ERROR("--access-log: {}: {}", path_, std::strerror(errno));
            failing_ = true;
            return;
        }
        rest.remove_prefix(static_cast<std::size_t>(n));
    }
    failing_ = false;
}

void AccessLog::write(const net::HttpRefused& refused) {
    std::string line = "{\"time\":\"" + utc_now() + "\"";
    append_text(line, "peer", refused.peer);
    if (!refused.method.empty()) append_text(line, "method", refused.method);
    if (!refused.path.empty()) append_text(line, "path", refused.path);
    line += fmt::format(",\"status\":{}", refused.status);
    append_text(line, "refused", refused.message);
    write(line + "}\n");
}

void AccessLog::on_tick(base::TimePoint now) {
    if (path_ == "-" || now - looked_ < kLookEvery) return;
    looked_ = now;
    struct stat there = {};
    struct stat ours = {};
    if (::fstat(fd_, &ours) != 0) return;
    if (::stat(path_.c_str(), &there) == 0 && there.st_ino == ours.st_ino &&
        there.st_dev == ours.st_dev) {
        return;
    }
    const auto opened = open_file(path_);
    if (!opened.ok()) {
        if (!failing_) LOG_ERROR("{}", opened.error().message);
        failing_ = true;
        return;
    }
    ::close(fd_);
    fd_ = *opened;
}

void log_end(AccessLog* log, net::HttpExchange& exchange, const Passage& passage,
             const std::function<base::TimePoint()>& clock, bool passed) {
    const bool audited = passed && passage.access == Access::admin &&
                         exchange.request().method != "GET" && exchange.request().method != "HEAD";
    if (log == nullptr && !audited) return;
    exchange.on_end(
        [log, passage, audited, clock, began = clock()](const net::HttpExchange& ended) {
            const int status = ended.status() == 0 ? kClientGone : ended.status();
            if (log != nullptr)
                log->write(line_of(ended, passage, status, (clock() - began).seconds()));
            if (!audited) return;
            const net::HttpRequest& request = ended.request();
            LOG_INFO("admin: {} from {}: {} {}: {}",
                     passage.key.empty() ? "no key" : "key " + passage.key, request.peer,
                     request.method, request.path, status);
        });
}

}  // namespace helix::api
