#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::model {

// Tensors that were read or made and are in use: one copy of each, however many use it, until the
// last release(). Since they are copies, nothing that happens to a file reaches those who use them.
// For any thread.
class HeldTensors {
  public:
    using Bytes = std::vector<std::byte>;

    // Begins to use a tensor; make is called when nobody uses it yet.
    base::Result<std::span<const std::byte>> use(std::string_view name,
                                                 const std::function<base::Result<Bytes>()>& make);
    void release(std::string_view name);

  private:
    struct Held {
        Bytes bytes;
        std::int64_t uses = 0;
    };
    std::mutex mutex_;
    std::map<std::string, Held, std::less<>> held_;
};

}  // namespace helix::model
