#include "node/gateway_roster.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/escape.h"
#include "net/key.h"

namespace helix::node {

using base::Ok;
using base::Status;

Status GatewayRoster::greet(const std::string& connection, const wire::GatewayHello& hello,
                            const std::string& proven_key, const std::string& bound_name) {
    if (hello.protocol != wire::kProtocolVersion) {
        return base::invalid(fmt::format("gateway \"{}\" speaks protocol {}, this coordinator {}",
                                         base::escaped(hello.name), hello.protocol,
                                         wire::kProtocolVersion));
    }
    TRY_VOID(net::check_worker_name(hello.name));
    if (!proven_key.empty() && hello.public_key != proven_key) {
        return base::invalid("the key in the GatewayHello is not the connection's");
    }
    if (!proven_key.empty() && !net::is_key_for(bound_name, hello.name)) {
        return base::invalid(
            fmt::format("this key was made for \"{}\", not for a gateway named \"{}\"", bound_name,
                        hello.name));
    }
    if (is_here(connection)) return base::invalid("said GatewayHello twice");
    gateways_[connection].name = hello.name;
    return Ok{};
}

const std::string& GatewayRoster::name_of(const std::string& connection) const {
    return gateways_.at(connection).name;
}

std::vector<std::string> GatewayRoster::connections() const {
    std::vector<std::string> all;
    for (const auto& [connection, gateway] : gateways_) all.push_back(connection);
    return all;
}

Status GatewayRoster::add(const std::string& connection, core::RequestId id) {
    if (!owners_.try_emplace(id, connection).second) {
        return base::invalid(fmt::format("request {} is under way already", id.value));
    }
    gateways_.at(connection).requests.insert(id);
    return Ok{};
}

bool GatewayRoster::has(const std::string& connection, core::RequestId id) const {
    const auto owner = owners_.find(id);
    return owner != owners_.end() && owner->second == connection;
}

std::vector<core::RequestId> GatewayRoster::remove(const std::string& connection) {
    const auto found = gateways_.find(connection);
    CHECK(found != gateways_.end());
    const std::vector<core::RequestId> requests(found->second.requests.begin(),
                                                found->second.requests.end());
    for (const core::RequestId id : requests) owners_.erase(id);
    events_.erase(connection);
    gateways_.erase(found);
    return requests;
}

void GatewayRoster::tell(core::RequestId id, wire::RequestEvent event, bool last) {
    events_[owners_.at(id)].push_back(std::move(event));
    if (last) forget(id);
}

void GatewayRoster::forget(core::RequestId id) {
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) return;
    gateways_.at(owner->second).requests.erase(id);
    owners_.erase(owner);
}

void GatewayRoster::tell_all(const core::StageTimed& timed) {
    for (const auto& [connection, gateway] : gateways_) events_[connection].emplace_back(timed);
}

std::map<std::string, std::vector<wire::RequestEvent>> GatewayRoster::take_events() {
    return std::exchange(events_, {});
}

}  // namespace helix::node
