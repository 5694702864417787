#include "model/gguf_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "base/random.h"
#include "hf_folder.h"
#include "model/manifest.h"
#include "model/synth.h"
#include "temporary_folder.h"

namespace helix::model::gguf_image_test {
namespace {

using test_support::HfFolderWriter;
using test_support::TemporaryFolder;

std::shared_ptr<WeightSource> weights_of(const std::string& path, const std::string& quantize) {
    auto weights = open_weights(path, {.quantize = quantize});
    EXPECT_TRUE(weights.ok()) << weights.error().message;
    return *weights;
}

std::vector<std::byte> whole(GgufImage& image) {
    std::vector<std::byte> bytes(image.bytes());
    EXPECT_TRUE(image.read(0, bytes).ok());
    return bytes;
}

TEST(GgufImage, OfAFileIsTheFile) {
    TemporaryFolder folder;
    const std::string path = folder.file("tiny.gguf");
    ASSERT_TRUE(synth_model({"tiny", "q8_0", 1, path, 1}).ok());
    GgufImage image(weights_of(path, ""));
    std::ifstream file(path, std::ios::binary);
    const std::string expected((std::istreambuf_iterator<char>(file)), {});
    const std::vector<std::byte> bytes = whole(image);
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
}

// Nothing of this file exists: its weights are made of a folder's, another type than they have.
TEST(GgufImage, OfAFolderThatIsQuantisedIsTheFileOfTheSameModel) {
    TemporaryFolder folder;
    const std::string path = folder.file("tiny.gguf");
    ASSERT_TRUE(synth_model({"tiny", "f16", 1, path, 1}).ok());
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok());
    HfFolderWriter(**file, folder.file("model"), 2).write();
    const auto weights = weights_of(folder.file("model"), "q8_0");
    GgufImage image(weights);
    const auto read = GgufFile::from_image(whole(image), "image");
    ASSERT_TRUE(read.ok()) << read.error().message;
    const auto expected = build_manifest(*weights);
    const auto found = build_manifest(**read);
    ASSERT_TRUE(expected.ok() && found.ok());
    EXPECT_EQ(found->model_hash, expected->model_hash);
    EXPECT_EQ(found->tensors, expected->tensors);
}

TEST(GgufImage, AnyPartIsThatPartOfTheWhole) {
    TemporaryFolder folder;
    const std::string path = folder.file("tiny.gguf");
    ASSERT_TRUE(synth_model({"tiny", "f16", 1, path, 1}).ok());
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok());
    HfFolderWriter(**file, folder.file("model")).write();
    for (const auto& [at, type] : {std::pair{path, ""}, std::pair{folder.file("model"), "q4_0"}}) {
        const auto weights = weights_of(at, type);
        GgufImage image(weights);
        const std::vector<std::byte> all = whole(image);
        base::Random random(3);
        for (int i = 0; i < 200; ++i) {
            const std::uint64_t first = random.below(all.size() + 1);
            const std::uint64_t most = std::min<std::uint64_t>(all.size() - first, 100'000);
            std::vector<std::byte> part(random.below(most + 1));
            ASSERT_TRUE(image.read(first, part).ok());
            ASSERT_EQ(std::memcmp(part.data(), all.data() + first, part.size()), 0)
                << "seed 3, draw " << i;
        }
    }
}

}  // namespace
}  // namespace helix::model::gguf_image_test
