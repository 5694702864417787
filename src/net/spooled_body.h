#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::net {

// A large body on its way in, which is kept on disk in place of memory. Its file has no name from
// the start, so nothing is left of it once the last owner lets go, however the program ends.
class SpooledBody {
  public:
    // folder must be there and writable. Error io names it.
    static base::Result<std::shared_ptr<SpooledBody>> create(const std::string& folder);
    ~SpooledBody();
    SpooledBody(const SpooledBody&) = delete;
    SpooledBody& operator=(const SpooledBody&) = delete;

    // Error io names the folder and what it lacks, which most likely is room.
    base::Status append(std::string_view data);
    // Says that all is there: from now on text() may be read, and nothing may be appended.
    base::Status seal();
    // The whole text, valid while this lives. Its pages are the file's and cost no memory of the
    // program's own.
    std::string_view text() const { return {static_cast<const char*>(mapping_), mapped_}; }

  private:
    SpooledBody(std::string folder, int file) : folder_(std::move(folder)), file_(file) {}
    base::Error failed(std::string_view doing) const;

    std::string folder_;
    int file_;
    std::size_t bytes_ = 0;
    void* mapping_ = nullptr;
    std::size_t mapped_ = 0;
};

}  // namespace helix::net
