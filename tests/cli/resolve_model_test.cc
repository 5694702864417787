#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/temp_folder.h"
#include "cli/pull_line.h"

namespace helix::cli::resolve_model_test {
namespace {

// What a model's name becomes on a machine that may not ask anybody.
std::string resolved(std::string name) {
    const base::Status found = resolve_model(name);
    return found.ok() ? name : "error: " + found.error().message;
}

TEST(ResolveModel, APathThatIsThereWinsAndWhatCanOnlyBeOneStays) {
    const TempFolder folder;
    const std::filesystem::path before = std::filesystem::current_path();
    ::setenv("HF_HUB_OFFLINE", "1", 1);
    ::setenv("HELIX_CACHE", (folder.path() + "/cache").c_str(), 1);
    std::filesystem::current_path(folder.path());
    EXPECT_NE(resolved("den/Tiny")
                  .find("error: --model den/Tiny: there is no such file, and as "
                        "the name of a model to pull: den/Tiny: is not on this "
                        "machine, and HF_HUB_OFFLINE forbids to pull it"),
              std::string::npos);
    EXPECT_NE(resolved("https://example.com/x.gguf").find("forbids to pull it"), std::string::npos);
    std::filesystem::create_directory("den");
    std::ofstream("den/Tiny") << "x";
    EXPECT_EQ(resolved("den/Tiny"), "den/Tiny");
    for (const char* name : {"", "llama3-8b", "models/none.gguf", "./none/none", "none.json"}) {
        EXPECT_EQ(resolved(name), name);
    }
    std::filesystem::current_path(before);
    ::unsetenv("HF_HUB_OFFLINE");
    ::unsetenv("HELIX_CACHE");
}

}  // namespace
}  // namespace helix::cli::resolve_model_test
