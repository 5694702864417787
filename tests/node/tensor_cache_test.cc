#include "node/tensor_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/temp_folder.h"
#include "model/synth.h"
#include "model/weight_source.h"
#include "node/shared_tensors.h"

namespace helix::node::tensor_cache_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> some_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte(i * 31 % 253);
    return bytes;
}

model::TensorDigest digest_of(const std::vector<std::byte>& bytes) {
    return {"t", bytes.size(), base::hash128(bytes)};
}

class Cache : public testing::Test {
  protected:
    fs::path dir() const { return fs::path(folder_.path()) / "cache"; }
    TempFolder folder_;
};

TEST_F(Cache, ATensorIsFoundByItsContentWhateverModelItBelongsTo) {
    const auto bytes = some_bytes(5000);
    const model::TensorDigest tensor = digest_of(bytes);
    const TensorCache cache(dir());
    EXPECT_EQ(cache.read(tensor).error().code, base::Errc::not_found);
    ASSERT_TRUE(cache.keep(tensor.hash, bytes).ok());
    const std::string name = base::to_hex(tensor.hash);
    EXPECT_EQ(cache.path_of(tensor.hash), dir() / "tensors" / name.substr(0, 2) / name);
    const TensorCache another_worker(dir());
    EXPECT_EQ(another_worker.read({"of another model", bytes.size(), tensor.hash}).value(), bytes);
    EXPECT_EQ(another_worker.read({"t", bytes.size() - 1, tensor.hash}).error().code,
              base::Errc::not_found);
}

TEST_F(Cache, ADamagedFileIsNoTensor) {
    const auto bytes = some_bytes(5000);
    const model::TensorDigest tensor = digest_of(bytes);
    const TensorCache cache(dir());
    ASSERT_TRUE(cache.keep(tensor.hash, bytes).ok());
    {
        std::fstream file(cache.path_of(tensor.hash), std::ios::in | std::ios::out);
        file.seekp(100).write("damage", 6);
    }
    const auto read = cache.read(tensor);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, base::Errc::invalid);
    ASSERT_TRUE(cache.keep(tensor.hash, bytes).ok());
    EXPECT_EQ(cache.read(tensor).value(), bytes);
}

TEST_F(Cache, AManifestIsFoundByTheModelsHash) {
    model::SynthOptions synth;
    synth.path = folder_.path() + "/tiny.gguf";
    ASSERT_TRUE(model::synth_model(synth).ok());
    const auto manifest = model::build_manifest(**model::open_weights(synth.path));
    ASSERT_TRUE(manifest.ok());
    const TensorCache cache(dir());
    EXPECT_FALSE(cache.read_manifest(manifest->model_hash).ok());
    ASSERT_TRUE(cache.keep_manifest(*manifest).ok());
    const auto read = cache.read_manifest(manifest->model_hash);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->tensors, manifest->tensors);
    // Another model's, moved here.
    base::Hash128 other = manifest->model_hash;
    ++other.low;
    fs::rename(cache.manifest_folder(manifest->model_hash), cache.manifest_folder(other));
    EXPECT_FALSE(cache.read_manifest(other).ok());
}

TEST_F(Cache, WithoutAPlaceNothingIsKept) {
    std::ofstream(folder_.path() + "/file") << "no folder";
    for (const TensorCache& cache :
         {TensorCache(), TensorCache(fs::path(folder_.path()) / "file" / "cache")}) {
        EXPECT_FALSE(cache.present());
        EXPECT_FALSE(cache.keep({1, 2}, some_bytes(10)).ok());
        EXPECT_EQ(cache.read(digest_of(some_bytes(10))).error().code, base::Errc::not_found);
    }
}

TEST_F(Cache, ManyWorkersOfOneProcessMayKeepTheSameTensorAtOnce) {
    const auto bytes = some_bytes(300'000);
    const model::TensorDigest tensor = digest_of(bytes);
    const TensorCache cache(dir());
    std::vector<std::thread> workers;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i) {
        workers.emplace_back([&] {
            for (int times = 0; times < 20; ++times) {
                if (!cache.keep(tensor.hash, bytes).ok()) ++wrong;
                const auto read = cache.read(tensor);
                if (!read.ok() || *read != bytes) ++wrong;
            }
        });
    }
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(wrong, 0);
    int files = 0;
    for ([[maybe_unused]] const auto& file :
         fs::directory_iterator(cache.path_of(tensor.hash).parent_path())) {
        ++files;
    }
    EXPECT_EQ(files, 1) << "nothing half is left behind";
}

class Shared : public Cache {
  protected:
    Shared() : cache_(dir()), bytes_(some_bytes(3 << 20)), tensor_(digest_of(bytes_)) {
        EXPECT_TRUE(cache_.keep(tensor_.hash, bytes_).ok());
        shared_.use(cache_);
    }
    std::vector<SharedTensors::Answer> ask(const wire::TensorRequest& request) {
        shared_.ask("b", request);
        return shared_.take_answers();
    }
    std::string error_of(const wire::TensorRequest& request) {
        const auto answers = ask(request);
        EXPECT_EQ(answers.size(), 1U);
        return answers.empty() ? "no answer" : answers[0].piece.error;
    }

    TensorCache cache_;
    std::vector<std::byte> bytes_;
    model::TensorDigest tensor_;
    SharedTensors shared_;
};

TEST_F(Shared, OnlyWhatWasCheckedAndBelongsToTheModelIsGiven) {
    const wire::TensorRequest wanted{tensor_.hash, 1000, 500};
    EXPECT_EQ(error_of(wanted), "this worker has no such tensor");
    shared_.add(7, tensor_);
    EXPECT_EQ(shared_.indices(), std::vector<std::int32_t>{7});
    const auto answers = ask(wanted);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].connection, "b");
    EXPECT_EQ(answers[0].piece, (wire::TensorPiece{tensor_.hash, 1000, 500, ""}));
    EXPECT_TRUE(std::ranges::equal(answers[0].data.bytes, std::span(bytes_).subspan(1000, 500)));
    shared_.clear();
    EXPECT_EQ(error_of(wanted), "this worker has no such tensor");
}

TEST_F(Shared, WhatIsOutsideATensorIsRefused) {
    shared_.add(7, tensor_);
    const std::uint64_t size = bytes_.size();
    EXPECT_EQ(error_of({tensor_.hash, size - 10, 10}), "");
    EXPECT_EQ(error_of({tensor_.hash, size - 10, 11}),
              "11 bytes at 3145718 of a tensor of 3145728");
    EXPECT_EQ(error_of({tensor_.hash, size + 1, 1}), "1 bytes at 3145729 of a tensor of 3145728");
    EXPECT_EQ(error_of({tensor_.hash, ~std::uint64_t{0}, 2}),
              "2 bytes at 18446744073709551615 of a tensor of 3145728");
    EXPECT_EQ(error_of({tensor_.hash, 0, 0}), "0 bytes at 0 of a tensor of 3145728");
}

TEST_F(Shared, AFileThatWasRemovedIsMissedOnceAndNotNamedAgain) {
    shared_.add(7, tensor_);
    fs::remove_all(dir());
    EXPECT_EQ(error_of({tensor_.hash, 0, 10}), "this worker does not have the tensor any more");
    EXPECT_EQ(error_of({tensor_.hash, 0, 10}), "this worker has no such tensor");
    EXPECT_TRUE(shared_.indices().empty());
}

TEST_F(Shared, NoMoreIsReadThanIsTaken) {
    shared_.add(7, tensor_);
    constexpr std::uint32_t kPiece = 1U << 20U;
    for (std::size_t i = 0; i < 2 * SharedTensors::kMostWaiting; ++i) {
        shared_.ask("b", {tensor_.hash, 0, kPiece});
    }
    std::vector<SharedTensors::Answer> kept;
    std::size_t refused = 0;
    while (shared_.is_behind()) {
        for (SharedTensors::Answer& answer : shared_.take_answers()) {
            if (!answer.piece.error.empty()) {
                ++refused;
            } else {
                kept.push_back(std::move(answer));
            }
        }
    }
    EXPECT_EQ(refused, SharedTensors::kMostWaiting);
    EXPECT_EQ(kept.size(), SharedTensors::kMostUnderWayBytes / kPiece);
    EXPECT_TRUE(shared_.take_answers().empty());
    kept.resize(kept.size() - 2);
    EXPECT_TRUE(shared_.is_behind());
    EXPECT_EQ(shared_.take_answers().size(), 1U) << "one at a time";
}

}  // namespace
}  // namespace helix::node::tensor_cache_test
