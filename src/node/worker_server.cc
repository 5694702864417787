#include "node/worker_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/check.h"
#include "base/log.h"
#include "node/clock.h"
#include "node/coordinator_finder.h"
#include "node/host_link.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

constexpr base::Duration kFirstPause = base::from_ms(200);
// The longest pause between tries to join. It is shorter than a restarted coordinator waits for the
// workers that it remembers.
constexpr base::Duration kLongestPause = base::from_ms(2000);
// A device that was lost is tried after a pause, which grows; one that worked for so long since it
// was regained begins anew.
constexpr base::Duration kFirstDevicePause = base::from_ms(500);
constexpr base::Duration kLongestDevicePause = base::from_seconds(60);
constexpr base::Duration kDeviceWorks = base::from_seconds(120);

std::string default_name(std::string prefix = "", const std::string& device = "") {
    std::array<char, 256> host = {};
    ::gethostname(host.data(), host.size() - 1);
    const std::string process =
        fmt::format("-{}{}{}", ::getpid(), device.empty() ? "" : "-", device);
    prefix += host.data();
    std::string name = prefix.substr(0, 64 - std::min<std::size_t>(process.size(), 64)) + process;
    for (char& c : name) {
        if (!net::is_worker_name(std::string_view(&c, 1))) c = '-';
    }
    return name;
}

}  // namespace

Result<std::string> name_of_several(const std::string& name,
                                    const std::optional<net::WorkerKey>& key,
                                    const std::string& device) {
    if (key.has_value() && !key->name.ends_with('*')) {
        return base::invalid(fmt::format(
            "--device: each of several devices is a worker with a name of its own, and this key is "
            "for one worker, \"{}\": make one for several (helix key new --worker '{}-*')",
            key->name, key->name));
    }
    const std::string prefix = key.has_value() ? key->name.substr(0, key->name.size() - 1) : "";
    const std::string made = name.empty() ? default_name(prefix, device) : name + "-" + device;
    TRY_VOID(net::check_worker_name(made));
    return made;
}

WorkerServer::WorkerServer(WorkerOptions options) : options_(std::move(options)) {
    CHECK(options_.backend != nullptr);
    if (options_.name.empty()) {
        options_.name = options_.key.has_value() ? options_.key->name : default_name();
        if (options_.name.ends_with('*')) {
            options_.name.pop_back();
            options_.name = default_name(options_.name);
        }
    }
    // Microseconds of the calendar, so that later starts of one worker have higher numbers.
    incarnation_ = static_cast<std::uint64_t>(base::calendar_us());
}

void WorkerServer::stop() {
    stopping_.store(true);
    wakeup_.wake();
}

void WorkerServer::pause_until(base::TimePoint until) {
    while (!stopping_.load() && now() < until) {
        net::wait({}, wakeup_.fd(), until - now());
        wakeup_.clear();
    }
}

// Waits until the device proves itself, or until stop().
void WorkerServer::regain_device(base::Backoff& again) {
    kept_.forget_backend();
    while (!stopping_.load()) {
        again.failed(now(), kFirstDevicePause, kLongestDevicePause);
        pause_until(again.next());
        if (stopping_.load()) return;
        const Status proven = options_.backend->prove();
        if (proven.ok()) {
            LOG_INFO("worker \"{}\": its device works again", options_.name);
            return;
        }
        LOG_WARN("worker \"{}\": its device does not work: {}", options_.name,
                 proven.error().message);
    }
}

Status WorkerServer::run_sessions(const FindCoordinator& find, const FindCoordinator& next) {
    // Now, before there is anything else to do.
    if (!options_.probe_same_host) host_link(options_.key.has_value());
    base::Backoff again;
    base::Backoff device;
    std::string said;
    while (!stopping_.load()) {
        Result<CoordinatorPlace> place = find();
        SessionResult result;
        const base::TimePoint began = now();
        if (place.ok()) {
            WorkerSession session(options_, *place, next, {++incarnation_, term_}, kept_, wakeup_,
                                  stopping_);
            result = session.run();
            term_ = result.term;
        } else {
            const Errc code = place.error().code;
            const bool final = code == Errc::denied || code == Errc::invalid;
            result = {final ? SessionEnd::refused : SessionEnd::lost, place.error().message};
        }
        if (result.end == SessionEnd::stopped) break;
        if (result.end == SessionEnd::dismissed) {
            LOG_INFO("the coordinator dismisses worker \"{}\": {}", options_.name, result.reason);
            break;
        }
        if (result.end == SessionEnd::refused) return Error{Errc::denied, result.reason};
        if (now() - began > kDeviceWorks) device.clear();
        if (result.end == SessionEnd::no_device) {
            LOG_ERROR("worker \"{}\": {}; it joins again when its device works", options_.name,
                      result.reason);
            regain_device(device);
            continue;
        }
        if (result.joined) again.clear();
        if (result.reason != said)
            LOG_WARN("worker \"{}\": {}; trying again", options_.name, result.reason);
        said = result.joined ? "" : result.reason;
        again.failed(now(), kFirstPause, kLongestPause);
        pause_until(again.next());
    }
    return Ok{};
}

Status WorkerServer::run(const std::vector<std::string>& join) {
    CHECK(!join.empty());
    std::vector<CoordinatorFinder> finders;
    for (const std::string& one : join) {
        TRY(CoordinatorFinder finder,
            CoordinatorFinder::create(one, {options_.key, options_.insecure, true}));
        finders.push_back(std::move(finder));
    }
    TRY(const auto context, net::ZmqContext::create());
    std::size_t at = 0;
    const FindCoordinator find = [&]() -> Result<CoordinatorPlace> {
        const Result<CoordinatorAddress> found = finders[at++ % finders.size()].find();
        if (!found.ok()) {
            // What is useless at one address may work at the next.
            const bool only = finders.size() == 1;
            return Error{only ? found.error().code : Errc::unavailable, found.error().message};
        }
        CoordinatorPlace place;
        place.context = context;
        place.endpoint = found->endpoint;
        place.public_key = found->public_key;
        place.listen_endpoint = fmt::format("tcp://{}:{}", found->local_host, options_.listen_port);
        return place;
    };
    return run_sessions(find, find);
}

Status WorkerServer::run(const CoordinatorPlace& place) {
    // With the coordinator ends the process that both are in.
    return run_sessions([&]() -> Result<CoordinatorPlace> { return place; }, {});
}

}  // namespace helix::node
