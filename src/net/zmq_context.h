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
    // Whether a key may connect. Called on the handler's thread for each new connection.
    using Allowed = std::function<bool(std::string_view public_key)>;

    static base::Result<std::shared_ptr<ZmqContext>> create();
    ~ZmqContext();
    ZmqContext(const ZmqContext&) = delete;
    ZmqContext& operator=(const ZmqContext&) = delete;

    // Any thread. Sets who may connect to sockets of this ZAP domain; before this is called nobody
    // may.
    void allow(const std::string& domain, Allowed allowed);
    void forget(const std::string& domain);

    // Called on the handler's thread for each new connection to sockets of this domain, before its
    // key is looked at. Returns where the peer comes from, for the log, or nothing if it is
    // refused. Without a key only those who get in here may connect. An empty guard is as none. Any
    // thread may set it.
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
