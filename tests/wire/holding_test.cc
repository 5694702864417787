// What a worker has kept, and the placements that workers remember.

#include <functional>
#include <limits>

#include "wire/codec.h"
#include "wire/decoded.h"

namespace helix::wire::holding_test {
namespace {

using core::RememberedPlacement;
using test_support::decode_again;
using test_support::expect_refused;
using test_support::kLimits;

RememberedPlacement placement() {
    return {{{"a", {0, 10}, 1000}, {"b", {8, 16}, 2000}, {"c", {}, 0}},
            {{"", "a", 5.5}, {"a", "b", 5.5}, {"b", "", 5.5}}};
}

core::Holding holding() {
    core::SequenceHeld held{{core::RequestId{7}, 2, 0},
                            {{{1}, {0, 10}}, {{2}, {10, 16}}},
                            12,
                            11,
                            false,
                            true,
                            {{{}, 9, 4, -0.5F, {}}, {{}, 10, 5, -0.5F, {}}}};
    return {3, {0, 10}, placement(), {held}};
}

TEST(Holding, IsDecodedAsItWas) {
    const auto decoded = decode_again(holding());
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(std::get<core::Holding>(*decoded), holding());
    core::Holding nothing;
    EXPECT_EQ(std::get<core::Holding>(*decode_again(nothing)), nothing);
}

TEST(Holding, FieldsOutOfRangeAreRefusedByName) {
    using Change = std::function<void(core::Holding&, core::SequenceHeld&)>;
    const std::vector<std::pair<std::string, Change>> wrong = {
        {"layers.end",
         [](core::Holding& m, auto&) {
             m.layers = {0, 17};
         }},
        {"layers.begin",
         [](core::Holding& m, auto&) {
             m.layers = {-1, 3};
         }},
        {"pipeline stages", [](auto&, core::SequenceHeld& s) { s.pipeline.clear(); }},
        {"pipeline ends", [](auto&, core::SequenceHeld& s) { s.pipeline.pop_back(); }},
        {"arrived", [](auto&, core::SequenceHeld& s) { s.arrived = -1; }},
        {"arrived", [](auto&, core::SequenceHeld& s) { s.arrived = kMaxPosition + 1; }},
        {"certain", [](auto&, core::SequenceHeld& s) { s.certain = 13; }},
        {"certain", [](auto&, core::SequenceHeld& s) { s.certain = -1; }},
        {"position of a drawn", [](auto&, core::SequenceHeld& s) { s.drawn[1].position = 11; }},
        {"position of a drawn", [](auto&, core::SequenceHeld& s) { s.drawn[1].position = 9; }},
        {"position of a drawn", [](auto&, core::SequenceHeld& s) { s.drawn[1].key.member = 1; }},
        {"position", [](auto&, core::SequenceHeld& s) { s.drawn[0].position = -1; }},
        {"token", [](auto&, core::SequenceHeld& s) { s.drawn[0].token = -1; }},
    };
    for (const auto& [words, change] : wrong) {
        core::Holding message = holding();
        change(message, message.sequences[0]);
        expect_refused(message, 0, words);
    }
    expect_refused(holding(), 10, "raw frame");
}

// Decode gives a placement, or says in these words what is wrong with it.
void expect_refused_everywhere(const RememberedPlacement& wrong, const std::string& words) {
    core::Holding held = holding();
    held.placement = wrong;
    expect_refused(held, 0, words);
    core::AssignLayers assign{1, {0, 10}, 1, {}};
    assign.placement = wrong;
    expect_refused(assign, 0, words);
}

TEST(RememberedPlacement, OneThatNoModelCouldHaveIsRefused) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    constexpr double kAll = std::numeric_limits<double>::infinity();
    using Change = std::function<void(RememberedPlacement&)>;
    const std::vector<std::pair<std::string, Change>> wrong = {
        {"holders", [](auto& p) { p = {}; }},
        {"nobody holds layer 10",
         [](auto& p) {
             p.holders[1].layers = {11, 16};
         }},
        {"named twice", [](auto& p) { p.holders[1].worker = "a"; }},
        {"has no name", [](auto& p) { p.holders[2].worker = ""; }},
        {"worker of a holder", [](auto& p) { p.holders[2].worker.assign(5000, 'x'); }},
        {"layers.end", [](auto& p) { p.holders[1].layers.end = 17; }},
        {"layers.end",
         [](auto& p) {
             p.holders[1].layers = {9, 8};
         }},
        {"memory_bytes", [](auto& p) { p.holders[0].memory_bytes = -1; }},
        {"which holds nothing", [](auto& p) { p.flows[0].to = "d"; }},
        {"no flow from", [](auto& p) { p.flows[0].to = ""; }},
        {"no flow from", [](auto& p) { p.flows[0].tokens_per_s = 0; }},
        {"tokens_per_s", [](auto& p) { p.flows[0].tokens_per_s = -1; }},
        {"tokens_per_s", [](auto& p) { p.flows[0].tokens_per_s = kNone; }},
        {"tokens_per_s", [](auto& p) { p.flows[0].tokens_per_s = kAll; }},
        {"from of a flow", [](auto& p) { p.flows[0].from.assign(5000, 'x'); }},
        {"to of a flow", [](auto& p) { p.flows[0].to.assign(5000, 'x'); }},
    };
    for (const auto& [words, change] : wrong) {
        RememberedPlacement changed = placement();
        change(changed);
        expect_refused_everywhere(changed, words);
    }
}

TEST(AssignedLayers, APrefillShareIsANumberAboveNought) {
    for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
        core::AssignLayers assign{1, {0, 10}, 1, {}};
        assign.prefill_share = wrong;
        expect_refused(assign, 0, "prefill_share", {});
    }
    core::AssignLayers unsaid{1, {0, 10}, 1, {}};
    unsaid.prefill_share = 0;  // as releases before it was said
    const auto decoded = decode_again(unsaid);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(std::get<core::AssignLayers>(*decoded).prefill_share,
              spec::ServingPolicy().prefill_share);
}

TEST(RememberedPlacement, BeforeTheModelIsKnownItIsRefused) {
    core::AssignLayers assign{1, {0, 10}, 1, {}};
    const SessionLimits unknown;
    ASSERT_TRUE(test_support::decode_text(encode(assign), 0, unknown).ok());
    assign.placement = placement();
    expect_refused(assign, 0, "before the model is known", unknown);
    ASSERT_TRUE(decode_again(assign).ok());
}

}  // namespace
}  // namespace helix::wire::holding_test
