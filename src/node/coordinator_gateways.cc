// The coordinator's side of its gateways: their requests come in, and what becomes of them goes
// back.

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/escape.h"
#include "base/log.h"
#include "base/overloaded.h"
#include "net/key.h"
#include "node/clock.h"
#include "node/coordinator_server.h"
#include "node/model_request.h"

namespace helix::node {

using base::Status;

namespace {

constexpr std::uint32_t kNumbersAtOnce = 1U << 16U;
constexpr std::size_t kMostEventsAtOnce = 4096;  // in one message

// Error invalid: the hello is not acceptable; the message is for the gateway. bound_name: the name
// that the gateway's key was made for; "" without keys.
Status check_hello(const wire::GatewayHello& hello, const std::string& proven_key,
                   const std::string& bound_name) {
    if (hello.protocol != wire::kProtocolVersion) {
        return base::invalid(fmt::format("gateway \"{}\" speaks protocol {}, this coordinator {}",
                                         base::escaped(hello.name), hello.protocol,
                                         wire::kProtocolVersion));
    }
    TRY_VOID(net::check_worker_name(hello.name));
    if (!proven_key.empty() && hello.public_key != proven_key) {
        return base::invalid("the key in the GatewayHello is not the connection's");
    }
    if (!proven_key.empty() && !net::is_key_for(bound_name, hello.name)) {
        return base::invalid(
            fmt::format("this key was made for \"{}\", not for a gateway named \"{}\"", bound_name,
                        hello.name));
    }
    return base::Ok{};
}

}  // namespace

void CoordinatorServer::on_gateway_hello(const std::string& connection,
                                         const wire::GatewayHello& hello,
                                         const std::string& proven_key) {
    const std::string who = fmt::format("gateway \"{}\"", base::escaped(hello.name));
    if (knows_a_later_one(connection, who, hello.term)) return;
    std::optional<GatewayFacts> facts;
    {
        const std::lock_guard lock(mutex_);
        facts = gateway_facts_;
    }
    if (!facts.has_value()) {
        return refuse(connection, "this coordinator takes no gateways yet", false);
    }
    const WorkerRoster::Proven proven = prove(proven_key);
    const Status good = gateways_.is_here(connection)
                            ? base::invalid("said GatewayHello twice")
                            : check_hello(hello, proven.key, proven.bound_name);
    if (!good.ok()) {
        log_stranger(fmt::format("refused {}: {}", who, good.error().message));
        return refuse(connection, good.error().message, true);
    }
    gateways_.admit(connection, hello.name);
    // Its connection may have broken without our hearing of it. The new one brings what was open.
    for (const std::string& other : gateways_.connections()) {
        if (other == connection || gateways_.name_of(other) != hello.name) continue;
        socket_->ban(other);
        lose_gateway(other, "comes anew");
    }
    socket_->admit(connection);
    LOG_INFO("{} is here", who);
    if (!std::exchange(told_takeover_, true)) {
        LOG_INFO("if the coordinator is lost: {}", plan::describe_takeover(options_.takeover));
    }
    const ServedModel& model = options_.model;
    const wire::GatewayWelcome welcome{term_,
                                       model.spec,
                                       model.hash,
                                       model.hidden_size,
                                       model.vocab_size,
                                       options_.core.model,
                                       facts->names,
                                       facts->created,
                                       facts->chat_template,
                                       facts->tool_parser,
                                       facts->http_endpoint,
                                       engine::ops::to_string(model.kv_type)};
    if (send_to_gateway(connection, welcome)) give_numbers(connection);
}

void CoordinatorServer::give_numbers(const std::string& connection) {
    const core::RequestId first{next_request_.fetch_add(kNumbersAtOnce)};
    send_to_gateway(connection, core::RequestNumbers{first, kNumbersAtOnce});
}

// Whoever does not take its messages is lost, once this turn's work is done.
bool CoordinatorServer::send_to_gateway(const std::string& connection,
                                        const wire::Message& message) {
    const Status sent = send(connection, message);
    if (sent.ok()) return true;
    gone_gateways_.try_emplace(connection, fmt::format("was lost ({})", sent.error().message));
    return false;
}

void CoordinatorServer::on_gateway_message(const std::string& connection, wire::Message message) {
    std::visit(
        base::Overloaded{
            [&](core::Submitted& submitted) { on_submit(connection, std::move(submitted)); },
            [&](const core::Ended& end) {
                if (!gateways_.has(connection, end.id)) return;  // it ended at the same time
                if (!end.choice.has_value()) gateways_.forget(end.id);
                step(end);
            },
            [&](const core::MoveRequest& move) {
                if (gateways_.has(connection, move.id)) step(move);
            },
            [&](core::RequestNumbers&) { give_numbers(connection); },
            [&](wire::ManifestRequest& wanted) {
                if (!is_served(connection, wanted.model)) return;
                const WeightAnswer answer = answer_manifest(options_.model);
                send_weights(connection, answer);
            },
            [&](wire::ChunkRequest& chunk) {
                if (!is_served(connection, chunk.model)) return;
                if (chunk.tensor != wire::kHeaderChunk) {
                    return cut_off_gateway(connection, "asked for weights, which it cannot use");
                }
                send_weights(connection, answer_chunk(options_.model, chunk));
            },
            [&](wire::Goodbye& bye) {
                lose_gateway(connection, bye.reason.empty() ? "left" : "left (" + bye.reason + ")");
            },
            [&](const auto& other) {
                cut_off_gateway(connection, fmt::format("sent a {}, which no gateway sends",
                                                        wire::message_name(other)));
            },
        },
        message);
}

void CoordinatorServer::on_submit(const std::string& connection, core::Submitted submitted) {
    const core::RequestId id = submitted.request.id;
    const Status added = sinks_.has(id) ? base::invalid(fmt::format("request {} is ours", id.value))
                                        : gateways_.add(connection, id);
    if (!added.ok())
        return cut_off_gateway(connection,
                               "submitted what is not its own: " + added.error().message);
    const Status good =
        check_for_model(submitted.request, submitted.begun, options_.model.vocab_size,
                        options_.model.spec.context_length);
    if (good.ok()) {
        return step(std::move(submitted));
    }
    if (!submitted.begun.has_value()) {
        const core::RejectRequest rejection{id, core::RejectReason::never_fits,
                                            good.error().message, 0};
        gateways_.tell(id, rejection, true);
    } else {
        const core::FinishRequest finish{id, core::FinishReason::error,
                                         core::FailureCause::unserved, good.error().message};
        gateways_.tell(id, finish, true);
    }
}

void CoordinatorServer::cut_off_gateway(const std::string& connection, const std::string& why) {
    LOG_WARN("cut off gateway {}: it {}", gateways_.name_of(connection), why);
    socket_->ban(connection);
    lose_gateway(connection, "was cut off: it " + why);
}

// Its clients are not here any more, or come again with it: what runs for them ends.
void CoordinatorServer::lose_gateway(const std::string& connection, const std::string& reason) {
    if (!gateways_.is_here(connection)) return;
    const std::string name = gateways_.name_of(connection);
    const std::vector<core::RequestId> open = gateways_.remove(connection);
    gone_gateways_.erase(connection);
    LOG_INFO("gateway {} {}, with {} open request(s)", name, reason, open.size());
    for (const core::RequestId id : open) step(core::Ended{id, core::FinishReason::cancelled});
    // It may come again with the same requests at once, which must not hear of their ends here.
    perform();
}

void CoordinatorServer::lose_gateways() {
    const std::map<std::string, std::string> gone = std::exchange(gone_gateways_, {});
    for (const auto& [connection, reason] : gone) {
        socket_->ban(connection);
        lose_gateway(connection, reason);
    }
}

// A scored prompt may fill a message by itself.
void CoordinatorServer::flush_gateways() {
    for (auto& [gateway, events] : gateways_.take_events()) {
        const std::string& connection = gateway;
        core::RequestEvents message{now(), {}};
        const auto flush = [&] {
            if (message.events.empty()) return;
            send_to_gateway(connection, message);
            message.events.clear();
        };
        for (core::RequestEvent& event : events) {
            const bool large = std::holds_alternative<core::ScoreTokens>(event);
            if (large) flush();
            message.events.push_back(std::move(event));
            if (large || message.events.size() >= kMostEventsAtOnce) flush();
        }
        flush();
    }
}

void CoordinatorServer::show_gateways() {
    if (gateways_.empty()) return;
    const core::ClusterView seen = view();
    const wire::GatewayView shown{seen.serving, seen.capacity_tokens, seen.waiting, seen.running};
    for (const std::string& connection : gateways_.connections()) {
        send_to_gateway(connection, shown);
    }
}

}  // namespace helix::node
