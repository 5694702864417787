#include "node/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/temp_folder.h"
#include "model/synth.h"

namespace helix::node::served_model_test {
namespace {

// Makes a tensor's bytes (its number, repeated) when they are asked for, lets them go after the
// last use.
class MadeWeights final : public model::WeightSource {
  public:
    explicit MadeWeights(std::size_t size) : size_(size) {}
    const model::GgufFile& file() const override { return *file_; }  // none is needed
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override {
        Made& made = made_[std::string(name)];
        if (made.uses++ == 0) {
            made.bytes.assign(size_, static_cast<std::byte>(std::stoi(std::string(name))));
            ++times_made;
        }
        return std::span<const std::byte>(made.bytes);
    }
    void release(std::string_view name) override {
        const auto made = made_.find(std::string(name));
        ASSERT_NE(made, made_.end()) << name << " was released too often";
        if (--made->second.uses == 0) made_.erase(made);
    }
    bool holds(const std::string& name) const { return made_.contains(name); }
    std::size_t held() const { return made_.size(); }

    int times_made = 0;

  private:
    struct Made {
        std::vector<std::byte> bytes;
        int uses = 0;
    };
    std::size_t size_;
    std::map<std::string, Made> made_;
    std::shared_ptr<const model::GgufFile> file_;
};

constexpr std::uint32_t kTensorBytes = 1000;

class ServedWeights : public testing::Test {
  protected:
    ServedWeights() {
        model::ModelManifest manifest;
        manifest.header.assign(10, std::byte{0});
        for (int i = 0; i < 12; ++i)
            manifest.tensors.push_back({std::to_string(i), kTensorBytes, {}});
        served_.manifest = std::make_shared<const model::ModelManifest>(std::move(manifest));
        served_.weights = source_;
    }
    WeightAnswer ask(std::int32_t tensor, std::uint64_t offset, std::uint32_t length) const {
        return answer_chunk(served_, {{}, tensor, offset, length});
    }
    static std::string error_of(const WeightAnswer& answer) {
        return std::get<wire::Chunk>(answer.message).error;
    }

    std::shared_ptr<MadeWeights> source_ = std::make_shared<MadeWeights>(kTensorBytes);
    ServedModel served_;
};

TEST_F(ServedWeights, AnAnswerKeepsItsBytesHoweverManyTensorsFollow) {
    const WeightAnswer slow = ask(3, 10, 500);
    for (std::int32_t tensor = 4; tensor < 12; ++tensor) ask(tensor, 0, 1);
    EXPECT_TRUE(source_->holds("3"));
    ASSERT_EQ(slow.data.bytes.size(), 500U);
    for (const std::byte byte : slow.data.bytes) ASSERT_EQ(byte, std::byte{3});
}

TEST_F(ServedWeights, TensorsThatNobodyTakesAreLetGo) {
    for (std::int32_t tensor = 0; tensor < 12; ++tensor) ask(tensor, 0, kTensorBytes);
    EXPECT_LE(source_->held(), 4U);
    served_ = {};
    EXPECT_EQ(source_->held(), 0U);
}

TEST_F(ServedWeights, ATensorIsMadeOnceForAllItsPieces) {
    for (std::uint64_t offset = 0; offset < kTensorBytes; offset += 100) {
        EXPECT_EQ(ask(5, offset, 100).data.bytes.size(), 100U);
    }
    EXPECT_EQ(source_->times_made, 1);
}

TEST_F(ServedWeights, WhatIsOutsideATensorIsRefused) {
    EXPECT_EQ(error_of(ask(5, 900, 100)), "");
    EXPECT_EQ(error_of(ask(5, 901, 100)), "100 bytes at 901 of a tensor of 1000");
    EXPECT_EQ(error_of(ask(12, 0, 1)), "the model has no tensor number 12");
    EXPECT_EQ(error_of(ask(wire::kHeaderChunk, 0, 10)), "");
    EXPECT_EQ(error_of(ask(wire::kHeaderChunk, 5, 6)), "6 bytes at 5 of a tensor of 10");
}

// A worker that then asks is told why, and the coordinator goes on.
TEST(ServedFile, AModelThatIsCutWhileItIsServedGivesAnErrorThatNamesIt) {
    const TempFolder folder;
    model::SynthOptions synth;
    synth.path = folder.path() + "/tiny.gguf";
    ASSERT_TRUE(model::synth_model(synth).ok());
    const auto served = open_served_model(synth.path);
    ASSERT_TRUE(served.ok()) << served.error().message;
    const auto last = static_cast<std::int32_t>(served->manifest->tensors.size()) - 1;
    const auto error_of = [&] {
        return std::get<wire::Chunk>(answer_chunk(*served, {{}, last, 0, 10}).message).error;
    };
    EXPECT_EQ(error_of(), "");
    std::filesystem::resize_file(synth.path, std::filesystem::file_size(synth.path) / 2);
    EXPECT_THAT(error_of(), ::testing::HasSubstr(synth.path + ": ends at byte"));
    // The header is in memory.
    const WeightAnswer header = answer_chunk(*served, {{}, wire::kHeaderChunk, 0, 10});
    EXPECT_EQ(header.data.bytes.size(), 10U);
}

TEST(ServedFile, APieceLargerThanAnyWorkerAsksForIsRefused) {
    const TempFolder folder;
    model::SynthOptions synth;
    synth.path = folder.path() + "/tiny.gguf";
    ASSERT_TRUE(model::synth_model(synth).ok());
    auto served = open_served_model(synth.path);
    auto manifest = *served->manifest;
    manifest.tensors[0].bytes = std::uint64_t{1} << 40U;
    served->manifest = std::make_shared<const model::ModelManifest>(std::move(manifest));
    const WeightAnswer answer = answer_chunk(*served, {{}, 0, 0, 1U << 31U});
    EXPECT_EQ(std::get<wire::Chunk>(answer.message).error,
              "2147483648 bytes at once, the limit is 16777216");
}

}  // namespace
}  // namespace helix::node::served_model_test
