#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

// The cookie by which a browser shows which session it has.

namespace helix::api {

// Browsers keep one set of cookies for all ports of a host, so the name has the port in it: two
// servers on one machine do not log each other's visitors out.
std::string session_cookie_name(const net::HttpRequest& request);

// The values of all cookies of this name that the request brings. Of very many the first are
// returned.
std::vector<std::string_view> session_ids(const net::HttpRequest& request);

// What Set-Cookie says: scripts cannot read it, and pages of other sites cannot have it sent.
// secure: it is sent over HTTPS only. id "" has the browser forget the cookie.
std::string session_cookie(const net::HttpRequest& request, std::string_view id,
                           std::int64_t seconds, bool secure);

}  // namespace helix::api
