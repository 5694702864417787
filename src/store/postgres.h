#pragma once

#include <functional>
#include <memory>

#include "store/database.h"

namespace helix::store {

// A connection to the database that place.postgres names; what is ours lies in its schema "helix",
// which is made when it is not there. The connection is made again when it was lost, and nothing
// but what was under way notices.
//
// The table helix.owner has the term of the coordinator that may write. Opening takes it, for the
// place's term, from all terms before; each transaction locks that row as a reader, and looks
// whether it is still ours. So who takes over waits for the last transaction of the one before, and
// that one never begins another. Outside of a transaction the server lets this connection only
// read.
//
// Errors: it is away (unavailable); a later term has it (denied); it refuses us, is of another
// program, or a newer Helix wrote it (invalid). None of them has the password in it.
base::Result<std::unique_ptr<Database>> open_postgres(const Place& place);

// Waits until what is shared answers and this coordinator has taken it, and says so in the log;
// nothing to wait for in a folder. stopped is asked now and then, and ends it with the error
// unavailable. The other errors are those of open_postgres().
base::Status await_place(const Place& place, const std::function<bool()>& stopped);

}  // namespace helix::store
