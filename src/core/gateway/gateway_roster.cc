#include "core/gateway/gateway_roster.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

using base::Ok;
using base::Status;

void GatewayRoster::admit(const std::string& connection, const std::string& name) {
    CHECK(!is_here(connection));
    gateways_[connection].name = name;
}

const std::string& GatewayRoster::name_of(const std::string& connection) const {
    return gateways_.at(connection).name;
}

std::vector<std::string> GatewayRoster::connections() const {
    std::vector<std::string> all;
    for (const auto& [connection, gateway] : gateways_) all.push_back(connection);
    return all;
}

Status GatewayRoster::add(const std::string& connection, RequestId id) {
    if (!owners_.try_emplace(id, connection).second) {
        return base::invalid(fmt::format("request {} is under way already", id.value));
    }
    gateways_.at(connection).requests.insert(id);
    return Ok{};
}

bool GatewayRoster::has(const std::string& connection, RequestId id) const {
    const auto owner = owners_.find(id);
    return owner != owners_.end() && owner->second == connection;
}

std::vector<RequestId> GatewayRoster::remove(const std::string& connection) {
    const auto found = gateways_.find(connection);
    CHECK(found != gateways_.end());
    std::vector<RequestId> requests(found->second.requests.begin(), found->second.requests.end());
    for (const RequestId id : requests) owners_.erase(id);
    events_.erase(connection);
    gateways_.erase(found);
    if (base::planted(base::PlantedBug::gateway_requests_kept)) requests.clear();
    return requests;
}

void GatewayRoster::tell(RequestId id, RequestEvent event, bool last) {
    events_[owners_.at(id)].push_back(std::move(event));
    if (last) forget(id);
}

void GatewayRoster::forget(RequestId id) {
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) return;
    gateways_.at(owner->second).requests.erase(id);
    owners_.erase(owner);
}

void GatewayRoster::tell_all(const StageTimed& timed) {
    for (const auto& [connection, gateway] : gateways_) events_[connection].emplace_back(timed);
}

std::map<std::string, std::vector<RequestEvent>> GatewayRoster::take_events() {
    return std::exchange(events_, {});
}

}  // namespace helix::core
