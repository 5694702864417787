#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "store/place.h"

// Where a coordinator keeps what survives it.

namespace helix::cli {

struct StateArguments {
    std::string folder;
    std::string url;  // of a PostgreSQL database; one of both, or none
};

void add_state_options(CLI::App& command, StateArguments& arguments);

struct State {
    store::Place place;    // empty: nothing is kept
    bool stopped = false;  // it was interrupted while it waited
};

// Waits for a database, and takes what is in it from the coordinators before. term: 0 = the
// calendar, in microseconds.
base::Result<State> take_state(const StateArguments& arguments, std::uint64_t term);

}  // namespace helix::cli
