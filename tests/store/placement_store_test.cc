#include "store/placement_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "store/engines.h"

namespace helix::store::placement_store_test {
namespace {

using base::Errc;
using ::testing::HasSubstr;

PlacementRecord placement() {
    PlacementRecord record;
    record.model = "some model";
    record.holders = {{"b", 0, 3, 100}, {"a \"quoted\"", 3, 5, 200}, {"idle", 0, 0, 1}};
    record.flows = {{"", "b", 12.5}, {"b", "a \"quoted\"", 12.5}, {"a \"quoted\"", "", 12.5}};
    return record;
}

class PlacementStoreTest : public EngineTest {
  protected:
    std::unique_ptr<PlacementStore> open() {
        auto opened = PlacementStore::open(next_place());
        EXPECT_TRUE(opened.ok()) << opened.error().message;
        return opened.ok() ? std::move(*opened) : nullptr;
    }
    base::Error refused() {
        const auto opened = PlacementStore::open(next_place());
        EXPECT_FALSE(opened.ok());
        return opened.ok() ? base::Error{} : opened.error();
    }
    std::string path() const { return folder_.path() + "/state/placement.db"; }
    std::string bytes() const {
        std::ifstream file(path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
};
HELIX_BOTH_ENGINES(PlacementStoreTest);
// What only a file can be.
class PlacementFileTest : public PlacementStoreTest {};
INSTANTIATE_TEST_SUITE_P(In, PlacementFileTest, ::testing::Values(Engine::sqlite), engine_name);

TEST_P(PlacementStoreTest, TheLastThatWasSavedIsThereAfterARestart) {
    auto store = open();
    auto nothing = store->load();
    ASSERT_TRUE(nothing.ok());
    EXPECT_FALSE(nothing->has_value());
    PlacementRecord first = placement();
    first.model = "another";
    ASSERT_TRUE(store->save(first).ok());
    ASSERT_TRUE(store->save(placement()).ok());
    store.reset();
    store = open();
    const auto again = store->load();
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_TRUE(again->has_value());
    EXPECT_EQ(**again, placement());
}

TEST_P(PlacementStoreTest, WhatCannotBeSavedLeavesWhatWasThere) {
    const auto store = open();
    ASSERT_TRUE(store->save(placement()).ok());
    PlacementRecord twice = placement();
    twice.holders.push_back(twice.holders[0]);
    EXPECT_FALSE(store->save(twice).ok());
    EXPECT_EQ(**store->load(), placement());
}

TEST_P(PlacementStoreTest, DrainsAreKeptBesideThePlacementOfAnyModel) {
    const std::vector<DrainRecord> drains = {{"a \"quoted\"", true}, {"den", false}};
    auto store = open();
    EXPECT_TRUE(store->load_drains()->empty());
    ASSERT_TRUE(store->save_drains({{"gone", true}}).ok());
    ASSERT_TRUE(store->save_drains(drains).ok());
    ASSERT_TRUE(store->save(placement()).ok());  // touches none of them
    store.reset();
    store = open();
    const auto again = store->load_drains();
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, drains);
    EXPECT_EQ(**store->load(), placement());
    EXPECT_FALSE(store->save_drains({{"twice", false}, {"twice", true}}).ok());
    EXPECT_EQ(*store->load_drains(), drains) << "what cannot be saved leaves what was there";
}

// A file of version 1, which has no drains.
TEST_P(PlacementFileTest, AFileOfTheFirstVersionIsTakenOnWithItsPlacement) {
    ASSERT_TRUE(open()->save(placement()).ok());
    {
        auto database = open_sqlite(path());
        ASSERT_TRUE(database.ok());
        ASSERT_TRUE((*database)->execute("DROP TABLE drains; PRAGMA user_version=1").ok());
    }
    const auto store = open();
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(**store->load(), placement());
    EXPECT_TRUE(store->load_drains()->empty());
    EXPECT_TRUE(store->save_drains({{"den", false}}).ok());
}

TEST_P(PlacementFileTest, ADamagedFileIsNamedAndLeftAsItIs) {
    open();
    const std::string whole = bytes();
    for (const std::size_t at : {std::size_t{0}, std::size_t{2 * 4096}}) {
        ASSERT_GT(whole.size(), at);
        std::string damaged = whole;
        for (std::size_t i = at; i < std::min(at + 200, damaged.size()); ++i) damaged[i] = '#';
        std::ofstream(path(), std::ios::binary | std::ios::trunc) << damaged;
        const base::Error error = refused();
        EXPECT_EQ(error.code, Errc::invalid) << error.message;
        EXPECT_THAT(error.message, HasSubstr("placement.db: is "));
        // The comparison begins behind the file's header, in which opening counts up.
        EXPECT_TRUE(bytes().substr(100) == damaged.substr(100));
    }
}

TEST_P(PlacementFileTest, AFileOfANewerHelixOrOfAnotherProgramIsRefusedByName) {
    open();
    {
        auto database = open_sqlite(path());
        ASSERT_TRUE(database.ok());
        ASSERT_TRUE((*database)->execute("PRAGMA user_version=9").ok());
    }
    EXPECT_THAT(refused().message, HasSubstr("placement.db: was written by a newer Helix"));
    {
        auto database = open_sqlite(path());
        ASSERT_TRUE((*database)->execute("PRAGMA application_id=7").ok());
    }
    EXPECT_THAT(refused().message, HasSubstr("placement.db: is a database of another program"));
}

TEST_P(PlacementFileTest, TwoAtOnceAreToldSo) {
    const auto first = open();
    EXPECT_EQ(refused().code, Errc::unavailable);
}

}  // namespace
}  // namespace helix::store::placement_store_test
