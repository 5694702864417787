#include "node/worker_roster.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Result;

Result<WorkerEntry*> WorkerRoster::greet(base::TimePoint now, const std::string& connection,
                                         const wire::Hello& hello, const std::string& proven_key) {
    if (hello.protocol != wire::kProtocolVersion) {
        return Error{Errc::invalid,
                     fmt::format("worker \"{}\" speaks protocol {}, this coordinator {}",
                                 hello.name, hello.protocol, wire::kProtocolVersion)};
    }
    if (hello.name.empty() || hello.name.size() > 256) {
        return base::invalid("a worker's name must have 1 to 256 characters");
    }
    if (!proven_key.empty() && hello.public_key != proven_key) {
        return Error{Errc::invalid, "the key in the Hello is not the connection's"};
    }
    if (entries_.contains(connection)) return base::invalid("said Hello twice");
    const auto next = static_cast<std::uint32_t>(ids_.size());
    const core::WorkerId worker = ids_.try_emplace(hello.name, core::WorkerId{next}).first->second;
    if (connection_of_.contains(worker)) {
        return Error{
            Errc::denied,
            fmt::format("a worker named \"{}\" is here already; give another --name", hello.name)};
    }
    std::uint64_t& incarnation = last_incarnation_[worker];
    incarnation = std::max(incarnation + 1, hello.incarnation);
    connection_of_[worker] = connection;
    WorkerEntry& entry = entries_[connection];
    entry = {worker, incarnation, hello, false, now, now};
    return &entry;
}

WorkerEntry* WorkerRoster::find(const std::string& connection) {
    const auto found = entries_.find(connection);
    return found == entries_.end() ? nullptr : &found->second;
}

std::string WorkerRoster::connection_of(core::WorkerId worker) const {
    const auto found = connection_of_.find(worker);
    return found == connection_of_.end() ? "" : found->second;
}

std::optional<WorkerEntry> WorkerRoster::remove(const std::string& connection) {
    const auto found = entries_.find(connection);
    if (found == entries_.end()) return std::nullopt;
    WorkerEntry entry = std::move(found->second);
    connection_of_.erase(entry.worker);
    entries_.erase(found);
    return entry;
}

std::vector<wire::ProbePeer> WorkerRoster::probe_peers(core::WorkerId self) const {
    std::vector<wire::ProbePeer> peers;
    for (const auto& [connection, entry] : entries_) {
        if (entry.worker == self) continue;
        peers.push_back(
            {entry.worker, entry.hello.endpoint, entry.hello.public_key, entry.hello.host});
    }
    return peers;
}

std::vector<std::string> WorkerRoster::public_keys() const {
    std::vector<std::string> keys;
    for (const auto& [connection, entry] : entries_) {
        if (!entry.hello.public_key.empty()) keys.push_back(entry.hello.public_key);
    }
    return keys;
}

std::vector<std::string> WorkerRoster::connections() const {
    std::vector<std::string> all;
    for (const auto& [connection, entry] : entries_) all.push_back(connection);
    return all;
}

std::vector<std::string> WorkerRoster::silent(base::TimePoint now, base::Duration limit) const {
    std::vector<std::string> found;
    for (const auto& [connection, entry] : entries_) {
        if (now - entry.last_heard > limit) found.push_back(connection);
    }
    return found;
}

core::WorkerJoined to_joined(const WorkerEntry& entry, const wire::ProfileReport& report) {
    core::WorkerJoined joined;
    joined.worker = entry.worker;
    joined.incarnation = entry.incarnation;
    joined.node.name = entry.hello.name;
    joined.node.type = entry.hello.type;
    joined.node.region = entry.hello.region;
    joined.node.host = entry.hello.host;
    joined.node.memory_bytes = entry.hello.memory_bytes;
    joined.node.role = entry.hello.role;
    joined.node.decode_s_per_layer = report.decode_s_per_layer;
    joined.node.decode_batch_s_per_layer = report.decode_batch_s_per_layer;
    joined.node.prefill_s_per_token_layer = report.prefill_s_per_token_layer;
    const auto self = static_cast<std::int32_t>(entry.worker.value);
    for (const spec::LinkSpec& link : report.links) {
        // A worker speaks for its own links only.
        if (link.from == self || link.to == self) joined.links.push_back(link);
    }
    joined.endpoint = entry.hello.endpoint;
    joined.public_key = entry.hello.public_key;
    return joined;
}

}  // namespace helix::node
