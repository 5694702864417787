#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

// Quantities as people write them: a number and a unit, "24 GB", "10 Gbit/s", "50 ms". A number
// without a unit is an error; k, M, G, T are powers of 1000 and Ki, Mi, Gi, Ti of 1024; "bit" is an
// eighth of "B". format_* writes what parse_* reads back exactly.

namespace helix::spec {

base::Result<std::int64_t> parse_bytes(std::string_view text);
base::Result<double> parse_bandwidth(std::string_view text);  // bytes/s; also "Gbps" = Gbit/s
base::Result<double> parse_duration(std::string_view text);   // seconds; ns us ms s min h
// The same; what (an option, a field) begins its errors.
base::Result<double> parse_duration(std::string_view what, std::string_view text);

// With exact = false at most three significant digits, for people.
std::string format_bytes(std::int64_t bytes, bool exact = false);
std::string format_bandwidth(double bytes_per_s,
                             bool exact = false);  // in bits, as networks are sold
std::string format_duration(double seconds, bool exact = false);

}  // namespace helix::spec
