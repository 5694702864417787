#include "node/weight_links.h"

#include <utility>
#include <variant>

#include "wire/codec.h"

namespace helix::node {

using base::Result;
using base::Status;

WeightLinks::WeightLinks(Options options, WeightFetcher& fetcher)
    : options_(std::move(options)), fetcher_(fetcher) {}

Status WeightLinks::send(const WeightFetcher::PeerRequest& wanted) {
    Link& link = links_[wanted.peer.worker];
    if (link.socket == nullptr || link.peer != wanted.peer) {
        link.peer = wanted.peer;
        TRY(link.socket,
            net::DealerSocket::connect(options_.context, wanted.peer.endpoint, options_.keys,
                                       wanted.peer.public_key, options_.transport));
        const wire::PeerHello hello{wire::kProtocolVersion, options_.self, options_.incarnation};
        TRY_VOID(link.socket->send(net::Frame::of(wire::encode(hello))));
    }
    return link.socket->send(net::Frame::of(wire::encode(wanted.request)));
}

std::optional<std::string> WeightLinks::receive(core::WorkerId worker, const Link& link) {
    while (std::optional<net::Received> got = link.socket->receive()) {
        const auto message = wire::decode(got->header.bytes, got->payload.bytes.size(), {});
        if (got->malformed || !message.ok()) return "it sent something else than a message";
        const auto* piece = std::get_if<wire::TensorPiece>(&*message);
        if (piece == nullptr) return "it sent something else than a piece of a tensor";
        fetcher_.on_piece(worker, *piece, got->payload);
    }
    for (const net::LinkEvent& event : link.socket->take_events()) {
        if (event.kind != net::LinkEventKind::connected) return "the link broke: " + event.detail;
    }
    return std::nullopt;
}

void WeightLinks::exchange() {
    for (const WeightFetcher::PeerRequest& wanted : fetcher_.take_peer_requests()) {
        const Status sent = send(wanted);
        if (sent.ok()) continue;
        fetcher_.on_peer_gone(wanted.peer.worker, sent.error().message);
        links_.erase(wanted.peer.worker);
    }
    for (auto link = links_.begin(); link != links_.end();) {
        const std::optional<std::string> broken = receive(link->first, link->second);
        if (broken.has_value()) fetcher_.on_peer_gone(link->first, *broken);
        link = broken.has_value() ? links_.erase(link) : std::next(link);
    }
}

void WeightLinks::add_sockets(std::vector<net::ZmqSocket*>& sockets) const {
    for (const auto& [worker, link] : links_) sockets.push_back(link.socket.get());
}

}  // namespace helix::node
