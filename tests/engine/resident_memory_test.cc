// A model's file is mapped, and its weights are packed into memory of their own: what was packed
// does not stay in memory a second time.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "engine/device/device_group.h"
#include "engine/runner/model_runner.h"
#include "engine/vulkan/vulkan_device.h"
#include "model/hf_folder.h"
#include "model/manifest.h"
#include "model/temporary_folder.h"
#include "model/weight_source.h"
#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::resident_memory_test {
namespace {

// Bytes of the file that this process' mappings keep in memory.
std::int64_t mapped_resident_bytes(const std::string& path) {
    std::ifstream maps("/proc/self/smaps");
    std::int64_t sum = 0;
    bool ours = false;
    for (std::string line; std::getline(maps, line);) {
        const std::string first = line.substr(0, line.find(' '));
        if (!first.ends_with(':')) {
            ours = line.find(path) != std::string::npos;  // a new mapping
        } else if (ours && first == "Rss:") {
            sum += std::stoll(line.substr(4)) * 1024;
        }
    }
    return sum;
}

// In bytes, of /proc/self/status.
std::int64_t status_bytes(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
    }
    return 0;
}

// From here on the greatest resident size (VmHWM) is that of now. False: the kernel does not.
bool reset_peak() {
    std::ofstream file("/proc/self/clear_refs");
    file << "5\n" << std::flush;
    return file.good();
}

constexpr std::int64_t kMegabyte = 1 << 20;

// About 96 MB with 8 bits a weight. No tensor is more than a tenth of it.
model::SynthShape large_shape() {
    model::SynthShape shape;
    shape.name = "resident";
    shape.n_layers = 10;
    shape.hidden = 768;
    shape.n_heads = 12;
    shape.n_kv_heads = 6;
    shape.ffn = 2560;
    shape.vocab = 8000;
    shape.context_length = 256;
    return shape;
}

// Pages are mapped sixteen at a time: around each tensor's ends some stay.
std::int64_t scraps(const model::GgufFile& file) {
    return std::ssize(file.tensors()) * (64 << 10);
}

std::int64_t file_bytes(const model::GgufFile& file) {
    std::int64_t sum = 0;
    for (const model::TensorInfo& tensor : file.tensors())
        sum += static_cast<std::int64_t>(tensor.bytes);
    return sum;
}

TEST(ResidentMemory, APackedTensorsFilePagesAreGivenBack) {
    const SynthFile file(large_shape(), TensorType::q8_0);
    const std::shared_ptr<model::WeightSource> weights = *model::open_weights(file.path());
    const auto config = *model::read_model_config(*weights);
    const std::int64_t bytes = file_bytes(weights->file());
    ASSERT_GT(bytes, 80 * kMegabyte);
    const bool peak_known = reset_peak();
    const std::int64_t before = status_bytes("VmRSS");
    CpuOptions options = test_options();
    options.memory_bytes = bytes + bytes / 4;
    auto backend = make_cpu_backend(weights, config, options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    const auto pages = (*backend)->load({0, config.n_layers});
    ASSERT_TRUE(pages.ok()) << pages.error().message;
    EXPECT_LT(mapped_resident_bytes(file.path()), scraps(weights->file()));
    if (kSanitized || !peak_known) GTEST_SKIP() << "the process' own memory cannot be measured";
    EXPECT_LT(status_bytes("VmRSS") - before, bytes + bytes / 10);
    EXPECT_LT(status_bytes("VmHWM") - before, bytes + bytes / 10);
}

// Passes tensors on, and knows how many bytes of them were in use at once.
class HeldWeights final : public model::WeightSource {
  public:
    explicit HeldWeights(std::shared_ptr<model::WeightSource> source)
        : source_(std::move(source)) {}
    const model::GgufFile& file() const override { return source_->file(); }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override {
        auto bytes = source_->tensor(name);
        if (bytes.ok()) now_ += std::ssize(*bytes);
        most_ = std::max(most_, now_);
        return bytes;
    }
    void release(std::string_view name) override {
        now_ -= static_cast<std::int64_t>(source_->file().find_tensor(name)->bytes);
        source_->release(name);
    }
    std::int64_t most() const { return most_; }

  private:
    std::shared_ptr<model::WeightSource> source_;
    std::int64_t now_ = 0, most_ = 0;
};

std::int64_t largest_tensor(const model::GgufFile& file) {
    std::int64_t largest = 0;
    for (const model::TensorInfo& tensor : file.tensors())
        largest = std::max(largest, static_cast<std::int64_t>(tensor.bytes));
    return largest;
}

// What a Vulkan device's weights need of this machine while they are loaded: one tensor, the
// embedding, and pieces on their way. A device of software has its memory here, too.
TEST(ResidentMemory, AVulkanDevicesWeightsGoThereTensorByTensor) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device, and it has memory of its own";
    const auto instance = VulkanInstance::create();
    if (!instance.ok() || (*instance)->devices().empty()) GTEST_SKIP() << "no Vulkan device";
    const SynthFile file(large_shape(), TensorType::q8_0);
    for (const int ranks : {1, 2}) {
        const auto weights = std::make_shared<HeldWeights>(*model::open_weights(file.path()));
        const auto config = *model::read_model_config(*weights);
        const std::int64_t bytes = file_bytes(weights->file());
        std::vector<std::unique_ptr<Device>> devices;
        for (int rank = 0; rank < ranks; ++rank) {
            auto device = VulkanDevice::create(*instance, {"0", 1});
            ASSERT_TRUE(device.ok()) << device.error().message;
            devices.push_back(std::move(*device));
        }
        RunnerOptions options;
        options.memory_bytes = bytes + bytes / 2;
        const bool peak_known = reset_peak();
        const std::int64_t before = status_bytes("VmRSS");
        auto backend = ModelRunner::create(
            weights, config, std::make_unique<DeviceGroup>(std::move(devices)), options);
        ASSERT_TRUE(backend.ok()) << backend.error().message;
        const auto pages = (*backend)->load({0, config.n_layers});
        ASSERT_TRUE(pages.ok()) << pages.error().message;
        EXPECT_LE(weights->most(), 2 * largest_tensor(weights->file()));
        EXPECT_LT(mapped_resident_bytes(file.path()), scraps(weights->file()));
        if (kSanitized || !peak_known) continue;
        // Packed on the way, and staging memory.
        const std::int64_t pieces = 16 * kMegabyte + std::int64_t{12} * ranks * kMegabyte;
        EXPECT_LT(status_bytes("VmHWM") - before, bytes + bytes / 10 + pieces) << ranks;
    }
}

TEST(ResidentMemory, HashingAFileLeavesNothingOfItInMemory) {
    const SynthFile file(large_shape(), TensorType::q4_0);
    const std::shared_ptr<model::WeightSource> weights = *model::open_weights(file.path());
    ASSERT_TRUE(model::build_manifest(*weights).ok());
    EXPECT_LT(mapped_resident_bytes(file.path()), scraps(weights->file()));
}

TEST(ResidentMemory, FoldersGiveTheirPagesBackWhateverIsMadeOfThem) {
    model::SynthShape shape = large_shape();
    shape.n_layers = 2;
    const SynthFile file(shape, TensorType::bf16);
    const model::test_support::TemporaryFolder folder;
    const std::string path = folder.file("model");
    model::test_support::HfFolderWriter(**model::GgufFile::open(file.path()), path).write();
    for (const char* quantize : {"", "q8_0"}) {
        const auto opened = model::open_weights(path, {.quantize = quantize});
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        model::WeightSource& weights = **opened;
        for (const model::TensorInfo& tensor : weights.file().tensors()) {
            ASSERT_TRUE(weights.tensor(tensor.name).ok()) << tensor.name;
            weights.release(tensor.name);
        }
        EXPECT_LT(mapped_resident_bytes(path), scraps(weights.file())) << quantize;
    }
}

TEST(ResidentMemory, WhatWasGivenBackIsReadAgain) {
    model::SynthShape shape = large_shape();
    shape.n_layers = 1;
    const SynthFile file(shape, TensorType::q8_0);
    const std::shared_ptr<model::WeightSource> weights = *model::open_weights(file.path());
    const auto first = model::build_manifest(*weights);
    const auto again = model::build_manifest(*weights);
    ASSERT_TRUE(first.ok() && again.ok());
    EXPECT_EQ(first->tensors, again->tensors);
}

// Layers that come and go take the head and the embedding along only where they are used.
TEST(ResidentMemory, ReloadingKeepsWhatIsThereAndDropsTheRest) {
    model::SynthShape shape = large_shape();
    shape.n_layers = 3;
    shape.tied_embeddings = true;
    const SynthFile file(shape, TensorType::q8_0);
    const CpuOptions options = test_options();
    auto backend = open_backend(file.path(), options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    for (const spec::LayerRange layers :
         {spec::LayerRange{0, 3}, {1, 2}, {0, 2}, {2, 3}, {0, 0}, {0, 3}}) {
        const auto pages = (*backend)->load(layers);
        ASSERT_TRUE(pages.ok()) << pages.error().message;
    }
    EXPECT_LT(mapped_resident_bytes(file.path()), std::int64_t{64} * (64 << 10));
}

}  // namespace
}  // namespace helix::engine::test::resident_memory_test
