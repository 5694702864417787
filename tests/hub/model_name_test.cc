#include "hub/model_name.h"

#include <gtest/gtest.h>

namespace helix::hub::model_name_test {
namespace {

std::string parsed(const std::string& text) {
    const auto name = parse_model_name(text);
    if (!name.ok()) return "error";
    return name->owner + " " + name->repo + " " + name->revision + " " + name->tag;
}

TEST(ModelNames, OwnerRepoRevisionAndTag) {
    EXPECT_EQ(parsed("den/Tiny-GGUF"), "den Tiny-GGUF main ");
    EXPECT_EQ(parsed("den/Tiny-GGUF:Q4_K_M"), "den Tiny-GGUF main Q4_K_M");
    EXPECT_EQ(parsed("den/Tiny@v1.0:q8_0"), "den Tiny v1.0 q8_0");
    EXPECT_EQ(parsed("den/Tiny@refs/pr/3"), "den Tiny refs/pr/3 ");
    EXPECT_EQ(parsed("den/Tiny:more/tiny-f16.gguf"), "den Tiny main more/tiny-f16.gguf");
}

TEST(ModelNames, AddressesOfTheHubAreNames) {
    EXPECT_EQ(parsed("hf.co/den/Tiny:Q8_0"), "den Tiny main Q8_0");
    EXPECT_EQ(parsed("https://huggingface.co/den/Tiny/"), "den Tiny main ");
    EXPECT_EQ(parsed("https://huggingface.co/den/Tiny/resolve/main/a/b.gguf?download=true"),
              "den Tiny main a/b.gguf");
    EXPECT_EQ(parsed("https://huggingface.co/den/Tiny/blob/v2/b.gguf"), "den Tiny v2 b.gguf");
    EXPECT_TRUE(looks_like_model_name("https://huggingface.co/den/Tiny"));
    EXPECT_FALSE(looks_like_model_name("https://example.com/den/Tiny"));
}

TEST(ModelNames, WhatIsNoNameIsAnError) {
    for (const char* text :
         {"", "tiny", "/den/tiny", "den/", "a/b/c", "den/tiny:", "den/../tiny", "den/tiny:../x",
          "den/tiny:/etc/passwd", "den/tiny@..:x", "den/.hidden", "den/ti ny", "-den/tiny",
          "den/tiny:a\\b", "den/tiny:a\nb"}) {
        EXPECT_EQ(parsed(text), "error") << text;
    }
    EXPECT_NE(parse_model_name("tiny").error().message.find("OWNER/REPO:TAG"), std::string::npos);
}

TEST(ModelNames, PathsAreNoNames) {
    for (const char* text : {"models/llama.gguf", "./den/tiny", "../tiny", "/den/tiny", "a/b/c",
                             "llama.gguf", "llama3-8b", "dir/config.json", "C:/x"}) {
        EXPECT_FALSE(looks_like_model_name(text)) << text;
    }
    EXPECT_TRUE(looks_like_model_name("den/tiny"));
    EXPECT_TRUE(looks_like_model_name("den/tiny:more/x.gguf"));
}

TEST(ModelNames, OnlyPathsThatStayInTheirFolderAreSafe) {
    EXPECT_TRUE(is_safe_path("a/b.gguf"));
    EXPECT_TRUE(is_safe_path("..a"));
    for (const char* path :
         {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\tb"}) {
        EXPECT_FALSE(is_safe_path(path)) << path;
    }
    EXPECT_FALSE(is_safe_path(std::string("a\0b", 3)));
    EXPECT_FALSE(is_safe_path(std::string(2000, 'a')));
}

}  // namespace
}  // namespace helix::hub::model_name_test
