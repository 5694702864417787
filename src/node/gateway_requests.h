#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/protocol/coordinator_events.h"
#include "core/protocol/request.h"
#include "wire/messages.h"

namespace helix::node {

struct GatewayRules {
    // New requests that are kept while no coordinator is there; more are rejected.
    std::size_t max_waiting = 1024;
    // For so long requests wait for a coordinator; then they end with an error.
    base::Duration coordinator_wait = base::from_seconds(60);
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
    // At first there is no coordinator, since `now`.
    GatewayRequests(const GatewayRules& rules, base::TimePoint now)
        : rules_(rules), gone_since_(now) {}

    // ---- what clients want
    // Returns the request's id here. Its number among the coordinator's requests is another.
    core::RequestId submit(core::Request request);
    void end(core::RequestId id, core::FinishReason reason);
    // The choice has ended; the client is told so, and hears no more of it.
    void end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason);
    void move(core::RequestId id);

    // ---- what happens
    void on_coordinator();
    void on_coordinator_gone(base::TimePoint now);
    void on_numbers(const wire::RequestNumbers& numbers);
    // What the client has already is not told again. The error says how the coordinator contradicts
    // itself or the protocol; it is then to be cut off.
    base::Status on_events(base::TimePoint now, wire::RequestEvents events);
    void on_tick(base::TimePoint now);
    // All open requests end with this error, and later ones are rejected with it.
    void close(const std::string& error);

    // ---- what is to be said
    // To the coordinator, at most so many, in order; none while there is no coordinator.
    std::vector<wire::Message> take_messages(std::size_t most);
    // To clients; ids are those that submit() returned.
    std::vector<wire::RequestEvent> take_told();

    bool queue_is_full() const { return new_.size() >= rules_.max_waiting; }
    std::size_t open() const { return open_.size(); }

  private:
    struct Open {
        core::Request request;
        core::RequestId number;  // 0 = none yet
        bool sent = false;       // the present coordinator has it
        bool accepted = false;
        bool embedded = false;  // the client has the embedding
        std::uint32_t handovers = 0;
        core::Begun got;  // by the client
        core::FinishReason last_choice = core::FinishReason::stop;
    };
    using Entry = std::map<core::RequestId, Open>::iterator;

    Entry find_sent(core::RequestId number);
    core::RequestId id_of(core::RequestId number) const;
    static bool has_all(const Open& open);
    void let_go_of_number(Entry entry, bool remember);
    void forget(Entry entry);
    void finish(Entry entry, core::FinishReason reason, std::string error);
    void refuse(core::RequestId id, core::RejectReason reason, std::string message);
    void fail_all(const std::string& error);
    bool give_number(Entry entry);
    std::optional<wire::SubmitRequest> hand_over(Entry entry);
    void ask_for_numbers();

    // One for each event of a coordinator: a new one does not compile without.
    base::Status take(Entry entry, core::AcceptRequest event);
    base::Status take(Entry entry, core::RejectRequest event);
    base::Status take(Entry entry, core::RequestRouted event);
    base::Status take(Entry entry, core::StreamToken event);
    base::Status take(Entry entry, core::ScoreTokens event);
    base::Status take(Entry entry, core::EmbedPrompt event);
    base::Status take(Entry entry, core::FinishChoice event);
    base::Status take(Entry entry, core::FinishRequest event);
    static base::Status check_accepted(const Open& open, const char* told);
    void stop_diverging(Entry entry);

    GatewayRules rules_;
    bool there_ = false;  // a coordinator is
    base::TimePoint gone_since_;
    bool given_up_ = false;  // it has been gone for too long
    std::string closed_;     // why there will be no more requests

    std::uint64_t next_id_ = 1;
    std::map<core::RequestId, Open> open_;                  // by id
    std::map<core::RequestId, core::RequestId> by_number_;  // their ids
    // Of requests that the present coordinator does not have yet, oldest first.
    std::set<core::RequestId> begun_;  // accepted before
    std::set<core::RequestId> new_;
    // The ids of requests that are over, of which StageTimed may still tell.
    std::map<core::RequestId, core::RequestId> timed_;
    std::deque<core::RequestId> timed_order_;

    std::deque<wire::RequestNumbers> numbers_;
    std::uint64_t numbers_left_ = 0;
    bool asked_for_numbers_ = false;
    std::vector<wire::Message> messages_;
    std::vector<wire::RequestEvent> told_;
};

}  // namespace helix::node
