#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace helix {

// A folder that goes with the test.
class TempFolder {
  public:
    TempFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "helix-test-XXXXXX").string();
        path_ = ::mkdtemp(name.data()) == nullptr ? "/nonexistent" : name;
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    const std::string& path() const { return path_; }
    bool empty() const { return std::filesystem::is_empty(path_); }

  private:
    std::string path_;
};

}  // namespace helix
