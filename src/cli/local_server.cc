#include "cli/local_server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/escape.h"
#include "base/spawn.h"
#include "net/http_client.h"

namespace helix::cli {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kEndsWithin{10};
constexpr int kPortsTried = 5;
constexpr std::size_t kShownBytes = 2000;  // of a log

base::Error failed(const std::string& what) {
    return {base::Errc::unavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

// A port that nobody uses now.
base::Result<int> free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return failed("socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const bool bound = ::bind(fd, any, size) == 0 && ::getsockname(fd, any, &size) == 0;
    const base::Error error = failed("a port of 127.0.0.1");
    ::close(fd);
    if (!bound) return error;
    return ntohs(address.sin_port);
}

// An empty file for this user only.
base::Result<std::string> log_file() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "helix-run-XXXXXX").string();
    const int fd = ::mkstemp(name.data());
    if (fd < 0) return failed(name);
    ::close(fd);
    return name;
}

// 200: it serves; 0: it does not listen yet.
int health(net::HttpClient& client) {
    net::HttpCall call;
    call.path = "/health";
    call.limit = std::chrono::seconds(2);
    const auto answer = net::http_call(client, std::move(call));
    return answer.ok() ? answer->status : 0;
}

}  // namespace

base::Result<std::unique_ptr<LocalServer>> LocalServer::start(
    const std::vector<std::string>& arguments, const std::function<bool()>& looks) {
    auto server = start_once(arguments, looks);
    // Somebody may have taken the port before the server could.
    for (int again = 0; again < kPortsTried && !server.ok(); ++again) {
        if (server.error().message.find(std::strerror(EADDRINUSE)) == std::string::npos) break;
        server = start_once(arguments, looks);
    }
    return server;
}

base::Result<std::unique_ptr<LocalServer>> LocalServer::start_once(
    const std::vector<std::string>& arguments, const std::function<bool()>& looks) {
    TRY(const int port, free_port());
    TRY(const std::string log, log_file());
    const std::string address = fmt::format("127.0.0.1:{}", port);
    std::error_code error;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) return base::Error{base::Errc::io, "/proc/self/exe: " + error.message()};
    std::vector<std::string> command{self, "serve", "--listen", address, "--end-with-parent"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    TRY(const pid_t pid, base::spawn({std::move(command), {}, log}));
    std::unique_ptr<LocalServer> server(new LocalServer(pid, "http://" + address, log));
    TRY(net::HttpTarget target, net::parse_http_url(server->url_));
    TRY(const auto client, net::HttpClient::create(std::move(target)));
    while (true) {
        if (server->ended()) return server->how_it_ended();
        if (health(*client) == 200) break;
        if (looks && looks()) return base::Error{base::Errc::unavailable, "interrupted"};
        ::usleep(static_cast<useconds_t>(kLook.count() * 1000));
    }
    server->served_ = true;
    return server;
}

bool LocalServer::ended() {
    if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    return pid_ <= 0;
}

base::Error LocalServer::how_it_ended() const {
    std::ifstream file(log_);
    std::stringstream text;
    text << file.rdbuf();
    std::string said = text.str();
    if (said.size() > kShownBytes) said = "..." + said.substr(said.size() - kShownBytes);
    while (said.ends_with('\n')) said.pop_back();
    return {base::Errc::unavailable, "\"helix serve\" ended:\n" + base::escaped_lines(said)};
}

LocalServer::~LocalServer() {
    if (served_ && ended()) {
        std::fprintf(stderr, "helix: the server ended by itself; what it wrote is in %s\n",
                     log_.c_str());
        return;
    }
    const auto until = std::chrono::steady_clock::now() + kEndsWithin;
    if (!ended()) ::kill(pid_, SIGTERM);
    while (!ended() && std::chrono::steady_clock::now() < until) ::usleep(20'000);
    if (!ended()) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    ::unlink(log_.c_str());
}

}  // namespace helix::cli
