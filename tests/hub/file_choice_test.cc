#include "hub/file_choice.h"

#include <gtest/gtest.h>

namespace helix::hub::file_choice_test {
namespace {

using Paths = std::vector<std::string>;

std::string chosen(const Paths& paths, const std::string& tag) {
    const auto choice = choose_files(paths, tag, "den/tiny");
    if (!choice.ok()) return "error: " + choice.error().message;
    std::string text = choice->folder ? "folder" : "";
    for (const std::string& path : choice->paths) text += (text.empty() ? "" : " ") + path;
    return text;
}

const Paths kUsual = {"README.md",        "Tiny-BF16.gguf",      "Tiny-F16.gguf",
                      "Tiny-Q4_K_M.gguf", "Tiny-Q8_0.gguf",      "Tiny-UD-Q4_K_M.gguf",
                      "mmproj-F16.gguf",  "Tiny-imatrix-1.gguf", "mtp-Tiny-Q4_K_M.gguf",
                      "lora-F16.gguf"};

TEST(FileChoice, ATagIsTheLastPartOfTheNameAndNoMore) {
    EXPECT_EQ(chosen(kUsual, "F16"), "Tiny-F16.gguf");
    EXPECT_EQ(chosen(kUsual, "BF16"), "Tiny-BF16.gguf");
    EXPECT_EQ(chosen(kUsual, "q8_0"), "Tiny-Q8_0.gguf");
    EXPECT_EQ(chosen(kUsual, "UD-Q4_K_M"), "Tiny-UD-Q4_K_M.gguf");
    EXPECT_EQ(chosen(kUsual, "Q4_K_M"), "Tiny-Q4_K_M.gguf");  // the shortest name
    EXPECT_EQ(chosen({"tiny.q4_0.gguf"}, "Q4_0"), "tiny.q4_0.gguf");
    EXPECT_EQ(chosen({"Q4_0.gguf"}, "Q4_0"), "Q4_0.gguf");
    EXPECT_EQ(chosen(kUsual, "Q4"),
              "error: den/tiny: no GGUF file has the tag Q4; there are BF16, F16, Q4_K_M, Q8_0, "
              "UD-Q4_K_M");
}

TEST(FileChoice, WithoutATagTheUsualOne) {
    EXPECT_EQ(chosen(kUsual, ""), "Tiny-Q4_K_M.gguf");
    EXPECT_EQ(chosen({"a-F16.gguf", "a-Q8_0.gguf"}, ""), "a-Q8_0.gguf");
    EXPECT_EQ(chosen({"b-F16.gguf", "a-F32.gguf"}, ""), "a-F32.gguf");
}

TEST(FileChoice, AnExactPathIsTaken) {
    EXPECT_EQ(chosen(kUsual, "Tiny-UD-Q4_K_M.gguf"), "Tiny-UD-Q4_K_M.gguf");
    EXPECT_EQ(chosen({"x/a-Q4_0.gguf", "y/a-Q4_0.gguf"}, "y/a-Q4_0.gguf"), "y/a-Q4_0.gguf");
    EXPECT_EQ(chosen({"x/a-Q4_0.gguf", "y/a-Q4_0.gguf"}, "Q4_0"),
              "error: den/tiny: the tag Q4_0 may mean x/a-Q4_0.gguf or y/a-Q4_0.gguf: name the "
              "file's path instead");
}

TEST(FileChoice, AllPartsOfASplitFileAreNeeded) {
    const Paths parts = {"Q8_0/t-Q8_0-00002-of-00003.gguf", "Q8_0/t-Q8_0-00001-of-00003.gguf",
                         "Q8_0/t-Q8_0-00003-of-00003.gguf"};
    const std::string all =
        "Q8_0/t-Q8_0-00001-of-00003.gguf Q8_0/t-Q8_0-00002-of-00003.gguf "
        "Q8_0/t-Q8_0-00003-of-00003.gguf";
    EXPECT_EQ(chosen(parts, "Q8_0"), all);
    EXPECT_EQ(chosen(parts, ""), all);
    EXPECT_EQ(chosen(parts, "Q8_0/t-Q8_0-00002-of-00003.gguf"), all);
    EXPECT_EQ(chosen({parts[0], parts[1]}, "Q8_0"),
              "error: den/tiny: Q8_0/t-Q8_0-00003-of-00003.gguf is missing, part 3 of 3 of the "
              "model");
}

TEST(FileChoice, PartNumbersAreExactlyFiveDigits) {
    EXPECT_EQ(file_part("a-00002-of-00010.gguf").number, 2);
    EXPECT_EQ(file_part("a-00002-of-00010.gguf").count, 10);
    EXPECT_EQ(file_part("a-00002-of-00010.gguf").stem, "a");
    for (const char* path :
         {"a.gguf", "a-00003-of-00002.gguf", "a-00000-of-00002.gguf", "a-0001-of-0002.gguf",
          "a-000+1-of-00002.gguf", "-00001-of-00002.gguf", "a-00001_of-00002.gguf"}) {
        EXPECT_EQ(file_part(path).count, 1) << path;
    }
}

TEST(FileChoice, SafetensorsWithWhatIsReadBesideThem) {
    const Paths folder = {"README.md",
                          "config.json",
                          "consolidated.safetensors",
                          "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json",
                          "onnx/model.safetensors",
                          "tokenizer.json"};
    EXPECT_EQ(chosen(folder, ""),
              "folder config.json model-00001-of-00002.safetensors "
              "model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.json");
    // How an encoder pools is in a folder of its own.
    EXPECT_EQ(chosen({"1_Pooling/config.json", "2_Normalize/config.json", "config.json",
                      "model.safetensors", "modules.json", "tokenizer.json"},
                     ""),
              "folder 1_Pooling/config.json config.json model.safetensors modules.json "
              "tokenizer.json");
    // And dense layers behind that; they are no model's weights.
    EXPECT_EQ(
        chosen({"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors",
                "2_Dense/pytorch_model.bin", "3_Dense/config.json", "3_Dense/model.safetensors",
                "config.json", "model.safetensors", "modules.json", "tokenizer.json"},
               ""),
        "folder 1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors "
        "3_Dense/config.json 3_Dense/model.safetensors config.json model.safetensors "
        "modules.json tokenizer.json");
    EXPECT_NE(chosen({"2_Dense/model.safetensors", "config.json", "tokenizer.json"}, "")
                  .find("are in it"),
              std::string::npos);
    Paths less = folder;
    less.erase(less.begin() + 3);
    EXPECT_NE(chosen(less, "").find("00001-of-00002.safetensors is missing"), std::string::npos);
    EXPECT_NE(chosen({"config.json", "model.safetensors"}, "").find("tokenizer.json"),
              std::string::npos);
    EXPECT_NE(chosen(folder, "Q4_0").find("no GGUF file is in it"), std::string::npos);
}

TEST(FileChoice, TheShortestTagFindsTheFileAgain) {
    for (const std::string& path : gguf_models(kUsual)) {
        EXPECT_EQ(chosen(kUsual, shortest_tag(kUsual, path)), path);
    }
    const Paths same = {"x/a-Q4_0.gguf", "y/a-Q4_0.gguf"};
    EXPECT_EQ(shortest_tag(same, same[1]), same[1]);
    EXPECT_EQ(shortest_tag(kUsual, "Tiny-F16.gguf"), "F16");
}

}  // namespace
}  // namespace helix::hub::file_choice_test
