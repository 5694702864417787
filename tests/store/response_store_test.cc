#include "store/response_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/engines.h"

namespace helix::store::response_store_test {
namespace {

using base::Errc;
using ::testing::HasSubstr;

class ResponseStoreTest : public EngineTest {
  protected:
    std::unique_ptr<ResponseStore> open(std::int64_t max_bytes = 1'000'000) {
        auto opened = ResponseStore::open(next_place(), max_bytes);
        EXPECT_TRUE(opened.ok()) << opened.error().message;
        return opened.ok() ? std::move(*opened) : nullptr;
    }
    static bool has(const ResponseStore& store, const std::string& id) {
        const auto found = store.find(id);
        if (!found.ok()) {
            EXPECT_EQ(found.error().code, Errc::not_found);
            EXPECT_THAT(found.error().message, HasSubstr(id));
        }
        return found.ok();
    }
};
HELIX_BOTH_ENGINES(ResponseStoreTest);

TEST_P(ResponseStoreTest, WhatWasSavedIsThereAfterARestartUntilItIsRemoved) {
    {
        const auto store = open();
        ASSERT_TRUE(store->save({"a", "before", "[]"}).ok());
        ASSERT_TRUE(store->save({"b", "", "[]"}).ok());
        ASSERT_TRUE(store->save({"a", "body \"1\"", "[1]"}).ok());
    }
    const auto store = open();
    const auto found = store->find("a");
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->id, "a");
    EXPECT_EQ(found->body, "body \"1\"");
    EXPECT_EQ(found->items, "[1]");
    EXPECT_TRUE(store->remove("a").ok());
    EXPECT_FALSE(has(*store, "a"));
    EXPECT_TRUE(has(*store, "b"));
    const auto gone = store->remove("a");
    ASSERT_FALSE(gone.ok());
    EXPECT_EQ(gone.error().code, Errc::not_found);
}

TEST_P(ResponseStoreTest, TheOldestGoWhenThereIsTooMuch) {
    const auto store = open(100);
    const std::string thirty(30, 'x');
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(store->save({id, thirty, ""}).ok());
    EXPECT_TRUE(has(*store, "a"));
    ASSERT_TRUE(store->save({"d", thirty, thirty}).ok());
    EXPECT_FALSE(has(*store, "a"));
    EXPECT_FALSE(has(*store, "b"));
    EXPECT_TRUE(has(*store, "c"));
    EXPECT_TRUE(has(*store, "d"));
    ASSERT_TRUE(store->save({"e", std::string(200, 'x'), ""}).ok());
    EXPECT_FALSE(has(*store, "e")) << "too much by itself";
}

TEST_P(ResponseStoreTest, WhatWasDamagedIsNotGivenOut) {
    { ASSERT_TRUE(open()->save({"a", "body", "[1]"}).ok()); }
    change("UPDATE responses SET items = " + bytes("5b325d"), "responses.db");
    const auto found = open()->find("a");
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, Errc::internal);
    EXPECT_THAT(found.error().message, HasSubstr("'a' is damaged"));
}

}  // namespace
}  // namespace helix::store::response_store_test
