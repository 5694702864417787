#include "cli/leader_option.h"

#include <atomic>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/help_text.h"
#include "cli/interrupt.h"
#include "net/key.h"
#include "node/pair.h"

namespace helix::cli {

namespace {

constexpr int kLeastLease = 2;  // seconds, etcd's own
constexpr int kMostLease = 600;

}  // namespace

void add_leader_options(CLI::App& command, LeaderArguments& arguments) {
    const OptionHeading heading(command, "Failures");
    command.add_option("--leader", arguments.url,
                       "etcd://HOST:PORT[/CLUSTER], or etcds:// for TLS: of several coordinators "
                       "with the same one leads, and the others stand by to take over");
    command
        .add_option("--leader-lease", arguments.lease_s,
                    "seconds that etcd does not hear of the leader before another may lead")
        ->capture_default_str();
}

base::Result<Led> lead(const LeaderArguments& arguments, const std::string& listen) {
    Led led;
    if (arguments.url.empty()) return led;
    TRY(node::LeadershipOptions options, node::parse_leader(arguments.url));
    if (arguments.lease_s < kLeastLease || arguments.lease_s > kMostLease) {
        return base::invalid(fmt::format("--leader-lease: expected {} to {} seconds, got {}",
                                         kLeastLease, kMostLease, arguments.lease_s));
    }
    if (!options.etcd.tls && !net::is_loopback(options.etcd.host)) {
        LOG_WARN(
            "--leader: what goes to {} is not encrypted, and whoever can reach etcd can say who "
            "leads: etcds:// is for networks that others use",
            options.etcd.host);
    }
    options.lease_s = arguments.lease_s;
    options.name = fmt::format("{} ({})", node::machine_worker_name(), listen);
    TRY(led.leadership, node::Leadership::create(std::move(options)));
    std::atomic<bool> stopping{false};
    const Interrupt interrupt([&stopping] { stopping.store(true); });
    const auto term = led.leadership->win(stopping);
    led.stopped = stopping.load();
    if (led.stopped) return led;
    if (!term.ok()) return term.error();
    led.term = *term;
    led.leadership->keep([](const std::string& reason) {
        LOG_ERROR("{}: this one ends, so that nobody hears it any more", reason);
        std::_Exit(EXIT_FAILURE);
    });
    return led;
}

}  // namespace helix::cli
