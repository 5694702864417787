#include "api/long_answer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/context.h"

namespace helix::api {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

struct LongAnswer : std::enable_shared_from_this<LongAnswer> {
    std::shared_ptr<net::HttpExchange> exchange;
    std::shared_ptr<const std::string> body;
    std::shared_ptr<RequestBudget::Share> share;
    std::size_t piece_bytes = kPieceBytes;
    std::size_t written = 0;

    void write_piece() {
        if (written == body->size()) return exchange->end_stream();
        const std::string_view piece = std::string_view(*body).substr(written, piece_bytes);
        written += piece.size();
        exchange->write(piece);
        exchange->on_drained([self = shared_from_this()] { self->write_piece(); });
    }
};

}  // namespace

void send_long(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
               std::shared_ptr<const std::string> body,
               std::shared_ptr<RequestBudget::Share> share) {
    const std::size_t piece_bytes =
        std::min(kPieceBytes, context.options.http.max_queued_bytes / 2);
    if (!exchange->connected() || body->size() <= piece_bytes) {
        net::HttpResponse response;
        response.body = *body;
        context.respond(*exchange, response);
        return;
    }
    const auto answer = std::make_shared<LongAnswer>();
    answer->exchange = exchange;
    answer->body = std::move(body);
    answer->share = std::move(share);
    answer->piece_bytes = piece_bytes;
    exchange->begin_stream(200, "application/json", {}, answer->body->size());
    answer->write_piece();
}

}  // namespace helix::api
