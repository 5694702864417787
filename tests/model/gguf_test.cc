#include "model/gguf.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/random.h"
#include "base/temp_folder.h"
#include "gguf_bytes.h"
#include "model/gguf_writer.h"
#include "model/local_weights.h"
#include "model/manifest.h"
#include "model/model_config.h"

namespace helix::model::gguf_test {
namespace {

using test_support::GgufBytes;

constexpr std::uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10;
constexpr std::uint32_t kTypeF32 = 0, kTypeQ8_0 = 8;

std::string error_of(const GgufBytes& bytes) {
    const auto file = GgufFile::from_image(bytes.take(), "m.gguf");
    return file.ok() ? "no error" : file.error().message;
}

// A file with one value of each kind and two tensors.
GgufBytes small_file() {
    GgufBytes bytes;
    bytes.preamble(2, 13);
    bytes.key("u8", 0).number(std::uint8_t{200});
    bytes.key("i8", 1).number(std::int8_t{-3});
    bytes.key("u16", 2).number(std::uint16_t{60000});
    bytes.key("i16", 3).number(std::int16_t{-300});
    bytes.key("u32", kU32).u32(4000000000U);
    bytes.key("i32", kI32).number(std::int32_t{-70000});
    bytes.key("f32", kF32).number(1.5F);
    bytes.key("bool", kBool).number(std::uint8_t{1});
    bytes.key("string", kString).string("a word");
    bytes.key("u64", kU64).u64(std::numeric_limits<std::uint64_t>::max());
    bytes.key("i64", 11).number(std::int64_t{-5000000000});
    bytes.key("f64", 12).number(0.1);
    bytes.key("words", kArray).u32(kString).u64(2).string("one").string("");
    bytes.tensor("a", {4, 3}, kTypeF32, 0).tensor("b", {32}, kTypeQ8_0, 64).pad();
    bytes.zeros(48 + 16).zeros(34);
    return bytes;
}

TEST(GgufFile, ReadsEveryKindOfValue) {
    const auto opened = GgufFile::from_image(small_file().take(), "m.gguf");
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const GgufFile& file = **opened;
    EXPECT_EQ(*file.get_int("u8"), 200);
    EXPECT_EQ(*file.get_int("i8"), -3);
    EXPECT_EQ(*file.get_int("u16"), 60000);
    EXPECT_EQ(*file.get_int("i16"), -300);
    EXPECT_EQ(*file.get_int("u32"), 4000000000);
    EXPECT_EQ(*file.get_int("i32"), -70000);
    EXPECT_EQ(*file.get_int("i64"), -5000000000);
    EXPECT_EQ(*file.get_float("f32"), 1.5);
    EXPECT_EQ(*file.get_float("f64"), 0.1);
    EXPECT_EQ(*file.get_bool("bool"), true);
    EXPECT_EQ(*file.get_string("string"), "a word");
    EXPECT_EQ(std::get<std::uint64_t>(*file.find("u64")),
              std::numeric_limits<std::uint64_t>::max());
    const auto& words =
        std::get<std::vector<std::string>>(std::get<MetaArray>(*file.find("words")));
    EXPECT_THAT(words, ::testing::ElementsAre("one", ""));
}

TEST(GgufFile, LookUpsSayWhatIsMissingOrOfAnotherKind) {
    const auto file = *GgufFile::from_image(small_file().take(), "m.gguf");
    EXPECT_EQ(file->get_int("absent").error().code, base::Errc::not_found);
    EXPECT_EQ(file->get_int("absent").error().message, "m.gguf: metadata absent: missing");
    EXPECT_EQ(file->get_int("string").error().message,
              "m.gguf: metadata string: is a string, expected an integer");
    EXPECT_EQ(file->get_string("words").error().message,
              "m.gguf: metadata words: is an array, expected a string");
    EXPECT_EQ(file->get_int("u64").error().message,
              "m.gguf: metadata u64: is 18446744073709551615, expected less than 2^63");
}

TEST(GgufFile, TensorsHaveShapeSizeAndData) {
    GgufBytes bytes;
    bytes.preamble(2, 0).tensor("a", {2, 3}, kTypeF32, 0).tensor("b", {32}, kTypeQ8_0, 32).pad();
    for (int i = 0; i < 6; ++i) bytes.number(static_cast<float>(i));
    bytes.zeros(8).zeros(34);
    const auto file = *GgufFile::from_image(bytes.take(), "m.gguf");
    const TensorInfo* a = file->find_tensor("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->row_length(), 2);
    EXPECT_EQ(a->rows(), 3);
    EXPECT_EQ(a->bytes, 24U);
    float last = 0;
    std::memcpy(&last, file->read(*a).value().data() + 20, sizeof last);
    EXPECT_EQ(last, 5.0F);
    EXPECT_EQ(file->read(*file->find_tensor("b")).value().size(), 34U);
    EXPECT_EQ(file->find_tensor("c"), nullptr);
}

TEST(GgufFile, HeaderAloneGivesTheSameFileWithoutData) {
    const auto whole = *GgufFile::from_image(small_file().take(), "m.gguf");
    const auto header = whole->header();
    const auto alone = GgufFile::from_header({header.begin(), header.end()});
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    EXPECT_TRUE(whole->has_data());
    EXPECT_FALSE((*alone)->has_data());
    EXPECT_EQ((*alone)->metadata(), whole->metadata());
    ASSERT_EQ((*alone)->tensors().size(), 2U);
    EXPECT_EQ((*alone)->tensors()[1].bytes, 34U);
    EXPECT_FALSE((*alone)->read((*alone)->tensors()[1]).ok());
    std::vector<std::byte> longer(header.begin(), header.end());
    longer.push_back(std::byte{0});
    EXPECT_THAT(GgufFile::from_header(longer).error().message,
                ::testing::HasSubstr("expected at most"));
}

TEST(GgufFile, VersionTwoIsReadToo) {
    const auto file = GgufFile::from_image(GgufBytes().preamble(0, 0, 2).take(), "m.gguf");
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ((*file)->version(), 2U);
}

TEST(GgufFile, AlignmentComesFromTheFile) {
    GgufBytes bytes;
    bytes.preamble(1, 1).key("general.alignment", kU32).u32(256);
    bytes.tensor("a", {1}, kTypeF32, 0).pad(256).number(7.0F);
    const auto file = GgufFile::from_image(bytes.take(), "m.gguf");
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ((*file)->header().size(), 256U);
    float value = 0;
    std::memcpy(&value, (*file)->read((*file)->tensors()[0]).value().data(), sizeof value);
    EXPECT_EQ(value, 7.0F);
}

TEST(GgufFile, OpenSaysWhyAFileCannotBeRead) {
    const auto absent = GgufFile::open("/nonexistent/m.gguf");
    EXPECT_EQ(absent.error().code, base::Errc::not_found);
    EXPECT_EQ(absent.error().message,
              "/nonexistent/m.gguf: cannot open: No such file or directory");
    EXPECT_EQ(GgufFile::open("/tmp").error().message, "/tmp: is a folder, expected a regular file");
    const auto path = std::filesystem::temp_directory_path() / "helix_gguf_test_empty.gguf";
    std::ofstream(path).close();
    EXPECT_EQ(GgufFile::open(path.string()).error().message,
              path.string() + ": the file is empty, expected a GGUF file");
    std::filesystem::remove(path);
}

struct Malformed {
    const char* name;
    GgufBytes bytes;
    const char* error;  // the whole message, or its beginning when it ends in "..."
};

std::vector<Malformed> malformed_preambles() {
    return {
        {"short", GgufBytes().raw("GG"), "m.gguf: header: magic ends at byte 4, the file has 2"},
        {"magic", GgufBytes().raw("GGML").zeros(40),
         "m.gguf: header: the first four bytes are not \"GGUF\": this is no GGUF file"},
        {"version 1", GgufBytes().preamble(0, 0, 1), "m.gguf: header: version 1, expected 2 or 3"},
        {"version 4", GgufBytes().preamble(0, 0, 4), "m.gguf: header: version 4, expected 2 or 3"},
        {"big-endian", GgufBytes().preamble(0, 0, 0x03000000),
         "m.gguf: header: the file is big-endian, only little-endian files are read"},
        {"cut counts", GgufBytes().raw("GGUF").u32(3).u64(0),
         "m.gguf: header: metadata count ends at byte 24, the file has 16"},
        {"many tensors", GgufBytes().preamble(std::uint64_t{1} << 60, 0),
         "m.gguf: header: 1152921504606846976 tensors cannot fit in the 0 bytes that are left of "
         "the "
         "file"},
        {"many entries", GgufBytes().preamble(0, ~std::uint64_t{0}),
         "m.gguf: header: 18446744073709551615 metadata entries cannot fit in..."},
    };
}

std::vector<Malformed> malformed_metadata() {
    const auto one = [] { return GgufBytes().preamble(0, 1); };
    return {
        {"key length", one().u64(~std::uint64_t{0} - 3).zeros(30),
         "m.gguf: metadata entry 1 of 1: key has 18446744073709551612 bytes, 30 are left in the "
         "file"},
        {"key beyond the end", one().u64(100).zeros(30),
         "m.gguf: metadata entry 1 of 1: key ends at byte 132, the file has 62"},
        {"empty key", one().key("", kU32).zeros(8),
         "m.gguf: metadata entry 1 of 1: key has 0 bytes, expected 1 to 65535"},
        {"binary key", one().key("a\x01z", kU32).u32(1),
         "m.gguf: metadata entry 1 of 1: key holds the byte 0x01, expected printable ASCII"},
        {"value type", one().key("k", 13).zeros(8),
         "m.gguf: metadata k: value type 13, expected 0 to 12"},
        {"cut value", one().key("llama.block_count", kU64).u32(1),
         "m.gguf: metadata llama.block_count: value ends at byte 61, the file has 57"},
        {"boolean", one().key("k", kBool).number(std::uint8_t{2}),
         "m.gguf: metadata k: boolean is 2, expected 0 or 1"},
        {"string length", one().key("k", kString).u64(std::uint64_t{1} << 40),
         "m.gguf: metadata k: value ends at byte 1099511627821, the file has 45"},
        {"array length", one().key("k", kArray).u32(kF32).u64(std::uint64_t{1} << 62),
         "m.gguf: metadata k: 4611686018427387904 array elements cannot fit in the 0 bytes..."},
        {"array of arrays", one().key("k", kArray).u32(kArray).u64(1).zeros(16),
         "m.gguf: metadata k: an array of arrays, expected an array of plain values"},
        {"element type", one().key("k", kArray).u32(77).u64(1).zeros(16),
         "m.gguf: metadata k: array element type 77, expected 0 to 8 or 10 to 12"},
        {"cut array string", one().key("k", kArray).u32(kString).u64(1).u64(9).raw("short"),
         "m.gguf: metadata k: array element ends at byte 66, the file has 62"},
        {"array number", one().key("k", kArray).u32(kU64).u64(1).u64(~std::uint64_t{0}),
         "m.gguf: metadata k: array element 0 is 18446744073709551615, expected less than 2^63"},
        {"key twice", GgufBytes().preamble(0, 2).key("k", kU32).u32(1).key("k", kU32).u32(1),
         "m.gguf: metadata k: the key appears twice"},
        {"alignment kind", one().key("general.alignment", kString).string("32"),
         "m.gguf: metadata general.alignment: is a string, expected an integer"},
        {"alignment zero", one().key("general.alignment", kU32).u32(0),
         "m.gguf: metadata general.alignment: 0, expected a power of two from 8 to 1048576"},
        {"alignment odd", one().key("general.alignment", kU32).u32(24),
         "m.gguf: metadata general.alignment: 24, expected a power of two from 8 to 1048576"},
    };
}

std::vector<Malformed> malformed_tensors() {
    const auto one = [] { return GgufBytes().preamble(1, 0); };
    const std::uint64_t big = std::uint64_t{1} << 32;
    return {
        {"cut tensor", one().string("a").u32(4).u64(1).u64(1).u64(1),
         "m.gguf: tensor a: dimension ends at byte 69, the file has 61"},
        {"long name", one().tensor(std::string(65, 'n'), {1}, kTypeF32, 0),
         "m.gguf: tensor 1 of 1: name has 65 bytes, expected 1 to 64"},
        {"no dimensions", one().tensor("a", {}, kTypeF32, 0).zeros(64),
         "m.gguf: tensor a: 0 dimensions, expected 1 to 4"},
        {"five dimensions", one().tensor("a", {1, 1, 1, 1, 1}, kTypeF32, 0),
         "m.gguf: tensor a: 5 dimensions, expected 1 to 4"},
        {"zero dimension", one().tensor("a", {4, 0}, kTypeF32, 0),
         "m.gguf: tensor a: dimension 1 is 0, expected 1 to 2^63 - 1"},
        {"negative dimension", one().tensor("a", {~std::uint64_t{0}}, kTypeF32, 0),
         "m.gguf: tensor a: dimension 0 is 18446744073709551615, expected 1 to 2^63 - 1"},
        {"product", one().tensor("a", {big, big, 2}, kTypeF32, 0),
         "m.gguf: tensor a: the product of the dimensions overflows 63 bits"},
        {"bytes", one().tensor("a", {big, big / 4}, kTypeF32, 0),
         "m.gguf: tensor a: the size in bytes overflows 63 bits"},
        {"known type", one().tensor("a", {256}, 15, 0),
         "m.gguf: tensor a: type 15 (q8_k) is not supported; supported are f32, f16, bf16, q8_0, "
         "q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, iq3_xxs, "
         "iq3_s, iq2_xxs, iq2_xs, iq2_s, iq1_s, iq1_m, tq1_0, tq2_0, nvfp4, "
         "fp8, int4"},
        {"unknown type", one().tensor("a", {256}, 1234, 0),
         "m.gguf: tensor a: type 1234 is not supported; supported are..."},
        {"row length", one().tensor("a", {33}, kTypeQ8_0, 0),
         "m.gguf: tensor a: rows of 33 elements, expected a multiple of 32 for type q8_0"},
        {"unaligned", one().tensor("a", {1}, kTypeF32, 4),
         "m.gguf: tensor a: offset 4 is not a multiple of the alignment 32"},
        {"beyond the end", one().tensor("blk.3.ffn_up.weight", {8}, kTypeF32, 32).pad().zeros(36),
         "m.gguf: tensor blk.3.ffn_up.weight: data ends at byte 160, the file has 132"},
        {"offset overflow", one().tensor("a", {8}, kTypeF32, ~std::uint64_t{31}).pad().zeros(32),
         "m.gguf: tensor a: offset 18446744073709551584 with 32 bytes ends beyond 2^60"},
        {"name twice",
         GgufBytes().preamble(2, 0).tensor("a", {1}, kTypeF32, 0).tensor("a", {1}, kTypeF32, 32),
         "m.gguf: tensor a: the name appears twice"},
        {"overlap",
         GgufBytes()
             .preamble(2, 0)
             .tensor("a", {9}, kTypeF32, 0)
             .tensor("b", {1}, kTypeF32, 32)
             .pad()
             .zeros(64),
         "m.gguf: tensor b: data at offset 32 overlaps tensor a"},
    };
}

void expect_errors(const std::vector<Malformed>& cases) {
    for (const Malformed& test : cases) {
        std::string_view expected = test.error;
        std::string found = error_of(test.bytes);
        if (expected.ends_with("...")) {
            expected.remove_suffix(3);
            found.resize(std::min(found.size(), expected.size()));
        }
        EXPECT_EQ(found, expected) << test.name;
    }
}

TEST(GgufFile, MalformedPreamblesAreRefusedByName) {
    expect_errors(malformed_preambles());
}
TEST(GgufFile, MalformedMetadataIsRefusedByName) {
    expect_errors(malformed_metadata());
}
TEST(GgufFile, MalformedTensorsAreRefusedByName) {
    expect_errors(malformed_tensors());
}

// Uses whatever was read, so that a wrong extent shows under the address sanitizer.
std::uint64_t touch(const GgufFile& file) {
    std::uint64_t sum = file.metadata().size();
    for (const TensorInfo& tensor : file.tensors()) {
        const auto data = file.read(tensor);
        if (!data.ok()) continue;
        for (const std::byte byte : *data) sum += std::to_integer<std::uint64_t>(byte);
    }
    if (const auto config = read_model_config(file); config.ok()) sum += 1;
    return sum;
}

TEST(GgufFile, EveryTruncationIsRefused) {
    const std::vector<std::byte> whole = small_file().take();
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const auto file = GgufFile::from_image(
            {whole.begin(), whole.begin() + static_cast<long>(length)}, "m.gguf");
        ASSERT_FALSE(file.ok()) << "the first " << length << " bytes";
        EXPECT_THAT(file.error().message, ::testing::StartsWith("m.gguf: "));
    }
}

TEST(GgufFile, AnySingleByteMayBeWrong) {
    const std::vector<std::byte> whole = small_file().take();
    std::uint64_t sum = 0;
    int refused = 0;
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (int value = 0; value < 256; ++value) {
            std::vector<std::byte> changed = whole;
            changed[at] = static_cast<std::byte>(value);
            const auto file = GgufFile::from_image(std::move(changed), "m.gguf");
            if (file.ok()) {
                sum += touch(**file);
            } else {
                ++refused;
                ASSERT_THAT(file.error().message, ::testing::StartsWith("m.gguf: "));
            }
        }
    }
    EXPECT_GT(sum, 0U);
    EXPECT_GT(refused, 0);
}

TEST(GgufFile, RandomDamageNeverCrashes) {
    const std::vector<std::byte> whole = small_file().take();
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        base::Random random(seed);
        std::vector<std::byte> changed = whole;
        for (std::uint64_t n = 1 + random.below(8); n > 0; --n) {
            changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
        }
        changed.resize(random.below(changed.size() + 64));
        const auto file = GgufFile::from_image(std::move(changed), "m.gguf");
        if (file.ok()) {
            touch(**file);
        } else {
            ASSERT_FALSE(file.error().message.empty());
        }
    }
}

// The 40 million bytes would take 320 million in memory.
TEST(GgufFile, AHeaderThatTakesTooMuchMemoryIsRefusedByItsLimit) {
    GgufBytes bytes;
    bytes.preamble(0, 1).key("junk", 9).u32(0).u64(40'000'000).zeros(40'000'000);
    const auto file = GgufFile::from_image(bytes.take(), "m.gguf");
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(
        file.error().message,
        "m.gguf: metadata junk: with it the header takes more than 268435456 bytes of memory, "
        "the limit");
}

TEST(GgufFile, AHeaderLongerThanItsLimitIsRefusedWithoutBeingRead) {
    const TempFolder folder;
    const std::string path = folder.path() + "/m.gguf";
    const auto bytes = GgufBytes().preamble(0, 1).key("text", 8).u64(300'000'000).take();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    std::filesystem::resize_file(path, 400'000'000);  // without blocks
    const auto file = GgufFile::open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_THAT(file.error().message,
                ::testing::HasSubstr("m.gguf: metadata text: value ends at byte 300000"));
    EXPECT_THAT(file.error().message, ::testing::HasSubstr("the limit for a header is 268435456"));
}

TEST(GgufFile, APipeOrADeviceInPlaceOfAModelIsRefusedAtOnce) {
    const TempFolder folder;
    const std::string pipe = folder.path() + "/pipe.gguf";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    for (const std::string& path : {pipe, std::string("/dev/zero")}) {
        const auto weights = open_weights(path);
        ASSERT_FALSE(weights.ok());
        EXPECT_THAT(weights.error().message, ::testing::StartsWith(path + ": is a "));
    }
}

// A mapped file that is cut ends the process with SIGBUS where it is read.
TEST(GgufFile, AFileThatIsCutWhileItIsOpenGivesAnErrorThatNamesTheTensor) {
    const TempFolder folder;
    const std::string path = folder.path() + "/m.gguf";
    GgufBuilder builder;
    builder.add_tensor("first", TensorType::f32, {1000});
    builder.add_tensor("second", TensorType::f32, {100'000});
    const auto out = std::move(GgufOutput::create(path, builder)).value();
    ASSERT_TRUE(out->append(std::vector<std::byte>(4000)).ok());
    ASSERT_TRUE(out->append(std::vector<std::byte>(400'000)).ok());
    ASSERT_TRUE(out->finish().ok());
    const auto weights = std::move(LocalWeights::open(path)).value();
    const auto first = weights->tensor("first");
    ASSERT_TRUE(first.ok());
    std::filesystem::resize_file(path, 1000);
    EXPECT_EQ((*first)[3999], std::byte{0}) << "what is in use stays";
    const auto second = weights->tensor("second");
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().message, ::testing::HasSubstr("tensor second: " + path + ": ends"));
    std::vector<std::byte> part(10);
    EXPECT_FALSE(weights->read_part("second", 0, part)->ok());
    EXPECT_FALSE(build_manifest(*weights).ok());
}

// A sparse file may be as long as it says.
TEST(GgufFile, ATensorThatNoMemoryHoldsIsRefusedWhenItIsAskedFor) {
    const TempFolder folder;
    const std::string path = folder.path() + "/m.gguf";
    constexpr std::uint64_t kElements = std::uint64_t{1} << 41U;
    const auto bytes =
        GgufBytes().preamble(1, 0).tensor("huge", {kElements}, kTypeF32, 0).pad().take();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    std::error_code refused;
    std::filesystem::resize_file(path, bytes.size() + 4 * kElements, refused);
    if (refused) GTEST_SKIP() << "this file system has no files of 8 TiB";
    const auto weights = LocalWeights::open(path);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    const auto tensor = (*weights)->tensor("huge");
    ASSERT_FALSE(tensor.ok());
    EXPECT_THAT(tensor.error().message, ::testing::HasSubstr("bytes of memory are needed"));
}

}  // namespace
}  // namespace helix::model::gguf_test
