#include "api/piece_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/context.h"
#include "base/log.h"

namespace helix::api {
namespace {

constexpr std::size_t kMostPieceBytes = std::size_t{256} << 10U;

}  // namespace

PieceStream::PieceStream(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange)
    : context_(context), exchange_(std::move(exchange)) {}

std::size_t PieceStream::piece_bytes() const {
    return std::min(kMostPieceBytes, context_.options.http.max_queued_bytes / 2);
}

void PieceStream::give(base::Result<std::string> piece) {
    piece_ = std::move(piece);
    written_ = 0;
    context_.post([self = shared_from_this()] { self->write_piece(); });
}

void PieceStream::write_piece() {
    if (!exchange_->open()) return;
    if (!exchange_->started()) {
        if (!piece_.ok()) {
            return context_.respond(*exchange_, error_response(error_of(piece_.error())));
        }
        exchange_->begin_stream(head.status, "application/octet-stream", head.headers, head.bytes);
        if (exchange_->request().method == "HEAD") return exchange_->end_stream();
    }
    if (!piece_.ok()) LOG_WARN("a download breaks off: {}", piece_.error().message);
    if (!piece_.ok() || piece_->empty()) return exchange_->end_stream();
    write_more();
}

// A piece may be longer than what may wait for a client, so it is written in parts.
void PieceStream::write_more() {
    if (!exchange_->open()) return;
    if (written_ == piece_->size()) {
        if (!ask()) exchange_->end_stream();
        return;
    }
    const std::string_view slice =
        std::string_view(*piece_).substr(written_).substr(0, piece_bytes());
    written_ += slice.size();
    exchange_->write(slice);
    exchange_->on_drained([self = shared_from_this()] { self->write_more(); });
}

}  // namespace helix::api
