#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Forms with files: multipart/form-data (RFC 7578) as HTTP clients send it.

namespace helix::net {

struct FormPart {
    std::string name;
    std::string filename;      // "" when it is no file
    std::string content_type;  // "" when not said
    std::string_view content;  // lies in the body that was parsed
};

struct FormLimits {
    std::size_t max_parts = 64;
    std::size_t max_header_bytes = std::size_t{16} << 10U;  // of one part
};

// The parts in their order. Error invalid: the content type is not that of a form, or what is wrong
// with the body.
base::Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body,
                                               const FormLimits& limits = {});

// The first value of name in a query like "a=1&b=x%20y", decoded; "" when absent.
std::string query_value(std::string_view query, std::string_view name);

}  // namespace helix::net
