#include "base/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cstring>

#include "base/child_signals.h"

namespace helix::base {

Result<pid_t> spawn(const SpawnOptions& options) {
    std::vector<char*> words;
    for (const std::string& word : options.command) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    std::vector<char*> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    for (const std::string& one : options.variables) {
        environment.push_back(const_cast<char*>(one.c_str()));
    }
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    if (!options.output.empty()) {
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, options.output.c_str(),
                                         O_WRONLY | O_APPEND, 0);
        posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    const short signals = set_child_signals(attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETPGROUP | signals));
    pid_t pid = 0;
    const int failed =
        posix_spawnp(&pid, words[0], &files, &attributes, words.data(), environment.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0)
        return Error{Errc::unavailable, options.command[0] + ": " + std::strerror(failed)};
    return pid;
}

}  // namespace helix::base
