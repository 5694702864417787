// Messages that move the KV of a request.

#include "wire/decode_fields.h"

namespace helix::wire {
namespace {

using Spans = google::protobuf::RepeatedPtrField<pb::KvSpan>;

Result<std::vector<core::KvSpan>> get_spans(const Spans& from) {
    TRY_VOID(in_range("spans", from.size(), 1, kMaxItems));
    std::vector<core::KvSpan> spans;
    for (const pb::KvSpan& span : from) {
        TRY_VOID(in_range("first_block", span.first_block(), 0, kMaxPosition));
        TRY_VOID(in_range("tokens", span.tokens(), 1, kMaxPosition));
        spans.push_back({span.member(), span.first_block(), span.tokens()});
    }
    return spans;
}

Result<core::LayerRange> get_some_layers(const pb::LayerRange& from, const SessionLimits& limits) {
    TRY(const core::LayerRange layers, get_layers(from, limits));
    if (layers.empty()) return base::invalid("KV of no layers");
    return layers;
}

}  // namespace

Result<Message> decode_kv(const pb::ReserveKv& from, const SessionLimits& limits) {
    core::ReserveKv message{get(from.key()), {}, from.blocks()};
    TRY(message.layers, get_some_layers(from.layers(), limits));
    TRY_VOID(in_range("blocks", from.blocks(), 1, std::int64_t{kMaxPosition} * kMaxMembers));
    TRY_VOID(in_range("blocks given back", from.given_back(), 0, from.blocks()));
    message.given_back = from.given_back();
    return Message{message};
}

Result<Message> decode_kv(const pb::SendKv& from, const SessionLimits& limits) {
    core::SendKv message;
    message.request = core::RequestId{from.request()};
    message.attempt = from.attempt();
    message.next_attempt = from.next_attempt();
    message.round = from.round();
    message.to = core::WorkerId{from.to()};
    TRY(message.layers, get_some_layers(from.layers(), limits));
    TRY(message.spans, get_spans(from.spans()));
    message.held = from.held();
    TRY_VOID(in_range("blocks given back", from.given_back(), 0, kMaxPosition));
    message.given_back = from.given_back();
    return Message{std::move(message)};
}

Result<Message> decode_kv(const pb::KvBlocks& from, std::size_t payload_bytes,
                          const SessionLimits& limits) {
    core::KvBlocks message;
    message.key = get(from.key());
    message.round = from.round();
    TRY(message.layers, get_some_layers(from.layers(), limits));
    TRY_VOID(in_range("parts", from.parts(), 1, kMaxItems));
    TRY_VOID(in_range("part", from.part(), 0, std::int64_t{from.parts()} - 1));
    message.part = from.part();
    message.parts = from.parts();
    TRY(message.spans, get_spans(from.spans()));
    TRY_VOID(in_range("places", from.place_members_size(), 0, kMaxItems));
    TRY_VOID(in_range("blocks of places", from.place_blocks_size(), from.place_members_size(),
                      from.place_members_size()));
    TRY_VOID(in_range("contents of places", from.place_contents_size(), from.place_members_size(),
                      from.place_members_size()));
    TRY_VOID(at_most("contents", from.contents(), kMaxItems));
    for (int i = 0; i < from.place_members_size(); ++i) {
        TRY_VOID(in_range("block of a place", from.place_blocks(i), 0, kMaxPosition));
        TRY_VOID(in_range("content of a place", from.place_contents(i), 0,
                          std::int64_t{from.contents()} - 1));
        message.places.push_back(
            {from.place_members(i), from.place_blocks(i), from.place_contents(i)});
    }
    TRY_VOID(in_range("blocks given back", from.given_back(), 0, kMaxPosition));
    message.given_back = from.given_back();
    // Of blocks that were given back only some layers travel; the worker knows which.
    const std::uint64_t pages =
        message.given_back > 0
            ? (from.contents() > 0 ? 1U : 0U)
            : std::uint64_t{from.contents()} * static_cast<std::uint64_t>(message.layers.size());
    if (pages == 0 ? payload_bytes != 0 : payload_bytes == 0 || payload_bytes % pages != 0) {
        return base::invalid(fmt::format("raw frame has {} bytes, {} pages of KV were announced",
                                         payload_bytes, pages));
    }
    message.payload = {0, 0, from.contents()};
    return Message{std::move(message)};
}

Result<Message> decode_kv(const pb::KvArrived& from, const SessionLimits& limits) {
    core::KvArrived message{get(from.key()), from.round(), {}};
    TRY(message.layers, get_some_layers(from.layers(), limits));
    return Message{message};
}

}  // namespace helix::wire
