#include "core/gateway/gateway_requests.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/planted_bug.h"

namespace helix::core {

using base::Ok;
using base::planted;
using base::PlantedBug;
using base::Status;

namespace {

// The attempts that one coordinator may make of a request; those of the next have higher numbers.
constexpr unsigned kAttemptBits = 16;
constexpr std::uint32_t kNumbersKept = 4096;  // more are asked for when less than half are left
constexpr std::size_t kMostTimed = 4096;

std::string wait_text(Duration duration) {
    return fmt::format("{:g} s", duration.seconds());
}

}  // namespace

// ---- what clients want
// -----------------------------------------------------------------------------------

RequestId GatewayRequests::submit(Request request) {
    const RequestId id{next_id_++};
    if (!closed_.empty()) {
        refuse(id, RejectReason::unavailable, closed_);
        return id;
    }
    if (given_up_) {
        refuse(id, RejectReason::unavailable,
               fmt::format("there has been no coordinator for more than {}",
                           wait_text(rules_.coordinator_wait)));
        return id;
    }
    if (queue_is_full()) {
        refuse(
            id, RejectReason::queue_full,
            fmt::format("{} requests wait at this gateway for a coordinator already", new_.size()));
        return id;
    }
    Open open;
    open.got.choices.resize(static_cast<std::size_t>(request.n));
    open.request = std::move(request);
    open_.emplace(id, std::move(open));
    new_.insert(id);
    return id;
}

void GatewayRequests::end(RequestId id, FinishReason reason) {
    const auto entry = open_.find(id);
    if (entry == open_.end()) return;
    if (entry->second.sent) messages_.emplace_back(Ended{entry->second.number, reason});
    forget(entry);
}

void GatewayRequests::end_choice(RequestId id, std::int32_t choice, FinishReason reason) {
    const auto entry = open_.find(id);
    if (entry == open_.end()) return;
    Open& open = entry->second;
    if (choice < 0 || choice >= open.request.n) return;
    Begun::Choice& got = open.got.choices[static_cast<std::size_t>(choice)];
    if (std::exchange(got.ended, true)) return;
    open.last_choice = reason;
    told_.emplace_back(FinishChoice{id, choice, reason});
    if (open.sent) {
        messages_.emplace_back(Ended{open.number, reason, choice});
    } else if (has_all(open)) {
        finish(entry, reason, {});
    }
}

void GatewayRequests::move(RequestId id) {
    const auto entry = open_.find(id);
    if (entry == open_.end() || !entry->second.sent) return;
    messages_.emplace_back(MoveRequest{entry->second.number});
}

// ---- coordinators
// ---------------------------------------------------------------------------------------

void GatewayRequests::on_coordinator() {
    there_ = true;
    given_up_ = false;
}

void GatewayRequests::on_coordinator_gone(TimePoint now) {
    if (!there_) return;
    there_ = false;
    gone_since_ = now;
    messages_.clear();
    asked_for_numbers_ = false;
    for (auto entry = open_.begin(); entry != open_.end();) {
        const auto at = entry++;
        Open& open = at->second;
        if (!std::exchange(open.sent, false)) continue;
        if (!open.accepted) {
            if (!planted(PlantedBug::gateway_number_kept)) let_go_of_number(at, false);
            new_.insert(at->first);
        } else if (has_all(open)) {
            finish(at, open.last_choice, {});
        } else {
            begun_.insert(at->first);
        }
    }
}

void GatewayRequests::on_numbers(const RequestNumbers& numbers) {
    asked_for_numbers_ = false;
    if (numbers.count == 0 || numbers_left_ >= kNumbersKept) return;
    numbers_.push_back(numbers);
    numbers_left_ += numbers.count;
}

void GatewayRequests::on_tick(TimePoint now) {
    if (there_ || given_up_ || now - gone_since_ < rules_.coordinator_wait) return;
    given_up_ = true;
    fail_all(fmt::format("the coordinator is gone, and for {} no other was found",
                         wait_text(rules_.coordinator_wait)));
}

void GatewayRequests::close(const std::string& error) {
    closed_ = error;
    fail_all(error);
}

void GatewayRequests::fail_all(const std::string& error) {
    while (!open_.empty()) {
        const auto entry = open_.begin();
        const RequestId id = entry->first;
        if (entry->second.accepted) {
            finish(entry, FinishReason::error, error);
        } else {
            forget(entry);
            refuse(id, RejectReason::unavailable, error);
        }
    }
}

// ---- what is to be said
// -------------------------------------------------------------------------------------

std::vector<GatewayMessage> GatewayRequests::take_messages(std::size_t most) {
    if (!there_) return {};
    ask_for_numbers();
    std::vector<GatewayMessage> taken;
    const auto some = static_cast<std::ptrdiff_t>(std::min(most, messages_.size()));
    std::move(messages_.begin(), messages_.begin() + some, std::back_inserter(taken));
    messages_.erase(messages_.begin(), messages_.begin() + some);
    for (std::set<RequestId>* from : {&begun_, &new_}) {
        while (taken.size() < most && !from->empty()) {
            const bool last = planted(PlantedBug::gateway_queue_reordered);
            const auto entry = open_.find(last ? *from->rbegin() : *from->begin());
            if (entry->second.number.value == 0 && !give_number(entry)) break;
            std::optional<Submitted> message = hand_over(entry);
            if (message.has_value()) taken.emplace_back(std::move(*message));
        }
    }
    return taken;
}

std::vector<RequestEvent> GatewayRequests::take_told() {
    return std::exchange(told_, {});
}

void GatewayRequests::ask_for_numbers() {
    if (asked_for_numbers_ || numbers_left_ >= kNumbersKept / 2) return;
    asked_for_numbers_ = true;
    messages_.emplace_back(RequestNumbers{{}, kNumbersKept});
}

// False when there is none to give; more will come.
bool GatewayRequests::give_number(Entry entry) {
    while (!numbers_.empty()) {
        RequestNumbers& from = numbers_.front();
        const RequestId number = from.first;
        ++from.first.value;
        --numbers_left_;
        if (--from.count == 0) numbers_.pop_front();
        if (!by_number_.emplace(number, entry->first).second) continue;
        entry->second.number = number;
        return true;
    }
    return false;
}

// Gives the request to the present coordinator. Nothing where it is such as none would take.
std::optional<Submitted> GatewayRequests::hand_over(Entry entry) {
    Open& open = entry->second;
    begun_.erase(entry->first);
    new_.erase(entry->first);
    Submitted message;
    if (open.accepted) {
        open.got.attempts_before = ++open.handovers << kAttemptBits;
        if (planted(PlantedBug::attempts_not_raised)) open.got.attempts_before = 0;
        message.begun = open.got;
    }
    open.request.id = open.number;
    message.request = open.request;
    const Status good = check_(message);
    if (good.ok()) {
        open.sent = true;
        return message;
    }
    if (open.accepted) {
        finish(entry, FinishReason::error, good.error().message);
    } else {
        const RequestId id = entry->first;
        forget(entry);
        refuse(id, RejectReason::never_fits, good.error().message);
    }
    return std::nullopt;
}

// ---- one request
// --------------------------------------------------------------------------------------------

GatewayRequests::Entry GatewayRequests::find_sent(RequestId number) {
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) return open_.end();
    const auto entry = open_.find(found->second);
    return entry->second.sent ? entry : open_.end();
}

RequestId GatewayRequests::id_of(RequestId number) const {
    if (const auto found = by_number_.find(number); found != by_number_.end()) {
        return found->second;
    }
    const auto over = timed_.find(number);
    return over == timed_.end() ? RequestId{} : over->second;
}

// Whether the client lacks nothing but the word that this was all.
bool GatewayRequests::has_all(const Open& open) {
    if (open.embedded) return true;
    if (!open.request.is_group()) return false;
    const auto& choices = open.got.choices;
    return std::all_of(choices.begin(), choices.end(), [](const auto& one) { return one.ended; });
}

// remember: StageTimed may still tell of it.
void GatewayRequests::let_go_of_number(Entry entry, bool remember) {
    const RequestId number = std::exchange(entry->second.number, {});
    if (number.value == 0) return;
    by_number_.erase(number);
    if (!remember || !entry->second.request.timed) return;
    timed_.emplace(number, entry->first);
    timed_order_.push_back(number);
    if (timed_order_.size() <= kMostTimed) return;
    timed_.erase(timed_order_.front());
    timed_order_.pop_front();
}

void GatewayRequests::forget(Entry entry) {
    begun_.erase(entry->first);
    new_.erase(entry->first);
    let_go_of_number(entry, true);
    open_.erase(entry);
}

void GatewayRequests::finish(Entry entry, FinishReason reason, std::string error) {
    const auto cause = reason == FinishReason::error ? FailureCause::unserved : FailureCause::none;
    told_.emplace_back(FinishRequest{entry->first, reason, cause, std::move(error)});
    forget(entry);
}

void GatewayRequests::refuse(RequestId id, RejectReason reason, std::string message) {
    told_.emplace_back(RejectRequest{id, reason, std::move(message), 1});
}

// ---- what a coordinator tells
// -------------------------------------------------------------------------------

Status GatewayRequests::on_events(TimePoint now, RequestEvents events) {
    const Duration clocks = now - events.said;  // between the coordinator's clock and ours
    for (RequestEvent& event : events.events) {
        const Status taken = std::visit(
            [&](auto& one) -> Status {
                if constexpr (std::is_same_v<std::decay_t<decltype(one)>, StageTimed>) {
                    one.id = id_of(one.id);
                    one.first = one.first + clocks;
                    one.last = one.last + clocks;
                    if (one.id.value != 0) told_.emplace_back(one);
                    return Ok{};
                } else {
                    // What is not here was ended by its client meanwhile.
                    const Entry entry = find_sent(one.id);
                    if (entry == open_.end()) return Ok{};
                    one.id = entry->first;
                    return take(entry, std::move(one));
                }
            },
            event);
        if (!taken.ok()) return taken;
    }
    return Ok{};
}

Status GatewayRequests::check_accepted(const Open& open, const char* told) {
    if (open.accepted) return Ok{};
    return base::invalid(
        fmt::format("told {} of request {} before it accepted it", told, open.number.value));
}

Status GatewayRequests::take(Entry entry, AcceptRequest event) {
    if (std::exchange(entry->second.accepted, true)) return Ok{};
    told_.emplace_back(event);
    return Ok{};
}

Status GatewayRequests::take(Entry entry, RejectRequest event) {
    if (entry->second.accepted) {
        finish(entry, FinishReason::error,
               "the coordinator that took over refuses to go on: " + event.message);
        return Ok{};
    }
    told_.emplace_back(std::move(event));
    forget(entry);
    return Ok{};
}

Status GatewayRequests::take(Entry entry, RequestRouted event) {
    TRY_VOID(check_accepted(entry->second, "the pipeline"));
    told_.emplace_back(std::move(event));
    return Ok{};
}

Status GatewayRequests::take(Entry entry, StreamToken event) {
    Open& open = entry->second;
    TRY_VOID(check_accepted(open, "a token"));
    if (event.choice < 0 || event.choice >= open.request.n || open.request.wants_embedding()) {
        return base::invalid(fmt::format("told a token of answer {} of request {}, which has {}",
                                         event.choice, open.number.value,
                                         open.request.wants_embedding() ? 0 : open.request.n));
    }
    Begun::Choice& got = open.got.choices[static_cast<std::size_t>(event.choice)];
    if (got.ended) return Ok{};
    const auto has = static_cast<std::int32_t>(got.output.size());
    if (event.index < 0 || event.index > has) {
        return base::invalid(
            fmt::format("told token {} of answer {} of request {}, expected token {}", event.index,
                        event.choice, open.number.value, has));
    }
    if (event.index < has) {
        if (got.output[static_cast<std::size_t>(event.index)] != event.token.token) {
            stop_diverging(entry);
        }
        return Ok{};
    }
    got.output.push_back(event.token.token);
    told_.emplace_back(std::move(event));
    return Ok{};
}

// What would come does not go on from what the client has.
void GatewayRequests::stop_diverging(Entry entry) {
    messages_.emplace_back(Ended{entry->second.number, FinishReason::cancelled});
    finish(entry, FinishReason::error,
           "the coordinator that took over came to another answer than the one that was begun");
}

Status GatewayRequests::take(Entry entry, ScoreTokens event) {
    Open& open = entry->second;
    TRY_VOID(check_accepted(open, "log-probabilities"));
    std::int32_t& scored = open.got.scored;
    std::erase_if(event.tokens, [&](const auto& token) { return token.position <= scored; });
    for (const ProducedToken& token : event.tokens) {
        if (token.position != scored + 1) {
            return base::invalid(fmt::format(
                "told the log-probability of position {} of request {}, expected position {}",
                token.position, open.number.value, scored + 1));
        }
        ++scored;
    }
    if (!event.tokens.empty()) told_.emplace_back(std::move(event));
    return Ok{};
}

Status GatewayRequests::take(Entry entry, EmbedPrompt event) {
    Open& open = entry->second;
    TRY_VOID(check_accepted(open, "the embedding"));
    if (!open.request.wants_embedding()) {
        return base::invalid(
            fmt::format("told an embedding of request {}, which wants none", open.number.value));
    }
    if (!std::exchange(open.embedded, true)) told_.emplace_back(std::move(event));
    return Ok{};
}

Status GatewayRequests::take(Entry entry, FinishChoice event) {
    Open& open = entry->second;
    TRY_VOID(check_accepted(open, "the end of an answer"));
    if (event.choice < 0 || event.choice >= open.request.n) {
        return base::invalid(fmt::format("told the end of answer {} of request {}, which has {}",
                                         event.choice, open.number.value, open.request.n));
    }
    Begun::Choice& got = open.got.choices[static_cast<std::size_t>(event.choice)];
    if (std::exchange(got.ended, true)) return Ok{};
    open.last_choice = event.reason;
    told_.emplace_back(event);
    return Ok{};
}

Status GatewayRequests::take(Entry entry, FinishRequest event) {
    TRY_VOID(check_accepted(entry->second, "the end"));
    told_.emplace_back(std::move(event));
    forget(entry);
    return Ok{};
}

}  // namespace helix::core
