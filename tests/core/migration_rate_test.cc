#include "core/protocol/migration_rate.h"

#include <gtest/gtest.h>

namespace helix::core::migration_rate_test {
namespace {

TEST(MigrationRate, AWorkerSendsByTheThreadsThatItsCopiesWouldDisturb) {
    EXPECT_EQ(most_migration_rate(1), 6e7);
    EXPECT_EQ(most_migration_rate(4), 24e7);
    EXPECT_EQ(most_migration_rate(64), 1e9);
    EXPECT_EQ(most_migration_rate(0), 1e9) << "its batches are computed elsewhere";
}

TEST(MigrationRate, RowsKeepHalfOfTheLink) {
    EXPECT_EQ(migration_rate(6e7, 2e9), 6e7);
    EXPECT_EQ(migration_rate(1e9, 1e8), 5e7);
    EXPECT_EQ(migration_rate(5e9, 2e9), 1e9) << "whatever it was told";
}

TEST(MigrationRate, WhatIsNotKnownIsTakenToBeSlow) {
    EXPECT_EQ(migration_rate(1e9, 0), 1e8) << "a link that was not measured";
    EXPECT_EQ(migration_rate(6e7, 0), 6e7);
    EXPECT_EQ(migration_rate(0, 1e10), 1e9) << "a worker that did not say";
}

}  // namespace
}  // namespace helix::core::migration_rate_test
