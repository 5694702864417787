#include "cli/state_option.h"

#include <unistd.h>

#include <array>
#include <atomic>

#include "base/calendar.h"
#include "base/hex.h"
#include "base/log.h"
#include "cli/help_text.h"
#include "cli/interrupt.h"
#include "store/postgres.h"

namespace helix::cli {

void add_state_options(CLI::App& command, StateArguments& arguments) {
    const OptionHeading heading(command, "Failures");
    command.add_option("--state-dir", arguments.folder,
                       "a folder for what survives any crash: uploaded files, batches, kept "
                       "responses, and the placement, which the next start takes up; made when it "
                       "is not there [/v1/files and /v1/batches are off]");
    command.add_option("--state", arguments.url,
                       "postgres://USER@HOST:PORT/DATABASE, in place of --state-dir: the same in a "
                       "PostgreSQL database, which all coordinators of a --leader share. The "
                       "password is best in the environment's PGPASSWORD or in ~/.pgpass "
                       "(PGPASSFILE): in the URL, as USER:PASSWORD@, whoever lists processes "
                       "reads it");
}

namespace {

bool has_password(const std::string& url) {
    const std::size_t at = url.find('@');
    const std::size_t begin = url.find("://");
    if (url.find("password=") != std::string::npos) return true;
    if (at == std::string::npos || begin == std::string::npos) return false;
    return url.find(':', begin + 3) < at;
}

}  // namespace

base::Result<State> take_state(const StateArguments& arguments, std::uint64_t term) {
    State state;
    state.place.folder = arguments.folder;
    if (arguments.url.empty()) return state;
    if (!arguments.folder.empty()) {
        return base::invalid("--state and --state-dir: state is kept in one of them");
    }
    if (has_password(arguments.url)) {
        LOG_WARN(
            "--state: the password is in the URL, which everybody on this machine sees among a "
            "process's arguments: PGPASSWORD or ~/.pgpass keeps it out of them");
    }
    state.place.postgres = arguments.url;
    state.place.term = term > 0 ? term : static_cast<std::uint64_t>(base::calendar_us());
    std::array<std::byte, 16> random = {};
    if (::getentropy(random.data(), random.size()) != 0) {
        return base::Error{base::Errc::io, "the system gave no random bytes"};
    }
    state.place.owner = base::to_hex(random);
    std::atomic<bool> stopping{false};
    const Interrupt interrupt([&stopping] { stopping.store(true); });
    const base::Status taken =
        store::await_place(state.place, [&stopping] { return stopping.load(); });
    state.stopped = stopping.load();
    if (!taken.ok() && !state.stopped) return taken.error();
    return state;
}

}  // namespace helix::cli
