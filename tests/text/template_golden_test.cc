#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "template_oracle.h"

namespace helix::text::template_golden_test {

using namespace test_support;

namespace {

using nlohmann::ordered_json;

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(TemplateGolden, OurTemplatesPrintTheCommittedOutput) {
    const std::filesystem::path folder =
        std::filesystem::path(HELIX_SOURCE_DIR) / "tests/golden/templates";
    const ordered_json contexts = ordered_json::parse(read_file(folder / "contexts.json"));
    std::size_t compared = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".jinja") continue;
        const std::string source = read_file(entry.path());
        const ordered_json expected = ordered_json::parse(
            read_file(std::filesystem::path(entry.path()).replace_extension(".json")));
        ASSERT_EQ(expected.size(), contexts.size()) << entry.path();
        for (const auto& [name, context] : contexts.items()) {
            const OracleAnswer ours = render_ours({source, context});
            const std::string where = entry.path().filename().string() + ", " + name;
            EXPECT_EQ(ours.output.has_value(), !expected[name].is_null())
                << where << ": " << ours.error;
            if (ours.output && !expected[name].is_null()) {
                EXPECT_EQ(*ours.output, expected[name].get<std::string>()) << where;
            }
            ++compared;
        }
    }
    EXPECT_EQ(compared, 10 * contexts.size());
}

}  // namespace

}  // namespace helix::text::template_golden_test
