#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

// Programs of others, run without a shell.

namespace helix::plan::mip {

// Where PATH finds `name`; nothing if it does not.
std::optional<std::filesystem::path> find_program(const std::string& name);

// A fresh folder under the system's temporary one, removed with all that is in it.
class TemporaryFolder {
  public:
    static base::Result<TemporaryFolder> make();
    TemporaryFolder(TemporaryFolder&& other) noexcept;
    TemporaryFolder& operator=(TemporaryFolder&&) = delete;
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder();

    std::string operator/(const char* name) const { return (path_ / name).string(); }
    const std::filesystem::path& path() const { return path_; }

  private:
    explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
    std::filesystem::path path_;
};

struct ChildEnd {
    int exit_code = 0;     // 128 + signal if one ended it
    bool stopped = false;  // because `stop` said so
    std::string output;    // standard output and error together
};

// Runs it in `folder`, without input, in a process group of its own. `stop` is asked some twenty
// times a second; when it says true the child gets SIGINT, and SIGKILL if it still runs five
// seconds later.
base::Result<ChildEnd> run_program(const std::filesystem::path& program,
                                   const std::vector<std::string>& arguments,
                                   const TemporaryFolder& folder,
                                   const std::function<bool()>& stop);

base::Status write_text(const std::string& path, const std::string& text);
// Nothing if there is no such file.
std::optional<std::string> read_text(const std::string& path);

}  // namespace helix::plan::mip
