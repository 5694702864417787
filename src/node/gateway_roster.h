#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/messages.h"

namespace helix::node {

// The coordinator's side of its gateways: which connection is which, whose each request is, and
// what is to be said to each in this turn. It sends nothing itself.
class GatewayRoster {
  public:
    // Error invalid: the hello is not acceptable; the message is for the gateway. bound_name: the
    // name that the gateway's key was made for; "" without keys.
    base::Status greet(const std::string& connection, const wire::GatewayHello& hello,
                       const std::string& proven_key, const std::string& bound_name);
    bool is_here(const std::string& connection) const { return gateways_.contains(connection); }
    const std::string& name_of(const std::string& connection) const;
    std::vector<std::string> connections() const;
    bool empty() const { return gateways_.empty(); }

    // The request is this gateway's until its end. Error invalid: the number is in use.
    base::Status add(const std::string& connection, core::RequestId id);
    bool has(const std::string& connection, core::RequestId id) const;
    // The requests of a gateway that is gone; they are nobody's from now on.
    std::vector<core::RequestId> remove(const std::string& connection);

    bool has(core::RequestId id) const { return owners_.contains(id); }
    // Notes the event for the gateway whose request this is. After the last event of a request it
    // is nobody's.
    void tell(core::RequestId id, wire::RequestEvent event, bool last);
    // The same for the end that a gateway itself has asked for, of which it is told nothing.
    void forget(core::RequestId id);
    // Notes it for all gateways: a request's stages are timed after its end.
    void tell_all(const core::StageTimed& timed);
    // What was noted since the last call, by connection.
    std::map<std::string, std::vector<wire::RequestEvent>> take_events();

  private:
    struct Gateway {
        std::string name;
        std::set<core::RequestId> requests;
    };
    std::map<std::string, Gateway> gateways_;
    std::map<core::RequestId, std::string> owners_;
    std::map<std::string, std::vector<wire::RequestEvent>> events_;
};

}  // namespace helix::node
