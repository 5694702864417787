#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::net {

// A libzmq context and, once allow() was called, the handler that lets in only listed CURVE keys
// and guarded connections.
class ZmqContext {
  public:
    // Called on the handler's thread for each new connection.
    using Allowed = std::function<bool(std::string_view public_key)>;

    static base::Result<std::shared_ptr<ZmqContext>> create();
    ~ZmqContext();
    ZmqContext(const ZmqContext&) = delete;
    ZmqContext& operator=(const ZmqContext&) = delete;

    // Who may connect to sockets of this ZAP domain; nobody before this is called. Any thread.
    void allow(const std::string& domain, Allowed allowed);
    void forget(const std::string& domain);

    // Called on the handler's thread for each new connection to sockets of this domain, before its
    // key is looked at: where the peer comes from (for the log), or nothing: it is refused. Without
    // a key only who gets in here may connect. Empty: as before this was called. Any thread.
    using Guard = std::function<std::optional<std::string>(std::string_view address)>;
    void guard(const std::string& domain, Guard guard);

    void* handle() const { return context_; }

  private:
    class ZapHandler;
    ZmqContext() = default;

    void* context_ = nullptr;
    std::unique_ptr<ZapHandler> zap_;
};

}  // namespace helix::net
