#pragma once

#include <string>
#include <string_view>

namespace helix::store {

// The stores' SQL, which is SQLite's, as PostgreSQL has it: parameters become $1, $2 and so on, and
// types become those that hold the same: numbers of 64 bits, and bytes as they are for text, too,
// which there would have to be free of zeros and in the encoding of the database. What is in quotes
// or a comment stays.
std::string for_postgres(std::string_view sql);

}  // namespace helix::store
