#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "hub/http_rules.h"

// HTTP and HTTPS downloads over libcurl. One request at a time, on the caller's thread; connections
// are used again. Redirects are not followed and nothing is tried again: that is for the rules.

namespace helix::hub {

struct HttpPatience {
    std::chrono::milliseconds connect{20'000};
    // A transfer of which nothing comes for so long is broken off; there is no limit for the whole.
    std::chrono::seconds stall{30};
};

struct HttpRequest {
    std::string address;
    bool head_only = false;
    std::string token;  // "": no Authorization
    std::optional<std::uint64_t> first;
    std::optional<std::uint64_t> end;  // of the byte after the last that is wanted
    std::string if_range;              // an ETag: the range only if the file is still that one
};

struct HttpEnd {
    HttpHead head;  // status 0: there was no answer
    // What went wrong on the way, in the world's words; ok when the answer came to its end or was
    // not wanted further.
    base::Status transfer = base::Ok{};
    bool lasting = false;  // trying again will not help: a certificate that is not trusted
};

class Http {
  public:
    // True: the body is wanted.
    using OnHead = std::function<bool(const HttpHead& head)>;
    // False: no more of the body is wanted.
    using OnBody = std::function<bool(std::span<const std::byte> bytes)>;

    explicit Http(HttpPatience patience);
    ~Http();
    Http(const Http&) = delete;
    Http& operator=(const Http&) = delete;

    // Bodies that come compressed are given to on_body unpacked.
    HttpEnd send(const HttpRequest& request, const OnHead& on_head, const OnBody& on_body);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::hub
