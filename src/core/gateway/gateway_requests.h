#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/protocol/gateway_messages.h"
#include "core/protocol/request.h"

namespace helix::core {

struct GatewayRules {
    // New requests that are kept while no coordinator is there; more are rejected.
    std::size_t max_waiting = 1024;
    // For so long requests wait for a coordinator; then they end with an error.
    Duration coordinator_wait = base::from_seconds(60);
};

// The requests of a gateway's clients, from submit() to the last word, and what each client has got
// of its answer. Coordinators come and go: each is given all requests that are open. One that was
// accepted is handed over with what its client has got, and goes on with its next token. One that
// was not is asked for anew, under another number, since the coordinator that is gone may have
// begun it unheard.
//
// No thread, clock or socket: times come in, and what is to be said goes out by take_messages(), to
// the coordinator, and by take_told(), to the clients.
class GatewayRequests {
  public:
    // Says whether a coordinator takes the message. Who sends one that is wrong is cut off, with
    // all that it has open, so such a request ends here.
    using CheckMessage = std::function<base::Status(const Submitted&)>;

    // At first there is no coordinator, since `now`.
    GatewayRequests(const GatewayRules& rules, CheckMessage check, TimePoint now)
        : rules_(rules), check_(std::move(check)), gone_since_(now) {}

    // ---- what clients want
    // Returns the request's id here. Its number among the coordinator's requests is another.
    RequestId submit(Request request);
    void end(RequestId id, FinishReason reason);
    // The choice has ended; the client is told so, and hears no more of it.
    void end_choice(RequestId id, std::int32_t choice, FinishReason reason);
    void move(RequestId id);

    // ---- what happens
    void on_coordinator();
    void on_coordinator_gone(TimePoint now);
    void on_numbers(const RequestNumbers& numbers);
    // What the client has already is not told again. The error says how the coordinator contradicts
    // itself or the protocol; it is then to be cut off.
    base::Status on_events(TimePoint now, RequestEvents events);
    void on_tick(TimePoint now);
    // All open requests end with this error, and later ones are rejected with it.
    void close(const std::string& error);

    // ---- what is to be said
    // To the coordinator, at most so many, in order; none while there is no coordinator.
    std::vector<GatewayMessage> take_messages(std::size_t most);
    // To clients; ids are those that submit() returned.
    std::vector<RequestEvent> take_told();

    // The request that has this number at the present coordinator, or may still be told of; 0:
    // none.
    RequestId id_of(RequestId number) const;
    bool queue_is_full() const { return new_.size() >= rules_.max_waiting; }
    std::size_t open() const { return open_.size(); }

  private:
    struct Open {
        Request request;
        RequestId number;   // 0 = none yet
        bool sent = false;  // the present coordinator has it
        bool accepted = false;
        bool embedded = false;  // the client has the embedding
        std::uint32_t handovers = 0;
        Begun got;  // by the client
        FinishReason last_choice = FinishReason::stop;
    };
    using Entry = std::map<RequestId, Open>::iterator;

    Entry find_sent(RequestId number);
    static bool has_all(const Open& open);
    void let_go_of_number(Entry entry, bool remember);
    void forget(Entry entry);
    void finish(Entry entry, FinishReason reason, std::string error);
    void refuse(RequestId id, RejectReason reason, std::string message);
    void fail_all(const std::string& error);
    bool give_number(Entry entry);
    std::optional<Submitted> hand_over(Entry entry);
    void ask_for_numbers();

    // One for each event of a coordinator: a new one does not compile without.
    base::Status take(Entry entry, AcceptRequest event);
    base::Status take(Entry entry, RejectRequest event);
    base::Status take(Entry entry, RequestRouted event);
    base::Status take(Entry entry, StreamToken event);
    base::Status take(Entry entry, ScoreTokens event);
    base::Status take(Entry entry, EmbedPrompt event);
    base::Status take(Entry entry, FinishChoice event);
    base::Status take(Entry entry, FinishRequest event);
    static base::Status check_accepted(const Open& open, const char* told);
    void stop_diverging(Entry entry);

    GatewayRules rules_;
    CheckMessage check_;
    bool there_ = false;  // a coordinator is
    TimePoint gone_since_;
    bool given_up_ = false;  // it has been gone for too long
    std::string closed_;     // why there will be no more requests

    std::uint64_t next_id_ = 1;
    std::map<RequestId, Open> open_;            // by id
    std::map<RequestId, RequestId> by_number_;  // their ids
    // Of requests that the present coordinator does not have yet, oldest first.
    std::set<RequestId> begun_;  // accepted before
    std::set<RequestId> new_;
    // The ids of requests that are over, of which StageTimed may still tell.
    std::map<RequestId, RequestId> timed_;
    std::deque<RequestId> timed_order_;

    std::deque<RequestNumbers> numbers_;
    std::uint64_t numbers_left_ = 0;
    bool asked_for_numbers_ = false;
    std::vector<GatewayMessage> messages_;
    std::vector<RequestEvent> told_;
};

}  // namespace helix::core
