#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/coordinator/coordinator.h"
#include "wire/messages.h"

namespace helix::node {

// A worker's connection, from its Hello on.
struct WorkerEntry {
    core::WorkerId worker;
    std::uint64_t incarnation = 0;
    wire::Hello hello;
    std::string proven_key;  // by CURVE; "" = it has none
    // It has the number that it had under an earlier coordinator, and says what it has kept.
    bool known = false;
    std::optional<core::Holding> holding;
    bool joined = false;  // measured and known to the core
    base::TimePoint greeted;
    base::TimePoint last_heard;
};

// Which connection is which worker. A name keeps its worker id for as long as the coordinator
// lives, and takes it along to the next one where nobody has it yet.
class WorkerRoster {
  public:
    // What a worker has proved: its key, and in bound_name the name that the key was made for
    // (net::is_key_for). Both are empty if there are no keys, or if the worker is in this process.
    struct Proven {
        std::string key = {};
        std::string bound_name = {};
    };
    // Error denied: the name is in use by a worker that is alive, and trying again may help. Error
    // invalid: the hello is not acceptable. The message is for the worker.
    base::Result<WorkerEntry*> greet(base::TimePoint now, const std::string& connection,
                                     const wire::Hello& hello, const Proven& proven);
    // The connection of the worker of this name, if it has said nothing for as long as limit; else
    // "". Workers report twice a second, so such a one is dead or hangs, and its restart may have
    // its place.
    std::string silent_holder(const std::string& name, base::TimePoint now,
                              base::Duration limit) const;
    // Who has kept something under its number goes before who has nothing yet: if the number that
    // the hello asks for is that of a worker that came without a past, that one loses it, and has
    // to come again. Returns its connection; "" = nobody has to.
    std::string take_number(const wire::Hello& hello);
    WorkerEntry* find(const std::string& connection);
    const WorkerEntry* find(const std::string& connection) const;
    // Empty when it is not here.
    std::string connection_of(core::WorkerId worker) const;
    std::optional<WorkerEntry> remove(const std::string& connection);

    // For a new worker: all workers that were here before it. So of each two workers the later one
    // measures the link.
    std::vector<wire::ProbePeer> probe_peers(core::WorkerId self) const;
    std::vector<std::string> public_keys() const;
    std::vector<std::string> connections() const;
    // Connections that were silent for longer than limit.
    std::vector<std::string> silent(base::TimePoint now, base::Duration limit) const;

  private:
    std::map<std::string, WorkerEntry> entries_;
    // The number of this worker; a new name gets `wanted`, if that is nobody's, or the next one.
    core::WorkerId number(const std::string& name, std::optional<core::WorkerId> wanted);

    std::map<std::string, core::WorkerId> ids_;
    std::set<core::WorkerId> given_;
    std::map<core::WorkerId, std::string> connection_of_;
    std::map<core::WorkerId, std::uint64_t> last_incarnation_;
};

core::WorkerJoined to_joined(const WorkerEntry& entry, const wire::ProfileReport& report);

}  // namespace helix::node
