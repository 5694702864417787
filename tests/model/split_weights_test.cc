#include "model/split_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/digest_cache.h"
#include "model/gguf_writer.h"
#include "model/manifest.h"
#include "model/model_config.h"
#include "model/synth.h"
#include "temporary_folder.h"

namespace helix::model::split_weights_test {
namespace {

using test_support::TemporaryFolder;
using ::testing::HasSubstr;

class Split : public ::testing::Test {
  protected:
    Split() {
        const std::string path = folder_.file("whole.gguf");
        EXPECT_TRUE(synth_model({"tiny", "q8_0", 1, path, 1}).ok());
        whole_ = *GgufFile::open(path);
    }

    std::string path(int number) const {
        return folder_.file("m-0000" + std::to_string(number) + "-of-00003.gguf");
    }
    // Writes part `number` of 3, with every third tensor of the model. said: the number in it.
    void write(int number, int said, std::uint16_t tensors) {
        GgufBuilder builder;
        if (number == 1) {
            for (const auto& [key, value] : whole_->metadata()) {
                if (const auto* text = std::get_if<std::string>(&value)) builder.set(key, *text);
                if (const auto* n = std::get_if<std::uint64_t>(&value)) builder.set(key, *n);
                if (const auto* f = std::get_if<double>(&value)) builder.set(key, *f);
                if (const auto* b = std::get_if<bool>(&value)) builder.set(key, *b);
                if (const auto* array = std::get_if<MetaArray>(&value)) {
                    std::visit([&, to = key](const auto& a) { builder.set(to, a); }, *array);
                }
            }
        }
        builder.set("split.no", static_cast<std::uint16_t>(said - 1));
        builder.set("split.count", std::uint16_t{3});
        builder.set("split.tensors.count", static_cast<std::int32_t>(tensors));
        std::vector<const TensorInfo*> mine;
        for (std::size_t i = 0; i < whole_->tensors().size(); ++i) {
            if (static_cast<int>(i % 3) == number - 1) mine.push_back(&whole_->tensors()[i]);
        }
        for (const TensorInfo* tensor : mine) {
            builder.add_tensor(tensor->name, tensor->type, tensor->shape);
        }
        const auto out = GgufOutput::create(path(number), builder);
        ASSERT_TRUE(out.ok());
        for (const TensorInfo* tensor : mine) {
            ASSERT_TRUE((*out)->append(*whole_->read(*tensor)).ok());
        }
        ASSERT_TRUE((*out)->finish().ok());
    }
    void write_all() {
        for (int number = 1; number <= 3; ++number) write(number, number, count());
    }
    std::uint16_t count() const { return static_cast<std::uint16_t>(whole_->tensors().size()); }
    std::string error(int number = 1) const {
        const auto opened = open_weights(path(number));
        return opened.ok() ? "" : opened.error().message;
    }

    TemporaryFolder folder_;
    std::shared_ptr<const GgufFile> whole_;
};

TEST_F(Split, IsTheFileThatItWasSplitFrom) {
    write_all();
    const auto opened = open_weights(path(1));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    WeightSource& split = **opened;
    EXPECT_EQ(split.file().tensors().size(), whole_->tensors().size());
    EXPECT_EQ(split.file().find("split.count"), nullptr);
    EXPECT_EQ(split.file().metadata(), whole_->metadata());
    for (const TensorInfo& tensor : whole_->tensors()) {
        const std::vector<std::byte> expected = *whole_->read(tensor);
        const auto bytes = split.tensor(tensor.name);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        EXPECT_TRUE(std::equal(bytes->begin(), bytes->end(), expected.begin(), expected.end()))
            << tensor.name;
        split.release(tensor.name);
        std::vector<std::byte> part(2);
        ASSERT_TRUE(split.read_part(tensor.name, 4, part)->ok());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 4)) << tensor.name;
    }
    EXPECT_TRUE(read_model_config(split).ok());
    EXPECT_TRUE(build_manifest(split).ok());
    EXPECT_THAT(split.tensor("none").error().message, HasSubstr("tensor none: missing"));
}

TEST_F(Split, ItsDigestsAreRememberedUntilAnyPartIsWritten) {
    write_all();
    const DigestCache digests(folder_.file("digests"), base::Duration{});
    const auto entries = [&] {
        const auto all = std::filesystem::directory_iterator(folder_.file("digests"));
        return std::distance(begin(all), end(all));
    };
    const auto hash = [&] {
        const auto opened = open_weights(path(1));
        EXPECT_TRUE(opened.ok());
        return digests.manifest(**opened)->model_hash;
    };
    const base::Hash128 before = hash();
    EXPECT_EQ(hash(), before);
    EXPECT_EQ(entries(), 1);
    for (const int part : {2, 3}) {
        const std::string name = path(part);
        const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(name));
        std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(bytes - 1);
        const auto last = static_cast<char>(file.get());
        const auto put = [&](char byte) {
            file.seekp(bytes - 1);
            file.put(byte);
            file.flush();
        };
        put(static_cast<char>(last ^ 1));
        EXPECT_NE(hash(), before) << "part " << part;
        put(last);
        EXPECT_EQ(hash(), before) << "part " << part;
    }
}

TEST_F(Split, EveryPartMustBeThereAndTheRightOne) {
    write_all();
    EXPECT_THAT(error(2), HasSubstr("is one of 3 parts of a model; open the first one, whose name "
                                    "ends with -00001-of-00003.gguf"));
    std::filesystem::remove(path(3));
    EXPECT_THAT(error(), HasSubstr("00003-of-00003.gguf: cannot open"));
    write(3, 2, count());
    EXPECT_THAT(error(), HasSubstr("says that it is part 2 of 3, expected part 3 of 3"));
    write(3, 3, count());
    write(1, 1, static_cast<std::uint16_t>(count() + 1));
    EXPECT_THAT(error(), HasSubstr("tensors together"));
    write_all();
    std::filesystem::copy_file(path(1), path(2), std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(error(), HasSubstr("says that it is part 1 of 3, expected part 2 of 3"));
}

}  // namespace
}  // namespace helix::model::split_weights_test
