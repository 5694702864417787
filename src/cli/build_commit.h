#pragma once

namespace helix::cli {

// The commit that the program was built from, with "+" behind it when files differed from it;
// "unknown" where there was no repository. cmake/commit.cmake writes the source.
const char* build_commit();

}  // namespace helix::cli
