#include "model/synth.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/info.h"
#include "model/local_weights.h"
#include "model/manifest.h"
#include "model/model_config.h"
#include "model/synth_vocabulary.h"
#include "temporary_folder.h"

namespace helix::model::synth_test {
namespace {

using test_support::TemporaryFolder;
using ::testing::HasSubstr;

class Synth : public ::testing::Test {
  protected:
    std::string make(const std::string& shape, const std::string& quant, std::uint64_t seed,
                     unsigned threads = 2) {
        const std::string path =
            folder_.file(shape + "-" + quant + std::to_string(threads) + ".gguf");
        const base::Status made = synth_model({shape, quant, seed, path, threads});
        EXPECT_TRUE(made.ok()) << made.error().message;
        return path;
    }
    TemporaryFolder folder_;
};

base::Hash128 hash_of(const std::string& path) {
    const auto hash = hash_model_file(path);
    EXPECT_TRUE(hash.ok()) << hash.error().message;
    return hash.ok() ? *hash : base::Hash128{};
}

std::vector<float> floats_of(const GgufFile& file, std::string_view name) {
    const TensorInfo& tensor = *file.find_tensor(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.row_length() * tensor.rows()));
    dequantize_row(tensor.type, file.read(tensor).value(), values.data());
    return values;
}

TEST_F(Synth, EveryFormatGivesAModelThatCanBeRun) {
    for (const char* quant :
         {"f32",  "f16",  "bf16",   "q8_0",  "q4_0", "q4_1",   "q5_0",  "q5_1",  "q3_k", "q4_k",
          "q5_k", "q6_k", "iq4_nl", "mxfp4", "q2_k", "iq4_xs", "iq3_s", "nvfp4", "fp8",  "int4"}) {
        const std::string path = make("small", quant, 1);
        const auto file = GgufFile::open(path);
        ASSERT_TRUE(file.ok()) << file.error().message;
        const auto config = read_model_config(**file);
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_EQ(config->hidden, 256);
        EXPECT_EQ(config->vocab, 1024);
        EXPECT_STREQ(tensor_type_info((*file)->find_tensor("blk.3.ffn_down.weight")->type)->name,
                     quant);
        EXPECT_EQ((*file)->find_tensor("blk.0.attn_norm.weight")->type, TensorType::f32);
        EXPECT_EQ((*file)->find_tensor("blk.0.attn_q.scale") != nullptr,
                  std::string_view(quant) == "nvfp4");
    }
}

TEST_F(Synth, TiedShapeHasNoOutputTensor) {
    const auto file = *GgufFile::open(make("tiny-tied", "f16", 1));
    EXPECT_TRUE(read_model_config(*file)->tied_embeddings);
}

TEST_F(Synth, SameSeedGivesTheSameFileOnAnyNumberOfThreads) {
    const base::Hash128 one = hash_of(make("tiny", "q8_0", 42, 1));
    EXPECT_EQ(hash_of(make("tiny", "q8_0", 42, 3)), one);
    EXPECT_NE(hash_of(make("tiny", "q8_0", 43, 1)), one);
}

// The promise "on every machine" needs values that were computed elsewhere. If these change, every
// synthetic model has changed.
TEST_F(Synth, KnownSeedsGiveKnownModels) {
    EXPECT_EQ(base::to_hex(hash_of(make("tiny", "f32", 1))), "886e7a492d87cc0804394004da7e4bef");
    EXPECT_EQ(base::to_hex(hash_of(make("small", "q4_k", 1))), "f30c8f4f7c4a77edb87ea1abc3d9ab92");
}

TEST_F(Synth, WeightsHaveTheDeviationThatKeepsActivationsSane) {
    const auto file = *GgufFile::open(make("small", "f32", 3));
    const std::map<std::string, double> expected{
        {"token_embd.weight", 1.0},
        {"blk.2.attn_q.weight", 1 / std::sqrt(256.0)},
        {"blk.2.attn_output.weight", 1 / std::sqrt(256.0) / std::sqrt(8.0)},
        {"blk.2.ffn_down.weight", 1 / std::sqrt(768.0) / std::sqrt(8.0)},
        {"output.weight", 1 / std::sqrt(256.0)}};
    for (const auto& [name, deviation] : expected) {
        const std::vector<float> values = floats_of(*file, name);
        double sum = 0;
        double squares = 0;
        for (const float value : values) {
            sum += double{value};
            squares += double{value} * double{value};
        }
        const auto count = static_cast<double>(values.size());
        EXPECT_NEAR(std::sqrt(squares / count), deviation, 0.02 * deviation) << name;
        EXPECT_NEAR(sum / count, 0, 5 * deviation / std::sqrt(count)) << name;
    }
    for (const float value : floats_of(*file, "output_norm.weight")) EXPECT_NEAR(value, 1.0F, 0.4F);
}

TEST_F(Synth, ProgressEndsAtTheTotal) {
    std::uint64_t last = 0;
    std::uint64_t all = 0;
    const auto progress = [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_GT(done, last);
        last = done;
        all = total;
    };
    ASSERT_TRUE(synth_model({"tiny", "f32", 1, folder_.file("p.gguf"), 1}, progress).ok());
    EXPECT_EQ(last, all);
    EXPECT_GT(all, 0U);
}

TEST_F(Synth, AWiderModelHasTheSameHeadsOnlyMoreOfThem) {
    const std::string path = folder_.file("wide.gguf");
    ASSERT_TRUE(synth_model({"gpt-oss", "q8_0", 1, path, 1, 2}).ok());
    auto weights = LocalWeights::open(path);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    const auto wide = read_model_config(**weights);
    ASSERT_TRUE(wide.ok()) << wide.error().message;
    ASSERT_TRUE(synth_model({"gpt-oss", "q8_0", 1, path, 1}).ok());
    weights = LocalWeights::open(path);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    const auto usual = read_model_config(**weights);
    ASSERT_TRUE(usual.ok()) << usual.error().message;
    EXPECT_EQ(wide->hidden, 2 * usual->hidden);
    EXPECT_EQ(wide->n_heads, 2 * usual->n_heads);
    EXPECT_EQ(wide->n_kv_heads, 2 * usual->n_kv_heads);
    EXPECT_EQ(wide->head_dim, usual->head_dim);
    EXPECT_EQ(wide->n_layers, usual->n_layers);
    EXPECT_EQ(wide->vocab, usual->vocab);
}

TEST_F(Synth, WrongOptionsAreNamed) {
    const std::string path = folder_.file("m.gguf");
    EXPECT_THAT(synth_model({"gigantic", "f32", 1, path, 1}).error().message,
                HasSubstr("shape \"gigantic\" is unknown; known: tiny, "));
    EXPECT_THAT(synth_model({"tiny", "q8_k", 1, path, 1}).error().message,
                HasSubstr("quantisation \"q8_k\" is unknown; known: f32, "));
    EXPECT_THAT(synth_model({"tiny", "q4_k", 1, path, 1}).error().message,
                HasSubstr("rows of 64 elements, q4_k needs a multiple of 256"));
    EXPECT_THAT(synth_model({"tiny", "f32", 1, path, 1, 0}).error().message,
                HasSubstr("0 times as wide: expected 1 to 64 times"));
    SynthShape shape = synth_shapes()[0];
    shape.n_heads = 7;
    EXPECT_FALSE(synth_model(shape, TensorType::f32, {"", "", 1, path, 1}).ok());
    shape = synth_shapes()[0];
    shape.vocab = 100;
    EXPECT_THAT(synth_model(shape, TensorType::f32, {"", "", 1, path, 1}).error().message,
                HasSubstr("a vocabulary of 100, expected at least 354"));
    // All bytes, and ten special tokens.
    shape.tokenizer = "gpt-oss";
    EXPECT_THAT(synth_model(shape, TensorType::f32, {"", "", 1, path, 1}).error().message,
                HasSubstr("a vocabulary of 100, expected at least 266"));
    shape.tokenizer = "gpt-ess";
    EXPECT_THAT(synth_model(shape, TensorType::f32, {"", "", 1, path, 1}).error().message,
                HasSubstr("tokenizer \"gpt-ess\" is unknown"));
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SynthVocabulary, EveryPieceIsTwoEarlierOnesJoined) {
    const SynthVocabulary vocabulary = make_synth_vocabulary(4000, 9);
    ASSERT_EQ(vocabulary.tokens.size(), 4000U);
    ASSERT_EQ(vocabulary.scores.size(), 4000U);
    ASSERT_EQ(vocabulary.types.size(), 4000U);
    EXPECT_EQ(vocabulary.tokens[3 + 0x41], "<0x41>");
    EXPECT_EQ(vocabulary.types[3 + 0x41], 6);
    const std::string space = "\xe2\x96\x81";
    std::set<std::string> earlier;
    for (std::size_t i = 3 + 256; i < 4000; ++i) {
        const std::string& piece = vocabulary.tokens[i];
        EXPECT_EQ(vocabulary.types[i], 1);
        bool reachable = piece == space || piece.size() == 1;
        for (std::size_t cut = 1; cut < piece.size() && !reachable; ++cut) {
            reachable =
                earlier.contains(piece.substr(0, cut)) && earlier.contains(piece.substr(cut));
        }
        EXPECT_TRUE(reachable) << piece;
        if (i > 3 + 256) {
            EXPECT_LT(vocabulary.scores[i], vocabulary.scores[i - 1]);
        }
        EXPECT_TRUE(earlier.insert(piece).second) << piece << " appears twice";
    }
    EXPECT_TRUE(earlier.contains(space + "the"));
}

TEST(SynthVocabulary, EachMergeMakesTheNextToken) {
    for (const bool bytes : {true, false}) {
        const auto characters = static_cast<std::size_t>(bytes ? kSynthBytes : kSynthCharacters);
        const auto made = [&](std::int32_t size, std::uint64_t seed) {
            return bytes ? make_synth_byte_merges(size, seed)
                         : make_synth_character_merges(size, seed);
        };
        const SynthMerges grown = made(4000, 9);
        ASSERT_EQ(grown.tokens.size(), 4000U);
        ASSERT_EQ(grown.merges.size(), 4000 - characters);
        std::set<std::string> earlier(
            grown.tokens.begin(), grown.tokens.begin() + static_cast<std::ptrdiff_t>(characters));
        EXPECT_EQ(earlier.size(), characters);
        for (std::size_t i = 0; i < grown.merges.size(); ++i) {
            const std::string& merge = grown.merges[i];
            const std::size_t space = merge.find(' ');
            const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
            EXPECT_TRUE(earlier.contains(left) && earlier.contains(right)) << merge;
            EXPECT_EQ(grown.tokens[characters + i], left + right);
            EXPECT_TRUE(earlier.insert(left + right).second) << merge;
        }
        EXPECT_TRUE(earlier.contains((bytes ? "\xc4\xa0" : "\xe2\x96\x81") + std::string("the")));
        EXPECT_EQ(made(4000, 9).merges, grown.merges);
        EXPECT_NE(made(4000, 8).merges, grown.merges);
        EXPECT_TRUE(made(static_cast<std::int32_t>(characters), 9).merges.empty());
    }
}

TEST(SynthVocabulary, WordPiecesAreThereOnceAndCutEveryWord) {
    for (const std::int32_t size : {kMinSynthWordPieces, 150, 4000}) {
        const SynthWordPieces pieces = make_synth_word_pieces(size, 9);
        ASSERT_EQ(pieces.tokens.size(), static_cast<std::size_t>(size));
        ASSERT_EQ(pieces.types.size(), pieces.tokens.size());
        const std::set<std::string> texts(pieces.tokens.begin(), pieces.tokens.end());
        EXPECT_EQ(texts.size(), pieces.tokens.size());
        EXPECT_EQ(pieces.tokens[pieces.cls], "[CLS]");
        EXPECT_EQ(pieces.tokens[pieces.sep], "[SEP]");
        EXPECT_EQ(pieces.types[pieces.mask], 3);
        EXPECT_EQ(pieces.types[5], 1);
        for (char c = 'a'; c <= 'z'; ++c) {
            EXPECT_TRUE(texts.contains(std::string(1, c))) << c;
            EXPECT_TRUE(texts.contains("\xe2\x96\x81" + std::string(1, c))) << c;
        }
        EXPECT_TRUE(size == kMinSynthWordPieces || texts.contains("\xe2\x96\x81the"));
        EXPECT_EQ(pieces.tokens, make_synth_word_pieces(size, 9).tokens);
    }
    EXPECT_NE(make_synth_word_pieces(4000, 1).tokens, make_synth_word_pieces(4000, 2).tokens);
}

TEST_F(Synth, ManifestFitsItsFileOnly) {
    const std::string path = make("tiny", "q8_0", 1);
    const std::string other = make("tiny", "q4_0", 1);
    const auto file = *GgufFile::open(path);
    const auto manifest = *build_manifest(*file, 3);
    EXPECT_EQ(manifest.model_hash, build_manifest(*file, 1)->model_hash);
    EXPECT_TRUE(check_model_file(path, manifest.model_hash).ok());
    EXPECT_THAT(check_model_file(other, manifest.model_hash).error().message,
                HasSubstr(", expected " + base::to_hex(manifest.model_hash)));
    const auto received = open_manifest(manifest);
    ASSERT_TRUE(received.ok()) << received.error().message;
    EXPECT_EQ((*received)->tensors().size(), file->tensors().size());
    EXPECT_FALSE(build_manifest(**received).ok());
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
        EXPECT_TRUE(check_tensor(manifest.tensors[i], file->read(file->tensors()[i]).value()).ok());
    }
}

TEST_F(Synth, DamagedTensorOrManifestIsNoticed) {
    const auto file = *GgufFile::open(make("tiny", "q8_0", 1));
    const auto manifest = *build_manifest(*file);
    std::vector<std::byte> bytes = file->read(file->tensors()[0]).value();
    bytes[1000] ^= std::byte{1};
    EXPECT_THAT(check_tensor(manifest.tensors[0], bytes).error().message,
                HasSubstr("tensor token_embd.weight: hash "));
    bytes.pop_back();
    EXPECT_THAT(check_tensor(manifest.tensors[0], bytes).error().message,
                HasSubstr("tensor token_embd.weight: 34815 bytes, expected 34816"));
    ModelManifest wrong = manifest;
    wrong.tensors[3].hash.high ^= 1;
    EXPECT_THAT(open_manifest(wrong).error().message, HasSubstr("the contents give the hash"));
    wrong = manifest;
    wrong.tensors[3].bytes += 1;
    EXPECT_THAT(open_manifest(wrong).error().message, HasSubstr("its header lists"));
    wrong = manifest;
    wrong.tensors.pop_back();
    EXPECT_THAT(open_manifest(wrong).error().message, HasSubstr("38 tensors, its header lists 39"));
    wrong = manifest;
    wrong.header.resize(100);
    EXPECT_THAT(open_manifest(wrong).error().message, HasSubstr("model header: "));
}

TEST_F(Synth, LocalWeightsServeTensorsByName) {
    auto weights = LocalWeights::open(make("tiny", "q8_0", 1));
    ASSERT_TRUE(weights.ok());
    EXPECT_EQ((*weights)->tensor("blk.0.attn_norm.weight")->size(), 256U);
    EXPECT_EQ((*weights)->tensor("blk.9.attn_norm.weight").error().code, base::Errc::not_found);
    EXPECT_FALSE(LocalWeights::open(folder_.file("absent.gguf")).ok());
}

TEST_F(Synth, InfoTellsWhatTheModelIs) {
    const auto file = *GgufFile::open(make("tiny", "q8_0", 1));
    const std::string text = describe_text(*file);
    EXPECT_THAT(text, HasSubstr("  architecture      llama\n"));
    EXPECT_THAT(text, HasSubstr("  attention         8 heads of 8, 4 KV heads\n"));
    EXPECT_THAT(
        text,
        HasSubstr("  KV cache          512 B a token (128 B a layer), 256 KiB a full context\n"));
    EXPECT_THAT(text, HasSubstr("  runs here         yes\n"));
    const nlohmann::json json = nlohmann::json::parse(describe_json(*file));
    EXPECT_EQ(json["name"], "synth-tiny-q8_0-1");
    EXPECT_EQ(json["parameters"],
              2 * 64 * 512 + 64 + 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 128));
    EXPECT_EQ(json["config"]["layers"], 4);
    EXPECT_EQ(json["spec"]["kv_bytes_per_token"], 512);
    EXPECT_EQ(json["types"][0]["type"], "q8_0");
    EXPECT_EQ(json["runnable"], true);
    EXPECT_EQ(json["chat_template"], true);
}

TEST(ModelInfo, SaysWhyAFileCannotBeRun) {
    const TemporaryFolder folder;
    SynthOptions options{"tiny", "q8_0", 1, folder.file("m.gguf"), 1};
    ASSERT_TRUE(synth_model(options).ok());
    const auto file = *GgufFile::open(options.path);
    std::vector<std::byte> header(file->header().begin(), file->header().end());
    const std::string_view was = "llama";
    const auto at = std::search(header.begin(), header.end(), was.begin(), was.end(),
                                [](std::byte b, char c) { return b == static_cast<std::byte>(c); });
    *at = static_cast<std::byte>('x');
    const auto other = *GgufFile::from_header(header);
    EXPECT_THAT(
        describe_text(*other),
        HasSubstr("runs here         no: model header: architecture \"xlama\" is not supported"));
    EXPECT_EQ(nlohmann::json::parse(describe_json(*other))["runnable"], false);
}

TEST(ModelInfo, NumbersHaveThreeDigitsAndAUnit) {
    EXPECT_EQ(human_bytes(0), "0 B");
    EXPECT_EQ(human_bytes(1023), "1023 B");
    EXPECT_EQ(human_bytes(1536), "1.50 KiB");
    EXPECT_EQ(human_bytes(std::int64_t{5} << 40), "5.00 TiB");
    EXPECT_EQ(human_count(999), "999");
    EXPECT_EQ(human_count(1100048384), "1.10 B");
    EXPECT_EQ(human_count(293184), "293 K");
}

}  // namespace
}  // namespace helix::model::synth_test
