#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace helix::model::test_support {

// A new folder that goes away with its content.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "helix_model_XXXXXX").string();
        path_ = ::mkdtemp(name.data()) == nullptr ? "/nonexistent" : name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string file(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace helix::model::test_support
