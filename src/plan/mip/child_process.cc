#include "plan/mip/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "base/child_signals.h"

namespace helix::plan::mip {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kQuickPoll = std::chrono::milliseconds(2);  // many programs take no longer
constexpr auto kGrace = std::chrono::seconds(5);

base::Error io_error(const std::string& what, int code) {
    return {base::Errc::io, fmt::format("{}: {}", what, std::strerror(code))};
}

// posix_spawn's settings; both objects need an explicit end.
class SpawnSettings {
  public:
    explicit SpawnSettings(const TemporaryFolder& folder) {
        posix_spawn_file_actions_init(&actions_);
        posix_spawnattr_init(&attributes_);
        posix_spawn_file_actions_addchdir_np(&actions_, folder.path().c_str());
        posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "output",
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
        posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
        // An interrupt is how the solver is told to stop.
        const short signals = base::set_child_signals(attributes_);
        posix_spawnattr_setflags(&attributes_, static_cast<short>(POSIX_SPAWN_SETPGROUP | signals));
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }

    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attributes_;
};

// Waits for the end; sets `stopped`.
base::Result<int> wait_for(pid_t child, const std::function<bool()>& stop, bool& stopped) {
    const auto started = Clock::now();
    auto interrupted = Clock::time_point::max();
    bool killed = false;
    while (true) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (ended < 0 && errno != EINTR) return io_error("waiting for a solver", errno);
        const auto now = Clock::now();
        if (!stopped && stop && stop()) {
            stopped = true;
            interrupted = now;
            ::kill(-child, SIGINT);
        }
        if (stopped && !killed && now - interrupted > kGrace) {
            killed = true;
            ::kill(-child, SIGKILL);
        }
        std::this_thread::sleep_for(now - started < kPoll ? kQuickPoll : kPoll);
    }
}

}  // namespace

std::optional<fs::path> find_program(const std::string& name) {
    const char* path = std::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "";
    while (!rest.empty()) {
        const std::size_t end = rest.find(':');
        const fs::path candidate = fs::path(rest.substr(0, end)) / name;
        std::error_code ignored;
        if (fs::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0) {
            return fs::absolute(candidate, ignored);
        }
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return std::nullopt;
}

base::Result<TemporaryFolder> TemporaryFolder::make() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    if (error) return io_error("the folder for temporary files", error.value());
    std::string pattern = (parent / "helix-solver-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) return io_error(pattern, errno);
    return TemporaryFolder(fs::path(pattern));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, fs::path())) {}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

base::Result<ChildEnd> run_program(const fs::path& program,
                                   const std::vector<std::string>& arguments,
                                   const TemporaryFolder& folder,
                                   const std::function<bool()>& stop) {
    std::vector<std::string> words = arguments;
    words.insert(words.begin(), program.string());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const SpawnSettings settings(folder);
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, program.c_str(), &settings.actions_,
                                     &settings.attributes_, argv.data(), environ);
    if (failed != 0) return io_error(program.string(), failed);
    ChildEnd end;
    TRY(end.exit_code, wait_for(child, stop, end.stopped));
    end.output = read_text(folder / "output").value_or("");
    return end;
}

base::Status write_text(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) return io_error("writing " + path, errno);
    return base::Ok{};
}

std::optional<std::string> read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace helix::plan::mip
