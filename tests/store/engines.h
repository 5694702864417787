#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/temp_folder.h"
#include "postgres_server.h"
#include "store/place.h"
#include "store/sqlite.h"

namespace helix::store {

enum class Engine { sqlite, postgres };

inline std::string engine_name(const testing::TestParamInfo<Engine>& info) {
    return info.param == Engine::sqlite ? "sqlite" : "postgres";
}

// A test with an empty place for state in each of the engines.
class EngineTest : public testing::TestWithParam<Engine> {
  protected:
    void SetUp() override {
        if (in_file()) return;
        HELIX_NEEDS_POSTGRES();
        server().ask("DROP SCHEMA IF EXISTS helix CASCADE");
    }
    static test_support::PostgresServer& server() { return test_support::PostgresServer::shared(); }
    static bool in_file() { return GetParam() == Engine::sqlite; }
    // As the next coordinator has it.
    Place next_place() {
        Place place = in_file() ? Place(folder_.path() + "/state") : Place();
        if (!in_file()) place.postgres = server().url();
        place.term = ++term_;
        place.owner = "test";
        return place;
    }
    // Changes what is there behind the stores' backs; none is open.
    void change(const std::string& sql, const std::string& file = "helix.db") const {
        if (!in_file()) {
            server().ask("SET search_path TO helix; " + sql);
            return;
        }
        auto database = open_sqlite(folder_.path() + "/state/" + file);
        ASSERT_TRUE(database.ok()) << database.error().message;
        const auto done = (*database)->execute(sql);
        ASSERT_TRUE(done.ok()) << done.error().message;
    }
    // Bytes in SQL, given in hexadecimal digits; and as many zeros as something has bytes.
    static std::string bytes(const std::string& hex) {
        return in_file() ? "x'" + hex + "'" : "'\\x" + hex + "'::bytea";
    }
    static std::string zeros_like(const std::string& column) {
        return in_file() ? "zeroblob(length(" + column + "))"
                         : "decode(repeat('00', length(" + column + ")), 'hex')";
    }

    TempFolder folder_;
    std::uint64_t term_ = 0;
};

#define HELIX_BOTH_ENGINES(test)                                                            \
    INSTANTIATE_TEST_SUITE_P(In, test, ::testing::Values(Engine::sqlite, Engine::postgres), \
                             engine_name)

}  // namespace helix::store
