#include "model/importance.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/gguf_writer.h"
#include "temporary_folder.h"

namespace helix::model::importance_test {
namespace {

using test_support::TemporaryFolder;
using ::testing::HasSubstr;

TEST(Importance, ComesBackAsItWasWritten) {
    const TemporaryFolder folder;
    ImportanceMatrix made;
    made.datasets = {"words.txt"};
    made.chunks = 7;
    made.chunk_tokens = 512;
    made.tensors["blk.0.ffn_down_exps.weight"] = {{1, 2, 3, 4, 5, 6}, {10, 0}};
    made.tensors["output.weight"] = {{0.5F, 0.25F}, {3584}};
    ASSERT_TRUE(write_importance(folder.file("m.imatrix"), made).ok());
    const auto read = read_importance(folder.file("m.imatrix"));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->datasets, made.datasets);
    EXPECT_EQ(read->chunks, 7);
    EXPECT_EQ(read->chunk_tokens, 512);
    ASSERT_EQ(read->tensors.size(), 2U);
    for (const auto& [name, squares] : made.tensors) {
        EXPECT_EQ(read->tensors.at(name).sums, squares.sums);
        EXPECT_EQ(read->tensors.at(name).counts, squares.counts);
    }
    const auto file = GgufFile::open(folder.file("m.imatrix"));
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->find_tensor("blk.0.ffn_down_exps.weight.in_sum2")->shape,
              (std::vector<std::int64_t>{3, 2}));
    EXPECT_EQ((*file)->find_tensor("blk.0.ffn_down_exps.weight.counts")->shape,
              (std::vector<std::int64_t>{1, 2}));
}

class OldFile {
  public:
    OldFile& number(std::int32_t value) { return raw(&value, sizeof value); }
    OldFile& text(const std::string& value) {
        number(static_cast<std::int32_t>(value.size()));
        return raw(value.data(), value.size());
    }
    OldFile& floats(const std::vector<float>& values) {
        number(static_cast<std::int32_t>(values.size()));
        return raw(values.data(), values.size() * sizeof(float));
    }
    void write(const std::string& path, std::size_t bytes = std::string::npos) const {
        std::ofstream(path, std::ios::binary) << bytes_.substr(0, bytes);
    }
    std::size_t size() const { return bytes_.size(); }

  private:
    OldFile& raw(const void* data, std::size_t size) {
        bytes_.append(static_cast<const char*>(data), size);
        return *this;
    }
    std::string bytes_;
};

TEST(Importance, OfTheOldFormatIsReadAndCutOnesAreRefused) {
    const TemporaryFolder folder;
    const std::string path = folder.file("old.dat");
    OldFile file;
    file.number(2);
    file.text("blk.0.attn_q.weight").number(4).floats({8, 16});
    file.text("blk.0.ffn_up_exps.weight").number(5).floats({5, 10, 15, 20});
    const std::size_t entries_end = file.size();
    file.number(9).text("old words.txt");
    file.write(path);
    const auto read = read_importance(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->chunks, 9);
    EXPECT_EQ(read->datasets, std::vector<std::string>{"old words.txt"});
    const auto weights = error_weights(read->tensors.at("blk.0.ffn_up_exps.weight"), 2, 2);
    ASSERT_TRUE(weights.ok());
    EXPECT_GT((*weights)[3], (*weights)[0]);
    for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
        file.write(path, bytes);
        const auto cut = read_importance(path);
        // Older files end after the entries, or after the last call's number.
        const bool whole = bytes == entries_end || bytes == entries_end + 4;
        EXPECT_EQ(cut.ok(), whole) << bytes << " bytes";
        if (!cut.ok()) {
            EXPECT_THAT(cut.error().message, HasSubstr("old.dat"));
        }
    }
}

TEST(Importance, OtherFilesAndWrongNumbersAreRefusedByName) {
    const TemporaryFolder folder;
    const std::string path = folder.file("x.gguf");
    const auto write = [&](const std::string& type, bool counts, float value) {
        GgufBuilder builder;
        builder.set("general.type", type);
        builder.add_tensor("a.weight.in_sum2", TensorType::f32, {2, 1});
        if (counts) builder.add_tensor("a.weight.counts", TensorType::f32, {1, 1});
        const std::vector<float> sums{1, value};
        const std::vector<float> count{1};
        auto out = GgufOutput::create(path, builder);
        ASSERT_TRUE(out.ok());
        ASSERT_TRUE((*out)->append(std::as_bytes(std::span(sums))).ok());
        if (counts) {
            ASSERT_TRUE((*out)->append(std::as_bytes(std::span(count))).ok());
        }
        ASSERT_TRUE((*out)->finish().ok());
    };
    const auto message = [&] {
        const auto read = read_importance(path);
        return read.ok() ? std::string() : read.error().message;
    };
    write("model", true, 1);
    EXPECT_THAT(message(), HasSubstr("general.type is not \"imatrix\""));
    write("imatrix", false, 1);
    EXPECT_THAT(message(), HasSubstr("there is no tensor a.weight.counts"));
    write("imatrix", true, -1);
    EXPECT_THAT(message(), HasSubstr("a.weight.in_sum2: has numbers that are no sums"));
    write("imatrix", true, std::numeric_limits<float>::quiet_NaN());
    EXPECT_THAT(message(), HasSubstr("a.weight.in_sum2"));
    write("imatrix", true, 1);
    EXPECT_EQ(message(), "");
    EXPECT_FALSE(read_importance(folder.file("none")).ok());
}

TEST(ErrorWeights, AreMeanSquaresOverTheirMean) {
    // 1,000 rows of one matrix, whose columns have the mean squares 1 and 3.
    const auto weights = error_weights({{1000, 3000}, {1000}}, 1, 2);
    ASSERT_TRUE(weights.ok());
    EXPECT_NEAR((*weights)[0], 0.5 + 0.001, 1e-6);
    EXPECT_NEAR((*weights)[1], 1.5 + 0.001, 1e-6);
}

TEST(ErrorWeights, OfExpertsThatFewRowsCameToAreThoseOfAll) {
    // The first expert was asked by 792 rows, the second by 8, the third by none.
    const auto weights = error_weights({{792, 3 * 792, 8 * 5, 0, 0, 0}, {792, 8, 0}}, 3, 2);
    ASSERT_TRUE(weights.ok());
    const double shared[] = {(792.0 + 40) / 800, 3.0 * 792 / 800};
    const double mean = (shared[0] + shared[1]) / 2;
    EXPECT_NEAR((*weights)[4], shared[0] / mean + 0.001, 1e-5) << "nothing is known of it";
    EXPECT_NEAR((*weights)[5], shared[1] / mean + 0.001, 1e-5);
    EXPECT_NEAR((*weights)[2], (5 + shared[0]) / 2 / mean + 0.001, 1e-5) << "half is";
    EXPECT_NEAR((*weights)[0], (1 + (shared[0] - 1) * 8 / 800) / mean + 0.001, 1e-5);
}

TEST(ErrorWeights, OfNothingSeenAreEven) {
    const auto weights = error_weights({{0, 0, 0, 0}, {0, 0}}, 2, 2);
    ASSERT_TRUE(weights.ok());
    EXPECT_EQ(*weights, std::vector<float>(4, 1.0F));
}

TEST(ErrorWeights, OfAnotherShapeAreRefused) {
    EXPECT_FALSE(error_weights({{1, 2, 3}, {1}}, 1, 2).ok());
    EXPECT_FALSE(error_weights({{1, 2, 3, 4, 5, 6}, {1, 1}}, 3, 2).ok());
    EXPECT_TRUE(error_weights({{1, 2, 3, 4, 5, 6}, {1}}, 3, 2).ok());
}

}  // namespace
}  // namespace helix::model::importance_test
