#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

// One connection's encryption, over a socket that does not block and that stays the caller's.

namespace helix::net {

class TlsSession {
  public:
    enum class Outcome {
        done,         // bytes() were moved; a handshake is over
        wants_read,   // call again when the socket can be read,
        wants_write,  // or written
        ended,        // the other side sends nothing more; it may still read
        failed,       // the session is over; why() says why
    };

    TlsSession(ssl_ctx_st* context, int socket);
    ~TlsSession();
    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    Outcome handshake();
    Outcome read(char* to, std::size_t most);
    // After wants_write the same bytes must be given again; more may follow them.
    Outcome write(const char* from, std::size_t bytes);
    std::size_t bytes() const { return bytes_; }
    // Whether something has come, and was unpacked, that was not read yet.
    bool has_read_ahead() const;
    // Says that we send nothing more, as far as the socket takes it now.
    void end();
    const std::string& why() const { return why_; }

  private:
    Outcome outcome_of(int result);

    std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
    std::size_t bytes_ = 0;
    std::string why_;
    bool failed_ = false;
};

}  // namespace helix::net
