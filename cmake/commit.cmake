# Writes OUTPUT, the source of cli::build_commit(), when the commit is another one than it names.
execute_process(COMMAND git describe --always --abbrev=12 --dirty=+ --exclude=* WORKING_DIRECTORY ${SOURCE_DIR}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS ${SOURCE_DIR}/.git)
    set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "cli/build_commit.h"

namespace helix::cli {

const char* build_commit() {
    return "@commit@";
}

}  // namespace helix::cli
]])
