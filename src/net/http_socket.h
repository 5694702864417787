#pragma once

#include "net/asio_coroutines.h"

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "net/tls_session.h"

// Private to the HTTP server: a connected socket that does not block, with TLS or without.

namespace helix::net {

class HttpSocket {
  public:
    using Socket = boost::asio::ip::tcp::socket;
    using Error = boost::system::error_code;

    explicit HttpSocket(Socket socket) : socket_(std::move(socket)) {}

    // The socket itself, to wait on it, or to close it.
    Socket& tcp() { return socket_; }
    void begin_tls(std::unique_ptr<TlsSession> tls) { tls_ = std::move(tls); }
    bool has_tls() const { return tls_ != nullptr; }
    // Whether what the client begins with is a word and no handshake. To be asked when the socket
    // can be read. From then on the connection goes on without TLS.
    bool begins_plain();

    // Each sets error to would_block when it has to be called again after wait() says that the
    // socket is ready; to eof when the client sends nothing more.
    void handshake(Error& error);
    std::size_t read_some(char* to, std::size_t most, Error& error);
    std::size_t write_some(const char* from, std::size_t bytes, Error& error);
    // Whether there is something to read without waiting for the socket.
    bool has_read_ahead() const { return tls_ != nullptr && tls_->has_read_ahead(); }
    // What the call that would have blocked waits for.
    Socket::wait_type wait() const { return wait_; }
    // Says that nothing more is sent. Not to be called where an answer has broken off.
    void end_sending();
    std::string why() const { return tls_ == nullptr ? std::string() : tls_->why(); }

  private:
    std::size_t take(TlsSession::Outcome outcome, Error& error);

    Socket socket_;
    std::unique_ptr<TlsSession> tls_;
    Socket::wait_type wait_ = Socket::wait_read;
};

}  // namespace helix::net
