#pragma once

#include <string>
#include <utility>

#include "base/result.h"

// Files that decide who may do what: keys and lists of keys.

namespace helix::net {

// Checks that nobody but its owner may write the file or put another one in its place. Error
// denied, with the command that mends it: group or others may write it, it belongs to another user
// than us and root, or its folder may be written by everyone and is not sticky. Error io when it is
// not there.
base::Status check_only_ours(const std::string& path);

// What the system said of the call that just failed: "PATH: cannot WHAT: ...".
base::Error io_error(const std::string& path, const char* what);

// A text that differs after each write or replacement of the file; "" while it is absent.
std::string file_version(const std::string& path);

// Notices changes of a file, when it is asked now and then.
class FileWatch {
  public:
    explicit FileWatch(std::string path)
        : path_(std::move(path)), taken_(file_version(path_)), seen_(taken_) {}
    const std::string& path() const { return path_; }
    // True once for each change, when the file has stood still since the last call, so that nobody
    // reads one that is half written.
    bool changed();

  private:
    std::string path_;
    std::string taken_;
    std::string seen_;
};

// Creates the file with mode 0600, whatever the umask. Error invalid when it is there already.
base::Status create_private(const std::string& path, const std::string& text);
// The same, but replaces a file that may be there. It does so in one step: others see the old or
// the new text.
base::Status replace_private(const std::string& path, const std::string& text);

}  // namespace helix::net
