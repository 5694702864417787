#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/error.h"
#include "base/result.h"
#include "net/http_server.h"

namespace helix::api {

struct ApiContext;

// An answer that is read elsewhere, a piece at a time: the next one is asked for when the client
// has taken the one before, so that what waits for a slow client stays small. At any time either
// the reader or the server's thread has it.
class PieceStream : public std::enable_shared_from_this<PieceStream> {
  public:
    PieceStream(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange);
    virtual ~PieceStream() = default;
    PieceStream(const PieceStream&) = delete;
    PieceStream& operator=(const PieceStream&) = delete;

    // How long a piece should be at most.
    std::size_t piece_bytes() const;
    // Any thread, once after each ask(). The client is promised head.bytes bytes with the first
    // piece: it gets them, or after an error or an empty piece the connection ends early.
    void give(base::Result<std::string> piece);

  protected:
    struct Head {
        int status = 200;
        net::HttpHeaders headers;
        std::uint64_t bytes = 0;
    };

    // Has the next piece read and given. False: nobody will do that. On the server's thread.
    virtual bool ask() = 0;
    // What the client is told when there is not even a first piece.
    virtual ApiError error_of(const base::Error& error) const = 0;

    ApiContext& context() { return context_; }
    const std::shared_ptr<net::HttpExchange>& exchange() const { return exchange_; }
    Head head;  // set before the first piece is given

  private:
    void write_piece();
    void write_more();

    ApiContext& context_;
    std::shared_ptr<net::HttpExchange> exchange_;
    base::Result<std::string> piece_ = std::string();
    std::size_t written_ = 0;  // bytes of the piece
};

}  // namespace helix::api
