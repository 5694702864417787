#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/eventually.h"

// Real processes of the helix binary, and a very small HTTP client.

namespace helix::cluster {

// A port that was free a moment ago.
inline int free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(fd);
    return ntohs(address.sin_port);
}

class Process {
  public:
    // log is the file that standard output and error go to.
    Process(const std::vector<std::string>& arguments, std::string log) : log_(std::move(log)) {
        std::vector<std::string> words{HELIX_BINARY};
        words.insert(words.end(), arguments.begin(), arguments.end());
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        pid_ = ::fork();
        if (pid_ == 0) {
            const int fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
            ::dup2(fd, STDOUT_FILENO);
            ::dup2(fd, STDERR_FILENO);
            ::execv(HELIX_BINARY, argv.data());
            ::_exit(127);
        }
    }
    ~Process() { stop(SIGKILL); }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    // The exit status, -1 after a signal.
    int stop(int signal) {
        if (pid_ <= 0) return -1;
        ::kill(pid_, signal);
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    void signal(int number) const { ::kill(pid_, number); }
    bool running() const { return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }
    std::string log() const {
        std::ifstream file(log_);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    // What the process has in memory of its own: pages of files, which it shares with others of its
    // program, do not count.
    std::int64_t own_resident_bytes() const {
        std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
        std::int64_t total = 0;
        std::int64_t resident = 0;
        std::int64_t shared = 0;
        file >> total >> resident >> shared;
        return (resident - shared) * ::sysconf(_SC_PAGESIZE);
    }
    // The process's user and system time so far.
    double cpu_seconds() const {
        std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
        std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        text.erase(0, text.rfind(')') + 2);
        std::string word;
        double ticks = 0;
        std::size_t field = 3;
        for (std::size_t at = 0; at < text.size(); ++field) {
            const std::size_t end = text.find(' ', at);
            if (field == 14 || field == 15) ticks += std::stod(text.substr(at, end - at));
            if (end == std::string::npos) break;
            at = end + 1;
        }
        return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
    }

  private:
    std::string log_;
    pid_t pid_ = -1;
};

// The whole answer, with status line and headers; "" when nobody answers. on_data hears it grow.
// headers are more "name: value\r\n" lines.
inline std::string http(int port, const std::string& method, const std::string& target,
                        const std::string& body = "",
                        const std::function<void(const std::string& so_far)>& on_data = {},
                        const std::string& headers = {}) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    std::string answer;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        const std::string request = method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
                                    "Connection: close\r\nContent-Type: application/json\r\n" +
                                    "Content-Length: " + std::to_string(body.size()) + "\r\n" +
                                    headers + "\r\n" + body;
        ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
        std::string piece(4096, '\0');
        while (true) {
            const ssize_t got = ::recv(fd, piece.data(), piece.size(), 0);
            if (got <= 0) break;
            answer.append(piece, 0, static_cast<std::size_t>(got));
            if (on_data) on_data(answer);
        }
    }
    ::close(fd);
    return answer;
}

class Folder {
  public:
    Folder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "helix-cluster-XXXXXX").string();
        path_ = ::mkdtemp(name.data()) == nullptr ? "/nonexistent" : name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace helix::cluster
