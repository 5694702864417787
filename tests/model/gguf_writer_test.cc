#include "model/gguf_writer.h"

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace helix::model::gguf_writer_test {
namespace {

using test_support::TemporaryFolder;

template <typename T>
const std::vector<T>& array_of(const GgufFile& file, const char* key) {
    return std::get<std::vector<T>>(std::get<MetaArray>(*file.find(key)));
}

std::vector<std::byte> pattern(std::size_t count, unsigned start) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(start + i * 7);
    return bytes;
}

TEST(GgufWriter, EveryKindOfValueComesBack) {
    GgufBuilder builder;
    builder.set("u8", std::uint8_t{255});
    builder.set("i8", std::int8_t{-128});
    builder.set("u16", std::uint16_t{65535});
    builder.set("i16", std::int16_t{-32768});
    builder.set("u32", std::numeric_limits<std::uint32_t>::max());
    builder.set("i32", std::numeric_limits<std::int32_t>::min());
    builder.set("u64", std::numeric_limits<std::uint64_t>::max());
    builder.set("i64", std::numeric_limits<std::int64_t>::min());
    builder.set("f32", 0.1F);
    builder.set("f64", 0.1);
    builder.set("yes", true);
    builder.set("text", std::string("zero\0inside", 11));
    builder.set("bytes", std::vector<std::uint8_t>{1, 255});
    builder.set("shorts", std::vector<std::int16_t>{-1, 2});
    builder.set("longs", std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 5});
    builder.set("floats", std::vector<float>{0.5F, -2.0F});
    builder.set("doubles", std::vector<double>{0.1});
    builder.set("flags", std::vector<bool>{true, false, true});
    builder.set("words", std::vector<std::string>{"", "a\n"});
    builder.set("none", std::vector<std::uint64_t>{});
    const auto opened = GgufFile::from_image(builder.header(), "m.gguf");
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const GgufFile& file = **opened;
    EXPECT_EQ(file.version(), 3U);
    EXPECT_EQ(file.metadata().size(), 20U);
    EXPECT_EQ(*file.get_int("u8"), 255);
    EXPECT_EQ(*file.get_int("i8"), -128);
    EXPECT_EQ(*file.get_int("u16"), 65535);
    EXPECT_EQ(*file.get_int("i16"), -32768);
    EXPECT_EQ(*file.get_int("u32"), 4294967295);
    EXPECT_EQ(*file.get_int("i32"), std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(std::get<std::uint64_t>(*file.find("u64")),
              std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(*file.get_int("i64"), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(*file.get_float("f32"), double{0.1F});
    EXPECT_EQ(*file.get_float("f64"), 0.1);
    EXPECT_EQ(*file.get_bool("yes"), true);
    EXPECT_EQ(*file.get_string("text"), std::string("zero\0inside", 11));
    EXPECT_EQ(array_of<std::int64_t>(file, "bytes"), (std::vector<std::int64_t>{1, 255}));
    EXPECT_EQ(array_of<std::int64_t>(file, "shorts"), (std::vector<std::int64_t>{-1, 2}));
    EXPECT_EQ(array_of<std::int64_t>(file, "longs")[0], std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(array_of<double>(file, "floats"), (std::vector<double>{0.5, -2.0}));
    EXPECT_EQ(array_of<double>(file, "doubles"), (std::vector<double>{0.1}));
    EXPECT_EQ(array_of<bool>(file, "flags"), (std::vector<bool>{true, false, true}));
    EXPECT_EQ(array_of<std::string>(file, "words"), (std::vector<std::string>{"", "a\n"}));
    EXPECT_TRUE(array_of<std::int64_t>(file, "none").empty());
}

TEST(GgufWriter, StreamedTensorsComeBackAtAnyAlignment) {
    const TemporaryFolder folder;
    for (const std::uint32_t alignment : {8U, 32U, 4096U}) {
        const std::string path = folder.file("m.gguf");
        GgufBuilder builder(alignment);
        builder.set("general.name", "streamed");
        builder.add_tensor("a", TensorType::f32, {3, 5});
        builder.add_tensor("b", TensorType::q8_0, {64, 2, 3});
        builder.add_tensor("c", TensorType::bf16, {1});
        auto out = GgufOutput::create(path, builder);
        ASSERT_TRUE(out.ok()) << out.error().message;
        const std::vector<std::byte> a = pattern(60, 1);
        const std::vector<std::byte> b = pattern(34 * 12, 2);
        const std::vector<std::byte> c = pattern(2, 3);
        ASSERT_TRUE((*out)->append(std::span(a).first(7)).ok());
        ASSERT_TRUE((*out)->append(std::span(a).subspan(7)).ok());
        ASSERT_TRUE((*out)->append(b).ok());
        ASSERT_TRUE((*out)->append(c).ok());
        EXPECT_FALSE(std::filesystem::exists(path)) << "must appear only when finished";
        ASSERT_TRUE((*out)->finish().ok());
        const auto file = GgufFile::open(path);
        ASSERT_TRUE(file.ok()) << file.error().message;
        EXPECT_EQ((*file)->alignment(), alignment);
        const auto data = [&](const char* name) {
            return (*file)->read(*(*file)->find_tensor(name)).value();
        };
        EXPECT_EQ(data("a"), a);
        EXPECT_EQ(data("b"), b);
        EXPECT_EQ(data("c"), c);
        EXPECT_EQ((*file)->find_tensor("b")->shape, (std::vector<std::int64_t>{64, 2, 3}));
        EXPECT_EQ(std::filesystem::file_size(path), builder.header().size() + builder.data_bytes());
        std::filesystem::remove(path);
    }
}

TEST(GgufWriter, UnfinishedFileLeavesNothing) {
    const TemporaryFolder folder;
    const std::string path = folder.file("m.gguf");
    GgufBuilder builder;
    builder.add_tensor("a", TensorType::f32, {4});
    {
        auto out = GgufOutput::create(path, builder);
        ASSERT_TRUE(out.ok());
        EXPECT_TRUE(std::filesystem::exists(path + ".part"));
    }
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(GgufWriter, UnwritablePathIsNamed) {
    const auto out = GgufOutput::create("/nonexistent/m.gguf", GgufBuilder());
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code, base::Errc::io);
    EXPECT_EQ(out.error().message,
              "/nonexistent/m.gguf.part: cannot create: No such file or directory");
}

TEST(GgufWriter, ModelBeyondTheFileSystemIsRefusedBeforeItIsWritten) {
    const TemporaryFolder folder;
    GgufBuilder builder;
    builder.add_tensor("a", TensorType::f32, {std::int64_t{1} << 50});
    const auto out = GgufOutput::create(folder.file("m.gguf"), builder);
    ASSERT_FALSE(out.ok());
    EXPECT_NE(out.error().message.find("needs 4503599627370"), std::string::npos)
        << out.error().message;
    EXPECT_FALSE(std::filesystem::exists(folder.file("m.gguf.part")));
}

}  // namespace
}  // namespace helix::model::gguf_writer_test
