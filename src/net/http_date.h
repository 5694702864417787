#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace helix::net {

// Formats a date like "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7). unix_s is not negative.
std::string format_http_date(std::int64_t unix_s);

// The date as text, made anew only when the second has changed.
class HttpDate {
  public:
    std::string_view at(std::int64_t unix_s);

  private:
    std::int64_t unix_s_ = -1;
    std::string text_;
};

}  // namespace helix::net
