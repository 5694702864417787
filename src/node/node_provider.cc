#include "node/node_provider.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "base/spawn.h"

namespace helix::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kStopTime = std::chrono::seconds(10);  // between SIGTERM and SIGKILL

base::Error unavailable(std::string message) {
    return {base::Errc::unavailable, std::move(message)};
}

// Whether the process has ended by then; sets its status if it has.
bool wait_until(pid_t pid, Clock::time_point end, int& status) {
    while (true) {
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) return true;
        if (Clock::now() >= end) return false;
        std::this_thread::sleep_for(kLook);
    }
}

std::string how_it_ended(int status) {
    return WIFEXITED(status) ? fmt::format("ended with {}", WEXITSTATUS(status))
                             : fmt::format("ended by signal {}", WTERMSIG(status));
}

void kill_group(pid_t pid) {
    int status = 0;
    kill(-pid, SIGTERM);
    if (wait_until(pid, Clock::now() + kStopTime, status)) return;
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
}

class LocalProvider final : public NodeProvider {
  public:
    LocalProvider(std::string program, std::string join, std::vector<std::string> arguments)
        : program_(std::move(program)), join_(std::move(join)), arguments_(std::move(arguments)) {}
    ~LocalProvider() override {
        std::erase_if(running_, [](const auto& worker) { return worker.second == kEnded; });
        for (const auto& [name, pid] : running_) kill(-pid, SIGTERM);  // all at once
        for (const auto& [name, pid] : running_) kill_group(pid);
    }

    base::Status start(const std::string& name) override {
        std::vector<std::string> command = {program_, "worker", "--join", join_, "--name", name};
        command.insert(command.end(), arguments_.begin(), arguments_.end());
        TRY(const pid_t pid, base::spawn({command, {}, {}}));
        running_[name] = pid;
        return base::Ok{};
    }
    base::Status stop(const std::string& name) override {
        const auto it = running_.find(name);
        if (it == running_.end()) return base::invalid("no worker '" + name + "' was started here");
        if (it->second != kEnded) kill_group(it->second);
        running_.erase(it);
        return base::Ok{};
    }
    std::vector<Ended> take_ended() override {
        std::vector<Ended> ended;
        for (auto& [name, pid] : running_) {
            int status = 0;
            if (pid == kEnded || waitpid(pid, &status, WNOHANG) != pid) continue;
            pid = kEnded;
            ended.push_back({name, how_it_ended(status)});
        }
        return ended;
    }

  private:
    static constexpr pid_t kEnded = -1;

    std::string program_;
    std::string join_;
    std::vector<std::string> arguments_;
    std::map<std::string, pid_t> running_;
};

class CommandProvider final : public NodeProvider {
  public:
    CommandProvider(std::string command, std::string join, int timeout_s)
        : command_(std::move(command)), join_(std::move(join)), timeout_s_(timeout_s) {}

    base::Status start(const std::string& name) override { return run("start", name); }
    base::Status stop(const std::string& name) override { return run("stop", name); }

  private:
    base::Status run(const std::string& verb, const std::string& name) const {
        const std::string line = command_ + " \"$@\"";
        TRY(const pid_t pid,
            base::spawn(
                {{"/bin/sh", "-c", line, "helix", verb, name}, {"HELIX_JOIN=" + join_}, {}}));
        const std::string what = fmt::format("'{} {} {}'", command_, verb, name);
        int status = 0;
        if (!wait_until(pid, Clock::now() + std::chrono::seconds(timeout_s_), status)) {
            kill_group(pid);
            return unavailable(fmt::format("{} took more than {} s", what, timeout_s_));
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return base::Ok{};
        return unavailable(what + " " + how_it_ended(status));
    }

    std::string command_;
    std::string join_;
    int timeout_s_;
};

}  // namespace

std::unique_ptr<NodeProvider> local_provider(std::string program, std::string join,
                                             std::vector<std::string> arguments) {
    return std::make_unique<LocalProvider>(std::move(program), std::move(join),
                                           std::move(arguments));
}

std::unique_ptr<NodeProvider> command_provider(std::string command, std::string join,
                                               int timeout_s) {
    return std::make_unique<CommandProvider>(std::move(command), std::move(join), timeout_s);
}

}  // namespace helix::node
