#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace helix::store {

// A folder that goes with the test.
class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "helix-store-XXXXXX").string();
        path_ = ::mkdtemp(name.data()) == nullptr ? "/nonexistent" : name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace helix::store
