#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::net {

// A libzmq context and, once allow() was called, the handler that lets in only listed CURVE keys.
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

    void* handle() const { return context_; }

  private:
    class ZapHandler;
    ZmqContext() = default;

    void* context_ = nullptr;
    std::unique_ptr<ZapHandler> zap_;
};

}  // namespace helix::net
