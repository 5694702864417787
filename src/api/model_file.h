#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace helix::api {

// The file of a model that is offered, for those who want to have the model themselves.
class ModelFile {
  public:
    // Reads on behalf of one download, on any thread, but on one at a time.
    class Reader {
      public:
        virtual ~Reader() = default;
        // Fills `to` with the bytes from this offset on, which must lie within the file.
        virtual base::Status read(std::uint64_t offset, std::span<std::byte> to) = 0;
    };

    virtual ~ModelFile() = default;
    virtual std::uint64_t bytes() const = 0;
    // Of the model's content, in hexadecimal digits; another file has another hash.
    virtual std::string hash() const = 0;
    virtual std::unique_ptr<Reader> open() const = 0;
};

}  // namespace helix::api
