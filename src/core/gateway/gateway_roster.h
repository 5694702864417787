#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/protocol/gateway_messages.h"

namespace helix::core {

// The coordinator's side of its gateways: which connection is which, whose each request is, and
// what is to be said to each in this turn. It sends nothing itself.
class GatewayRoster {
  public:
    // A gateway is here, by this connection.
    void admit(const std::string& connection, const std::string& name);
    bool is_here(const std::string& connection) const { return gateways_.contains(connection); }
    const std::string& name_of(const std::string& connection) const;
    std::vector<std::string> connections() const;
    bool empty() const { return gateways_.empty(); }

    // The request is this gateway's until its end. Error invalid: the number is in use.
    base::Status add(const std::string& connection, RequestId id);
    bool has(const std::string& connection, RequestId id) const;
    // The requests of a gateway that is gone; they are nobody's from now on.
    std::vector<RequestId> remove(const std::string& connection);

    bool has(RequestId id) const { return owners_.contains(id); }
    // Notes the event for the gateway whose request this is. After the last event of a request it
    // is nobody's.
    void tell(RequestId id, RequestEvent event, bool last);
    // The same for the end that a gateway itself has asked for, of which it is told nothing.
    void forget(RequestId id);
    // Notes it for all gateways: a request's stages are timed after its end.
    void tell_all(const StageTimed& timed);
    // What was noted since the last call, by connection.
    std::map<std::string, std::vector<RequestEvent>> take_events();

  private:
    struct Gateway {
        std::string name;
        std::set<RequestId> requests;
    };
    std::map<std::string, Gateway> gateways_;
    std::map<RequestId, std::string> owners_;
    std::map<std::string, std::vector<RequestEvent>> events_;
};

}  // namespace helix::core
