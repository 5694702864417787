#include "node/cache_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/temp_folder.h"
#include "model/synth.h"
#include "model/weight_source.h"

namespace helix::node::cache_room_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class CacheRoomTest : public testing::Test {
  protected:
    CacheRoomTest() : cache_(fs::path(folder_.path()) / "cache") {}

    // A tensor of one model that is no model's, used so long ago.
    model::TensorDigest put(std::uint8_t content, std::size_t bytes, std::chrono::hours ago) {
        const std::vector<std::byte> data(bytes, std::byte{content});
        const model::TensorDigest tensor{"t", bytes, base::hash128(data)};
        EXPECT_TRUE(cache_.keep(tensor.hash, data).ok());
        used(tensor, ago);
        return tensor;
    }
    void used(const model::TensorDigest& tensor, std::chrono::hours ago) {
        fs::last_write_time(cache_.path_of(tensor.hash), fs::file_time_type::clock::now() - ago);
    }
    // A whole model, of which nothing was used for days.
    model::ModelManifest put_model(std::uint64_t seed) {
        model::SynthOptions synth;
        synth.path = folder_.path() + "/" + std::to_string(seed) + ".gguf";
        synth.seed = seed;
        EXPECT_TRUE(model::synth_model(synth).ok());
        const auto weights = model::open_weights(synth.path);
        model::ModelManifest manifest = *model::build_manifest(**weights);
        EXPECT_TRUE(cache_.keep_manifest(manifest).ok());
        for (const model::TensorDigest& tensor : manifest.tensors) {
            const auto bytes = (*weights)->tensor(tensor.name);
            EXPECT_TRUE(cache_.keep(tensor.hash, *bytes).ok());
            used(tensor, 100h);
        }
        return manifest;
    }
    bool has_all(const model::ModelManifest& manifest) const {
        return std::ranges::all_of(manifest.tensors,
                                   [&](const auto& tensor) { return cache_.has(tensor); });
    }
    std::uint64_t bytes() const {
        std::uint64_t all = 0;
        for (const TensorCache::File& file : cache_.files()) all += file.bytes;
        return all;
    }

    TempFolder folder_;
    TensorCache cache_;
};

TEST_F(CacheRoomTest, WhatWasNotUsedForLongestGoesFirst) {
    const auto oldest = put(1, 1000, 3h);
    const auto older = put(2, 1000, 2h);
    const auto newest = put(3, 1000, 1h);
    EXPECT_TRUE(cache_.read(oldest).ok());  // that is a use
    CacheRoom room(cache_, {3200});
    ASSERT_TRUE(room.make(1000).ok());
    EXPECT_TRUE(cache_.has(oldest));
    EXPECT_FALSE(cache_.has(older));
    EXPECT_TRUE(cache_.has(newest));
    ASSERT_TRUE(room.make(200).ok());
    EXPECT_TRUE(cache_.has(newest)) << "there was room";
}

TEST_F(CacheRoomTest, TheLimitHoldsHoweverManyTensorsCome) {
    CacheRoom room(cache_, {10'000});
    for (std::uint8_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(room.make(900).ok());
        put(i, 900, 0h);
        ASSERT_LE(bytes(), 10'000U);
    }
    EXPECT_GT(bytes(), 7000U) << "and what fits is kept";
}

TEST_F(CacheRoomTest, AnotherProcessFillsTheSameFolder) {
    CacheRoom room(cache_, {2500});
    ASSERT_TRUE(room.make(1000).ok());
    put(1, 1000, 1h);
    const auto of_another = put(2, 1000, 2h);
    // It looks at the folder again when by what it knows itself there is no room.
    ASSERT_TRUE(room.make(1000).ok());
    ASSERT_TRUE(room.make(1000).ok());
    EXPECT_FALSE(cache_.has(of_another));
}

TEST_F(CacheRoomTest, WhatARunningProcessUsesIsNeverRemoved) {
    const model::ModelManifest in_use = put_model(1);
    const model::ModelManifest idle = put_model(2);
    const std::uint64_t all = bytes();
    auto use = cache_.use(in_use.model_hash);
    ASSERT_TRUE(use.ok()) << use.error().message;
    CacheRoom room(cache_, {all});
    ASSERT_TRUE(room.make(all / 2 - 100).ok());
    EXPECT_TRUE(has_all(in_use));
    EXPECT_FALSE(has_all(idle));
    const base::Status too_much = room.make(all);
    ASSERT_FALSE(too_much.ok());
    EXPECT_EQ(too_much.error().code, base::Errc::too_large);
    EXPECT_NE(too_much.error().message.find("is in use"), std::string::npos);
    EXPECT_TRUE(has_all(in_use));
    use->reset();
    ASSERT_TRUE(room.make(all).ok());
    EXPECT_EQ(bytes(), 0U);
    EXPECT_TRUE(cache_.models().empty()) << "manifests without tensors";
}

TEST_F(CacheRoomTest, WithoutALimitATenthOfTheDiskStaysFree) {
    const auto old = put(1, 1000, 2h);
    DiskSpace disk{10'000, 3000};
    const AskDisk ask = [&](const fs::path&) -> base::Result<DiskSpace> { return disk; };
    CacheRoom room(cache_, {}, ask);
    ASSERT_TRUE(room.make(2000).ok());
    EXPECT_TRUE(cache_.has(old));
    ASSERT_TRUE(room.make(2001).ok());
    EXPECT_FALSE(cache_.has(old));
    const base::Status full = room.make(2001);
    ASSERT_FALSE(full.ok());
    EXPECT_NE(full.error().message.find("leaves a tenth of the disk free"), std::string::npos);
    disk = {1'000'000'000'000, kMostLeftFreeBytes + 5000};
    EXPECT_TRUE(room.make(5000).ok()) << "no tenth of a large disk";
    EXPECT_FALSE(room.make(5001).ok());
}

TEST_F(CacheRoomTest, WhatADeadProcessBeganIsRemovedAndWhatALivingOneWritesIsNot) {
    const fs::path folder = cache_.path_of({1, 2}).parent_path();
    fs::create_directories(folder);
    const fs::path left = folder / "a.1.0.part";
    const fs::path written = folder / "b.2.0.part";
    std::ofstream(left) << std::string(1000, 'x');
    std::ofstream(written) << std::string(1000, 'x');
    fs::last_write_time(left, fs::file_time_type::clock::now() - 2h);
    EXPECT_EQ(remove_unused(cache_).value(), 1000U);
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(written));
}

TEST_F(CacheRoomTest, ModelsAreListedAndTheUnusedOnesRemoved) {
    const model::ModelManifest one = put_model(1);
    const model::ModelManifest two = put_model(2);
    fs::remove(cache_.path_of(two.tensors[0].hash));
    const auto use = cache_.use(one.model_hash);
    std::uint64_t model_bytes = 0;
    for (const model::TensorDigest& tensor : one.tensors) model_bytes += tensor.bytes;
    for (const ReceivedModel& model : received_models(cache_)) {
        const bool first = model.hash == base::to_hex(one.model_hash);
        EXPECT_EQ(model.in_use, first);
        EXPECT_EQ(model.model_bytes, model_bytes);
        EXPECT_EQ(model.bytes, model_bytes - (first ? 0 : two.tensors[0].bytes));
        EXPECT_EQ(model.name.substr(0, 10), "synth-tiny");
    }
    EXPECT_EQ(received_models(cache_).size(), 2U);
    EXPECT_EQ(remove_unused(cache_).value(), model_bytes - two.tensors[0].bytes);
    EXPECT_TRUE(has_all(one));
    EXPECT_EQ(cache_.models(), std::vector{one.model_hash});
}

}  // namespace
}  // namespace helix::node::cache_room_test
