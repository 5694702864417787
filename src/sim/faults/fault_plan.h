#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// What goes wrong in a simulated cluster, and when: a list that can be drawn from a seed, printed,
// cut down by hand and run again.

namespace helix::sim {

enum class FaultKind {
    kill,          // the process is gone; amount: seconds until the coordinator is told
    pause,         // it stands still, then goes on as if nothing had been
    cut,           // from a to b nothing arrives: held back until the end, or dropped
    slow_link,     // from a to b everything takes amount times as long
    slow_node,     // a computes and loads amount times as slowly
    lose,          // this share of all messages disappears
    duplicate,     // this share of all messages arrives twice, the second time later
    declare_lost,  // the coordinator is told of a loss that did not happen
    old_hello,     // what a said when it joined an incarnation ago arrives again
    // What operators do, and links that come back at once:
    move,        // amount times a second any request is told to move, to any pipeline
    drain,       // a is emptied, and used again in the end
    remove,      // a is emptied and dismissed; in the end it joins again
    break_link,  // what is under way between a and b is lost, and both are told
    // The coordinator's process is gone, and starts again in the end; amount: seconds in which
    // workers notice.
    kill_coordinator,
    // amount times a second a says what is not so; now and then it is silent, or twists what it
    // says. In the end a sound machine takes its place.
    lie,
    // The coordinator stands still; amount: seconds in which workers notice. In the end the next
    // one is there, and back_us later the old one is back, and goes on.
    replace_coordinator,
    // The process of gateway a is gone, and its clients' connections; amount: seconds until the
    // coordinator is told. Clients ask again.
    kill_gateway,
    // Gateway a and the coordinator are cut off from each other; amount: seconds in which each
    // notices. Their connection is gone, even if that ends before.
    cut_gateway,
    pause_gateway,  // gateway a stands still, then goes on
};
constexpr int kFaultKinds = 19;
constexpr int kPlainFaultKinds = 9;  // those before move

struct Fault {
    std::int64_t at_us = 0;
    FaultKind kind = FaultKind::kill;
    std::int32_t a = 0;  // worker id, spec::kCoordinator for an end of a link, or gateway
    std::int32_t b = 0;
    double amount = 0;
    std::int64_t for_us = 0;   // then it ends; a killed worker starts again
    bool drops = false;        // of cut; of lie: it draws wrong tokens, too
    std::int64_t back_us = 0;  // of replace_coordinator
    bool operator==(const Fault&) const = default;
};
using FaultPlan = std::vector<Fault>;

const char* name_of(FaultKind kind);
// Fault::a counts gateways.
bool is_of_gateway(FaultKind kind);
// "12.500000 cut w1 c for 3.000000 drop": one fault a line, times in seconds, c = coordinator.
std::string to_text(const Fault& fault);
std::string to_text(const FaultPlan& plan);
// Empty lines and lines that begin with # are skipped. Errors name the line and what it should be.
base::Result<FaultPlan> parse_fault_plan(std::string_view text);

// How often what happens; a rate of 0 leaves a kind out.
struct FaultMix {
    double per_minute[kFaultKinds] = {};
    double longest_s = 5;
    double worst_share = 0.1;     // of lost or duplicated messages
    std::int32_t n_gateways = 0;  // which faults of gateways choose from
};
// In order of time, all within the first within_s seconds (their ends may come later).
FaultPlan draw_faults(std::uint64_t seed, const FaultMix& mix, std::int32_t n_workers,
                      double within_s);

}  // namespace helix::sim
