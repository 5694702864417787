#include "model/hf/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "hf_folder.h"

namespace helix::model::safetensors_test {
namespace {

using test_support::SafetensorsWriter;

base::Result<std::shared_ptr<const SafetensorsFile>> open_image(const std::string& image) {
    const auto bytes = std::as_bytes(std::span(image));
    return SafetensorsFile::from_image({bytes.begin(), bytes.end()}, "m.safetensors");
}

SafetensorsWriter small_file() {
    SafetensorsWriter writer;
    writer.add("a", "F32", {2, 3}, std::string(24, 'a'));
    writer.add("b", "BF16", {4}, std::string(8, 'b'));
    writer.add("c", "F16", {1, 2}, std::string(4, 'c'));
    writer.header()["__metadata__"] = {{"format", "pt"}};
    return writer;
}

TEST(Safetensors, TensorsHaveTypeShapeAndData) {
    const auto file = open_image(small_file().take());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ((*file)->tensors().size(), 3U);
    const SafeTensor* b = (*file)->find("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->type, TensorType::bf16);
    EXPECT_EQ(b->shape, std::vector<std::int64_t>{4});
    const auto data = (*file)->read(*b).value();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.data()), data.size()),
              std::string(8, 'b'));
    EXPECT_EQ((*file)->find("d"), nullptr);
    const auto spaces = open_image(SafetensorsWriter::image("{}     ", ""));
    EXPECT_TRUE(spaces.ok()) << spaces.error().message;
}

TEST(Safetensors, OpenSaysWhyAFileCannotBeRead) {
    EXPECT_EQ(SafetensorsFile::open("/nonexistent/m.safetensors").error().message,
              "/nonexistent/m.safetensors: cannot open: No such file or directory");
    EXPECT_EQ(SafetensorsFile::open("/tmp").error().message,
              "/tmp: is a folder, expected a regular file");
}

struct Edit {
    void (*edit)(test_support::Json& header);
    const char* error;
};

TEST(Safetensors, MalformedTensorsAreRefusedByName) {
    const Edit edits[] = {
        {[](test_support::Json& h) { h["a"] = 3; }, "tensor a: expected an object"},
        {[](test_support::Json& h) { h["a"].erase("dtype"); },
         "tensor a: dtype: missing, expected F32, F16 or BF16"},
        {[](test_support::Json& h) { h["a"]["dtype"] = "F33"; },
         "tensor a: dtype F33 is unknown, expected F32, F16 or BF16"},
        {[](test_support::Json& h) { h["a"]["dtype"] = "I16"; },
         "tensor a: dtype I16 is not supported, expected F32, F16 or BF16"},
        {[](test_support::Json& h) { h["a"]["shape"] = "2x3"; },
         "tensor a: shape: expected an array of at most 8 sizes"},
        {[](test_support::Json& h) {
             h["a"]["shape"] = {2, -3};
         },
         "tensor a: shape: expected a whole number, found -3"},
        {[](test_support::Json& h) {
             h["a"]["shape"] = {1LL << 40, 1LL << 40};
         },
         "tensor a: shape: more elements than any file holds"},
        {[](test_support::Json& h) {
             h["a"]["shape"] = {2, 4};
         },
         "tensor a: data_offsets: 24 bytes, shape [2, 4] of F32 takes 32"},
        {[](test_support::Json& h) { h["a"]["dtype"] = "F16"; },
         "tensor a: data_offsets: 24 bytes, shape [2, 3] of F16 takes 12"},
        {[](test_support::Json& h) { h["a"]["data_offsets"] = {0}; },
         "tensor a: data_offsets: expected two whole numbers"},
        {[](test_support::Json& h) {
             h["a"]["data_offsets"] = {24, 0};
         },
         "tensor a: data_offsets: [24, 0] end before they begin"},
        {[](test_support::Json& h) {
             h["c"]["data_offsets"] = {1000, 1004};
         },
         "tensor c: data_offsets: [1000, 1004] are outside the 36 bytes of data"},
        {[](test_support::Json& h) {
             h["b"]["data_offsets"] = {20, 28};
         },
         "tensor b: data_offsets: begin at 20, expected 24: tensors overlap"},
        {[](test_support::Json& h) { h.erase("b"); },
         "tensor c: data_offsets: begin at 32, expected 24: bytes belong to no tensor"},
        {[](test_support::Json& h) { h.erase("c"); }, "36 bytes of data, the tensors take 32"},
        {[](test_support::Json& h) { h = test_support::Json::array(); },
         "header: expected a JSON object"},
    };
    for (const Edit& test : edits) {
        SafetensorsWriter writer = small_file();
        test.edit(writer.header());
        const auto file = open_image(writer.take());
        ASSERT_FALSE(file.ok()) << test.error;
        EXPECT_EQ(file.error().message, std::string("m.safetensors: ") + test.error);
    }
}

TEST(Safetensors, MalformedHeadersAreRefused) {
    const auto error = [](const std::string& image) {
        const auto file = open_image(image);
        return file.ok() ? "no error" : file.error().message;
    };
    EXPECT_EQ(error("1234567"), "m.safetensors: 7 bytes, a safetensors file has at least 8");
    EXPECT_EQ(error(std::string(8, '\xff')),
              "m.safetensors: header length 18446744073709551615, expected at most 0");
    EXPECT_EQ(error(std::string("\x05\0\0\0\0\0\0\0{}", 10)),
              "m.safetensors: header length 5, expected at most 2");
    EXPECT_EQ(error(SafetensorsWriter::image("{", "")),
              "m.safetensors: header: expected a JSON object");
    const std::string entry = R"("a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]})";
    EXPECT_EQ(error(SafetensorsWriter::image("{" + entry + "," + entry + "}", "xx")),
              "m.safetensors: tensor a: comes twice");
}

TEST(Safetensors, DamageNeverCrashes) {
    const std::string whole = small_file().take();
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_FALSE(open_image(whole.substr(0, size)).ok()) << size;
    }
    base::Random random(1);
    for (int trial = 0; trial < 3000; ++trial) {
        std::string changed = whole;
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
            changed[random.below(changed.size())] = static_cast<char>(random.below(256));
        }
        const auto file = open_image(changed);
        if (!file.ok()) continue;
        for (const auto& [name, tensor] : (*file)->tensors()) {
            EXPECT_TRUE((*file)->read(tensor).ok());
        }
    }
}

}  // namespace
}  // namespace helix::model::safetensors_test
