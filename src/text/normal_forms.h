#pragma once

#include <string>
#include <string_view>

// Unicode's normal forms (Unicode Standard Annex #15), in O(n log n) whatever the text is.

namespace helix::text {

// Form D: characters taken apart, and marks behind them in the order of their classes.
std::u32string decomposed(std::u32string_view text);

// Form C: taken apart, and put together again. Bytes that are not UTF-8 stay as they are, and
// nothing is put together across them.
std::string composed(std::string_view text);

}  // namespace helix::text
