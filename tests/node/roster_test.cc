// Who is greeted, under which name, and what is said of those without work.

#include <gtest/gtest.h>

#include "node/idle_workers.h"
#include "node/worker_roster.h"

namespace helix::node::roster_test {
namespace {

constexpr base::TimePoint kStart{1'000'000'000'000};
const std::string kKey(40, 'a');

wire::Hello hello(const std::string& name, const std::string& key = "") {
    wire::Hello made;
    made.name = name;
    made.public_key = key;
    return made;
}

TEST(WorkerRoster, NamesThatCouldDoHarmWherePrintedAreRefusedWithTheReason) {
    WorkerRoster roster;
    for (const std::string& name :
         {std::string(""), std::string(65, 'a'), std::string("two words"), std::string("a\x1b[2J"),
          std::string("a\nb"), std::string("<b>"), std::string("a/b"),
          std::string("caf\xc3\xa9")}) {
        const auto refused = roster.greet(kStart, "c", hello(name), {});
        ASSERT_FALSE(refused.ok()) << name;
        EXPECT_EQ(refused.error().code, base::Errc::invalid) << "trying again is useless";
        EXPECT_NE(refused.error().message.find("1 to 64 letters, digits"), std::string::npos);
        EXPECT_EQ(refused.error().message.find('\x1b'), std::string::npos);
    }
    EXPECT_TRUE(roster.greet(kStart, "c", hello("Den-2.hall_x"), {}).ok());
    wire::Hello forged = hello("attic");
    forged.region = "north\nWARN forged";
    const auto refused = roster.greet(kStart, "d", forged, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("its region"), std::string::npos);
}

TEST(WorkerRoster, AKeyLetsInTheWorkerThatItWasMadeForOnly) {
    WorkerRoster roster;
    const auto other = roster.greet(kStart, "c", hello("attic", kKey), {kKey, "den"});
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.error().code, base::Errc::invalid);
    EXPECT_NE(other.error().message.find("made for a worker named \"den\""), std::string::npos);
    EXPECT_FALSE(roster.greet(kStart, "c", hello("den", "another"), {kKey, "den"}).ok());
    EXPECT_FALSE(roster.greet(kStart, "c", hello("den", kKey), {kKey, ""}).ok());
    EXPECT_TRUE(roster.greet(kStart, "c", hello("den", kKey), {kKey, "den"}).ok());
    const auto second = roster.greet(kStart, "d", hello("den", kKey), {kKey, "den"});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, base::Errc::denied) << "it may try again";
    EXPECT_NE(second.error().message.find("key of \"den\" is here already"), std::string::npos);
}

wire::Hello known_as(const std::string& name, std::uint32_t number) {
    wire::Hello made = hello(name);
    made.known_as = core::WorkerId{number};
    return made;
}

TEST(WorkerRoster, AWorkerTakesItsNumberAlongToTheNextCoordinator) {
    WorkerRoster roster;
    const WorkerEntry* const den = *roster.greet(kStart, "c", known_as("den", 5), {});
    EXPECT_EQ(den->worker, core::WorkerId{5});
    EXPECT_TRUE(den->known);
    const WorkerEntry* const fresh = *roster.greet(kStart, "d", hello("attic"), {});
    EXPECT_EQ(fresh->worker, core::WorkerId{0});
    EXPECT_FALSE(fresh->known);
    // A number that cannot be, and one that another has who was here before.
    EXPECT_EQ((*roster.greet(kStart, "e", known_as("barn", 4'000'000'000U), {}))->worker,
              core::WorkerId{1});
    EXPECT_EQ(roster.take_number(known_as("loft", 5)), "");
    const WorkerEntry* const second = *roster.greet(kStart, "f", known_as("loft", 5), {});
    EXPECT_EQ(second->worker, core::WorkerId{2});
    EXPECT_FALSE(second->known);
}

TEST(WorkerRoster, WhoHasKeptSomethingGetsItsNumberFromWhoIsNew) {
    WorkerRoster roster;
    EXPECT_EQ((*roster.greet(kStart, "new", hello("attic"), {}))->worker, core::WorkerId{0});
    EXPECT_EQ(roster.take_number(hello("den")), "");
    EXPECT_EQ(roster.take_number(known_as("den", 3)), "") << "nobody has it";
    EXPECT_EQ(roster.take_number(known_as("den", 0)), "new");
    roster.remove("new");
    EXPECT_EQ((*roster.greet(kStart, "c", known_as("den", 0), {}))->worker, core::WorkerId{0});
    EXPECT_EQ((*roster.greet(kStart, "again", hello("attic"), {}))->worker, core::WorkerId{1});
}

TEST(WorkerRoster, WhatComputesIsToldToTheCore) {
    WorkerEntry entry;
    entry.hello = hello("den-vulkan0");
    entry.hello.host = "den";
    entry.hello.device = "card";
    const core::WorkerJoined joined = to_joined(entry, {});
    EXPECT_EQ(joined.node.host, "den");
    EXPECT_EQ(joined.node.device, "card");
}

TEST(WorkerRoster, ARestartTakesThePlaceOfASilentSessionOnly) {
    WorkerRoster roster;
    const base::Duration limit = base::from_ms(3000);
    ASSERT_TRUE(roster.greet(kStart, "old", hello("den"), {}).ok());
    EXPECT_EQ(roster.silent_holder("den", kStart + limit, limit), "") << "it is alive";
    EXPECT_EQ(roster.silent_holder("attic", kStart + base::from_seconds(9), limit), "");
    const base::TimePoint later = kStart + base::from_ms(3001);
    EXPECT_EQ(roster.silent_holder("den", later, limit), "old");
    roster.find("old")->last_heard = later;
    EXPECT_EQ(roster.silent_holder("den", later, limit), "");
}

TEST(IdleWorkers, AreNamedOnceWithTheReason) {
    spec::ModelSpec model;
    model.layer_bytes = 1'000'000'000;
    spec::ClusterSpec cluster;
    for (const auto& [name, bytes] :
         {std::pair<const char*, std::int64_t>("big", 4'000'000'000),
          std::pair<const char*, std::int64_t>("small", 500'000'000),
          std::pair<const char*, std::int64_t>("spare", 2'000'000'000)}) {
        cluster.nodes.emplace_back();
        cluster.nodes.back().name = name;
        cluster.nodes.back().memory_bytes = bytes;
    }
    IdleWorkers idle;
    const auto lines = idle.tell(cluster, model, {{{0, 4}, {0, 0}, {0, 0}}});
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_NE(lines[0].find("worker small is idle"), std::string::npos);
    EXPECT_NE(lines[0].find("holds no layer"), std::string::npos) << lines[0];
    EXPECT_NE(lines[1].find("worker spare is idle"), std::string::npos);
    EXPECT_NE(lines[1].find("5 %"), std::string::npos) << lines[1];
    EXPECT_EQ(idle.tell(cluster, model, {{{0, 4}, {0, 0}, {0, 0}}}).size(), 0U);
    EXPECT_EQ(idle.tell(cluster, model, {{{0, 4}, {0, 0}, {2, 4}}}).size(), 0U);
    EXPECT_EQ(idle.tell(cluster, model, {{{0, 4}, {0, 0}, {0, 0}}}).size(), 1U) << "again idle";
}

}  // namespace
}  // namespace helix::node::roster_test
