#include "cli/patience_option.h"

#include "cli/help_text.h"

#include <algorithm>
#include <string>

namespace helix::cli {

void add_lost_after(CLI::App& command, double& seconds) {
    const OptionHeading heading(command, "Failures");
    command
        .add_option("--lost-after", seconds,
                    "seconds of silence after which the other side of a connection counts as "
                    "lost: a machine that hangs, or a network that swallows everything. A process "
                    "that dies is noticed at once")
        ->capture_default_str();
}

base::Status fill_lost_after(double seconds, net::TransportOptions& transport) {
    if (!(seconds >= 0.2 && seconds <= 600)) {
        return base::invalid("--lost-after: expected 0.2 to 600 seconds");
    }
    transport.heartbeat_timeout_ms = static_cast<int>(seconds * 1000);
    transport.heartbeat_interval_ms =
        std::min(transport.heartbeat_interval_ms, transport.heartbeat_timeout_ms / 4);
    return base::Ok{};
}

base::Result<base::Duration> parse_wait(const char* option, double seconds) {
    if (!(seconds >= 0 && seconds <= 3600)) {
        return base::invalid(std::string(option) + ": expected 0 to 3600 seconds");
    }
    return base::from_seconds(seconds);
}

}  // namespace helix::cli
