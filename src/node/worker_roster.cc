#include "node/worker_roster.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/escape.h"
#include "net/key.h"
#include "wire/codec.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Result;

namespace {

// What a worker says of itself is shown to people and kept in files, so it is checked.
base::Status check_texts(const wire::Hello& hello) {
    TRY_VOID(net::check_worker_name(hello.name));
    constexpr std::size_t kMostBytes = 256;
    const std::pair<const char*, const std::string*> texts[] = {
        {"host", &hello.host},       {"type", &hello.type},     {"region", &hello.region},
        {"backend", &hello.backend}, {"device", &hello.device}, {"endpoint", &hello.endpoint}};
    for (const auto& [what, text] : texts) {
        if (text->size() <= kMostBytes && base::escaped(*text) == *text) continue;
        return base::invalid(
            fmt::format("worker {}: its {} must be printable text of at most {} bytes", hello.name,
                        what, kMostBytes));
    }
    return base::Ok{};
}

}  // namespace

Result<WorkerEntry*> WorkerRoster::greet(base::TimePoint now, const std::string& connection,
                                         const wire::Hello& hello, const Proven& proven) {
    if (hello.protocol != wire::kProtocolVersion) {
        return Error{
            Errc::invalid,
            fmt::format("worker \"{}\" speaks protocol {}, this coordinator {}",
                        base::escaped(hello.name), hello.protocol, wire::kProtocolVersion)};
    }
    TRY_VOID(check_texts(hello));
    if (!proven.key.empty() && hello.public_key != proven.key) {
        return Error{Errc::invalid, "the key in the Hello is not the connection's"};
    }
    if (!proven.key.empty() && !net::is_key_for(proven.bound_name, hello.name)) {
        return base::invalid(fmt::format(
            "this key was made for a worker named \"{}\", not \"{}\": leave --name out, "
            "or make another key (helix key new --worker {})",
            proven.bound_name, hello.name, hello.name));
    }
    if (entries_.contains(connection)) return base::invalid("said Hello twice");
    const core::WorkerId worker = number(hello.name, hello.known_as);
    if (connection_of_.contains(worker)) {
        return Error{
            Errc::denied,
            proven.key.empty()
                ? fmt::format("a worker named \"{}\" is here already; give another --name",
                              hello.name)
                : fmt::format("a worker with the key of \"{}\" is here already; each needs a key "
                              "of its own (helix key new --worker NAME)",
                              hello.name)};
    }
    std::uint64_t& incarnation = last_incarnation_[worker];
    incarnation = std::max(incarnation + 1, hello.incarnation);
    connection_of_[worker] = connection;
    WorkerEntry& entry = entries_[connection];
    entry.worker = worker;
    entry.incarnation = incarnation;
    entry.hello = hello;
    entry.proven_key = proven.key;
    entry.known = hello.known_as == worker;
    entry.greeted = now;
    entry.last_heard = now;
    return &entry;
}

std::string WorkerRoster::take_number(const wire::Hello& hello) {
    if (!hello.known_as.has_value() || ids_.contains(hello.name)) return "";
    const auto has_it = [&](const auto& one) { return one.second == *hello.known_as; };
    const auto other = std::find_if(ids_.begin(), ids_.end(), has_it);
    if (other == ids_.end()) return "";
    const std::string connection = connection_of(*hello.known_as);
    const WorkerEntry* entry = find(connection);
    if (entry != nullptr && entry->known) return "";
    given_.erase(*hello.known_as);
    ids_.erase(other);
    return connection;
}

core::WorkerId WorkerRoster::number(const std::string& name, std::optional<core::WorkerId> wanted) {
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    core::WorkerId free{0};
    while (given_.contains(free)) ++free.value;
    const bool is_free =
        wanted.has_value() && wanted->value < wire::kMaxWorkers && !given_.contains(*wanted);
    const core::WorkerId worker = is_free ? *wanted : free;
    ids_[name] = worker;
    given_.insert(worker);
    return worker;
}

std::string WorkerRoster::silent_holder(const std::string& name, base::TimePoint now,
                                        base::Duration limit) const {
    for (const auto& [connection, entry] : entries_) {
        if (entry.hello.name == name) return now - entry.last_heard > limit ? connection : "";
    }
    return "";
}

WorkerEntry* WorkerRoster::find(const std::string& connection) {
    const auto found = entries_.find(connection);
    return found == entries_.end() ? nullptr : &found->second;
}

const WorkerEntry* WorkerRoster::find(const std::string& connection) const {
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
    joined.node.device = entry.hello.device;
    joined.node.core_share = entry.hello.core_share;
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
    joined.holding = entry.holding;
    return joined;
}

}  // namespace helix::node
