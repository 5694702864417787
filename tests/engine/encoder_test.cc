// Encoders: their final states and embeddings against a forward pass in double precision that
// shares no code with the engine, and bit for bit against themselves in whatever company, on
// whatever instruction set and however the layers are divided.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/index.h"
#include "engine/cpu/cpu_device.h"
#include "engine/device/device_group.h"
#include "engine/runner/model_runner.h"
#include "op_helpers.h"
#include "pooled_prompt.h"
#include "reference_device.h"
#include "reference_model.h"
#include "synth_file.h"

namespace helix::engine::test::encoder_test {
namespace {

using spec::Pooling;
using spec::Token;
using Row = std::vector<double>;

constexpr SynthKind kEncoders[] = {kBert,         kNomicBert,     kXlmRoberta, kJinaBert,
                                   kJinaCode,     kJinaUngated,   kJinaV3,     kModernBert,
                                   kNomicBertMoe, kGemmaEmbedding};

// BERT as Devlin and others define it, with nomic-bert's rope (jina-bert-v3 has it, too) and
// SwiGLU, and jina-bert-v2's slopes and GeGLU, and the norms of its models for code; ModernBERT as
// Warner and others define it; and experts of BERT's feed-forward, which a router's softmax weighs.
// EmbeddingGemma's layers are those of decoders' reference.
class EncoderReference {
  public:
    explicit EncoderReference(const std::string& path)
        : weights_(model::LocalWeights::open(path).value()),
          c_(*model::read_model_config(*weights_)) {}

    // Of each token, behind the last layer, before the norm that may follow.
    std::vector<Row> states(const std::vector<Token>& tokens) {
        if (is_gemma()) return ReferenceModel(*weights_, c_).residuals(tokens);
        std::vector<Row> x;
        // A cross-encoder's document, behind the first [SEP], is of the second kind.
        std::optional<Token> separator;
        if (c_.rank_head.of_pairs && *weights_->file().get_string("tokenizer.ggml.model") == "bert")
            separator =
                static_cast<Token>(*weights_->file().get_int("tokenizer.ggml.seperator_token_id"));
        std::size_t kind = 0;
        for (std::size_t p = 0; p < tokens.size(); ++p) {
            Row row = row_of("token_embd.weight", base::size_of(tokens[p]));
            if (has("token_types.weight")) add(row, row_of("token_types.weight", kind));
            if (separator && tokens[p] == *separator) kind = 1;
            if (has("position_embd.weight")) add(row, row_of("position_embd.weight", p));
            x.push_back(norm(row, "token_embd_norm"));
        }
        for (std::int32_t l = 0; l < c_.n_layers; ++l) x = layer(l, x);
        return x;
    }

    std::vector<double> embedding(const std::vector<Token>& tokens, Pooling pooling) {
        std::vector<Row> all =
            is_gemma() ? ReferenceModel(*weights_, c_).hidden_states(tokens) : states(tokens);
        for (Row& row : all) {
            if (!is_gemma() && has("output_norm.weight")) row = norm(row, "output_norm");
        }
        Row sum(all[0].size());
        if (pooling == Pooling::cls) sum = all.front();
        if (pooling == Pooling::last) sum = all.back();
        for (std::size_t i = 0; pooling == Pooling::mean && i < all.size(); ++i) add(sum, all[i]);
        if (is_gemma()) sum = times("dense_3.weight", times("dense_2.weight", sum));
        double squares = 0;
        for (const double value : sum) squares += value * value;
        for (double& value : sum) value /= std::sqrt(squares);
        return sum;
    }

    double score(const std::vector<Token>& tokens) {
        Row dense = linear("cls", states(tokens).front());
        for (double& value : dense) value = std::tanh(value);
        return 1 / (1 + std::exp(-linear("cls.output", dense)[0]));
    }

  private:
    bool is_gemma() const { return c_.architecture == "gemma-embedding"; }

    std::vector<Row> layer(std::int32_t l, const std::vector<Row>& x) {
        const std::string blk = "blk." + std::to_string(l) + ".";
        const std::size_t hidden = base::size_of(c_.hidden);
        const bool norms_queries = has(blk + "attn_q_norm.weight");
        const bool modern = c_.architecture == "modern-bert";
        const bool local = modern && l % 3 != 0;
        std::vector<Row> q, k, v;
        for (std::size_t p = 0; p < x.size(); ++p) {
            if (has(blk + "attn_qkv.weight")) {
                const bool norms = has(blk + "attn_norm.weight");
                const Row read = norms ? norm(x[p], blk + "attn_norm") : x[p];
                const Row all = linear(blk + "attn_qkv", read);
                const auto part = [&](std::size_t i) {
                    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * hidden);
                    return Row(begin, begin + static_cast<std::ptrdiff_t>(hidden));
                };
                q.push_back(rope(part(0), p, local ? 10000.0 : 1000.0));
                k.push_back(rope(part(1), p, local ? 10000.0 : 1000.0));
                v.push_back(part(2));
            } else {
                q.push_back(linear(blk + "attn_q", x[p]));
                k.push_back(linear(blk + "attn_k", x[p]));
                v.push_back(linear(blk + "attn_v", x[p]));
            }
            if (norms_queries) q.back() = norm(q.back(), blk + "attn_q_norm");
            if (norms_queries) k.back() = norm(k.back(), blk + "attn_k_norm");
        }
        std::vector<Row> out;
        for (std::size_t p = 0; p < x.size(); ++p) {
            Row sum = linear(blk + "attn_output", attend(p, q[p], k, v, local));
            add(sum, x[p]);
            if (modern) {
                const Row read = norm(sum, blk + "ffn_norm");
                add(sum, linear(blk + "ffn_down", inner_row(blk, read)));
                out.push_back(sum);
                continue;
            }
            Row middle = norm(sum, blk + "attn_output_norm");
            if (has(blk + "attn_norm_2.weight")) {
                add(middle, x[p]);
                middle = norm(middle, blk + "attn_norm_2");
            }
            Row fed = has(blk + "ffn_gate_inp.weight")
                          ? of_experts(blk, middle)
                          : linear(blk + "ffn_down", inner_row(blk, middle));
            add(fed, middle);
            out.push_back(norm(fed, blk + "layer_output_norm"));
        }
        return out;
    }

    // What the last matrix of a feed-forward reads.
    Row inner_row(const std::string& blk, const Row& x) {
        const std::size_t ffn = base::size_of(c_.ffn);
        Row inner = linear(blk + "ffn_up", x);
        if (inner.size() == ffn && !has(blk + "ffn_gate.weight")) {
            for (double& value : inner) value *= share_below(value);
            return inner;
        }
        Row gate;
        if (inner.size() > ffn) {
            gate.assign(inner.begin() + static_cast<std::ptrdiff_t>(ffn), inner.end());
            inner.resize(ffn);
            // In jina-bert-v2 of code the gate is behind what is multiplied, elsewhere before it.
            if (c_.architecture == "modern-bert") std::swap(gate, inner);
        } else {
            gate = times(blk + "ffn_gate.weight", x);
        }
        const bool silu = c_.architecture == "nomic-bert";
        for (std::size_t i = 0; i < ffn; ++i)
            inner[i] *= gate[i] * (silu ? 1 / (1 + std::exp(-gate[i])) : share_below(gate[i]));
        return inner;
    }

    // The two best of all experts, each times its share of the softmax over all.
    Row of_experts(const std::string& blk, const Row& x) {
        const Row scores = times(blk + "ffn_gate_inp.weight", x);
        double sum = 0;
        for (const double score : scores) sum += std::exp(score);
        const std::size_t ffn = base::size_of(c_.ffn);
        Row y(x.size());
        std::vector<bool> visited(scores.size(), false);
        for (int visit = 0; visit < 2; ++visit) {
            std::size_t best = scores.size();
            for (std::size_t e = 0; e < scores.size(); ++e) {
                if (!visited[e] && (best == scores.size() || scores[e] > scores[best])) best = e;
            }
            visited[best] = true;
            Row inner(ffn);
            for (std::size_t i = 0; i < ffn; ++i) {
                inner[i] = dot(blk + "ffn_up_exps.weight", best * ffn + i, x);
                inner[i] *= share_below(inner[i]);
            }
            for (std::size_t i = 0; i < y.size(); ++i)
                y[i] += std::exp(scores[best]) / sum *
                        dot(blk + "ffn_down_exps.weight", best * y.size() + i, inner);
        }
        return y;
    }

    // A row of a matrix, or of those that lie one behind the other, times x.
    double dot(const std::string& name, std::size_t row, const Row& x) {
        const std::vector<float>& values = floats(name);
        double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i)
            sum += static_cast<double>(values[row * x.size() + i]) * x[i];
        return sum;
    }

    // Of a normal distribution.
    static double share_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

    // Of one row with all rows; local: with those at most 20 away.
    Row attend(std::size_t position, const Row& q, const std::vector<Row>& k,
               const std::vector<Row>& v, bool local) const {
        const auto dim = base::size_of(c_.head_dim);
        Row out(q.size());
        for (std::size_t first = 0; first < q.size(); first += dim) {
            std::vector<double> weights;
            double sum = 0;
            for (const Row& key : k) {
                double score = 0;
                for (std::size_t d = first; d < first + dim; ++d) score += q[d] * key[d];
                score /= std::sqrt(static_cast<double>(dim));
                const double from = static_cast<double>(position);
                const double distance = std::abs(from - static_cast<double>(weights.size()));
                if (c_.architecture == "jina-bert-v2") score -= slope(first / dim) * distance;
                weights.push_back(local && distance > 20 ? 0 : std::exp(score));
                sum += weights.back();
            }
            for (std::size_t i = 0; i < v.size(); ++i) {
                for (std::size_t d = first; d < first + dim; ++d)
                    out[d] += weights[i] / sum * v[i][d];
            }
        }
        return out;
    }

    // Of six heads four have 2^-2, 2^-4, 2^-6, 2^-8, the others the first and third of eight.
    static double slope(std::size_t head) {
        constexpr double kExponents[] = {-2, -4, -6, -8, -1, -3};
        return std::exp2(kExponents[head]);
    }

    // Elements i and i + half of a head turn by position * base^(-2 i / dimensions).
    Row rope(Row x, std::size_t position, double base) const {
        const auto dim = base::size_of(c_.head_dim);
        for (std::size_t first = 0; first < x.size(); first += dim) {
            for (std::size_t i = 0; i < dim / 2; ++i) {
                const double angle =
                    static_cast<double>(position) *
                    std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
                double& a = x[first + i];
                double& b = x[first + i + dim / 2];
                const double turned = a * std::cos(angle) - b * std::sin(angle);
                b = a * std::sin(angle) + b * std::cos(angle);
                a = turned;
            }
        }
        return x;
    }

    Row norm(const Row& x, const std::string& name) {
        const auto n = static_cast<double>(x.size());
        double mean = 0, variance = 0;
        for (const double value : x) mean += value / n;
        for (const double value : x) variance += (value - mean) * (value - mean) / n;
        const Row weight = row_of(name + ".weight", 0);
        Row y = has(name + ".bias") ? row_of(name + ".bias", 0) : Row(x.size());
        const double factor = 1 / std::sqrt(variance + static_cast<double>(c_.norm_epsilon));
        for (std::size_t i = 0; i < x.size(); ++i) y[i] += (x[i] - mean) * factor * weight[i];
        return y;
    }

    Row linear(const std::string& name, const Row& x) {
        Row y = times(name + ".weight", x);
        if (has(name + ".bias")) add(y, row_of(name + ".bias", 0));
        return y;
    }

    Row times(const std::string& name, const Row& x) {
        const std::vector<float>& values = floats(name);
        Row y(values.size() / x.size());
        for (std::size_t r = 0; r < y.size(); ++r) {
            for (std::size_t i = 0; i < x.size(); ++i)
                y[r] += static_cast<double>(values[r * x.size() + i]) * x[i];
        }
        return y;
    }

    static void add(Row& to, const Row& from) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }
    bool has(const std::string& name) const {
        return weights_->file().find_tensor(name) != nullptr;
    }
    Row row_of(const std::string& name, std::size_t row) {
        const std::vector<float>& values = floats(name);
        const auto width = base::size_of(weights_->file().find_tensor(name)->row_length());
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * width);
        return Row(begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    const std::vector<float>& floats(const std::string& name) {
        std::vector<float>& values = floats_[name];
        if (!values.empty()) return values;
        const model::TensorInfo& info = *weights_->file().find_tensor(name);
        values.resize(base::size_of(info.row_length() * info.rows()));
        model::dequantize_row(info.type, *weights_->tensor(name), values.data());
        weights_->release(name);
        return values;
    }

    std::unique_ptr<model::WeightSource> weights_;
    model::ModelConfig c_;
    std::map<std::string, std::vector<float>> floats_;
};

class Encoder : public testing::TestWithParam<SynthKind> {};
std::vector<SynthKind> kinds_of_encoders() {
    return cases_or_few(kEncoders,
                        {"jina_code", "modern_bert", "nomic_bert_moe", "gemma_embedding"},
                        [](const SynthKind& kind) { return kind.name; });
}
INSTANTIATE_TEST_SUITE_P(Kinds, Encoder, testing::ValuesIn(kinds_of_encoders()),
                         [](const auto& given) { return given.param.name; });

// A text's rows, of which nothing is drawn.
Piece text_of(std::uint64_t request, spec::LayerRange layers, const std::vector<Token>& tokens,
              std::vector<float> input = {}) {
    Piece piece = piece_of(request, layers, 0, tokens, std::move(input));
    piece.sample = false;
    return piece;
}

double largest_difference(const SynthFile& file, const std::vector<Token>& tokens) {
    CpuOptions options = test_options();
    options.kv_type = ops::KvType::f32;
    Runner runner = make_runner(file, kAllLayers, options, 1);
    const auto got = must_run(runner, {text_of(1, kAllLayers, tokens)})[0].output;
    const auto exact = EncoderReference(file.path()).states(tokens);
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const Row& row = exact[i / exact[0].size()];
        largest =
            std::max(largest, std::abs(static_cast<double>(got[i]) - row[i % exact[0].size()]));
    }
    return largest;
}

// States are about one, by the last norm.
TEST_P(Encoder, FinalStatesAreThoseOfTheReferenceForward) {
    base::Random random(81);
    const auto tokens = random_tokens(random, 150);  // of more than one chunk of attention
    const model::SynthShape shape = shape_of(GetParam());
    EXPECT_LE(largest_difference(SynthFile(shape, TensorType::f32), tokens), 5e-5);
    EXPECT_LE(largest_difference(SynthFile(shape, TensorType::bf16), tokens), 5e-5);
    // A row whose second and third expert score nearly the same may visit another one.
    EXPECT_LE(largest_difference(SynthFile(shape, TensorType::q8_0), tokens),
              shape.n_experts > 0 ? 0.9 : 0.2);
}

TEST_P(Encoder, EmbeddingsArePooledStatesOfTheReferenceForward) {
    const SynthFile file(shape_of(GetParam()), TensorType::f32);
    base::Random random(82);
    for (const std::size_t length : {1U, 2U, 67U}) {
        const auto tokens = random_tokens(random, length);
        for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last}) {
            SCOPED_TRACE(spec::to_string(pooling));
            const auto got = pooled_prompt(file, tokens, {.pooling = pooling});
            const auto exact = EncoderReference(file.path()).embedding(tokens, pooling);
            ASSERT_EQ(got.size(), exact.size());
            for (std::size_t i = 0; i < got.size(); ++i)
                ASSERT_NEAR(static_cast<double>(got[i]), exact[i], 5e-6) << i;
        }
    }
}

// A text that is longer than a batch goes alone, and others wait for it.
TEST_P(Encoder, EmbeddingsHaveTheSameBitsInBatchesOfAnySizeAndInAnyCompany) {
    const SynthFile file(shape_of(GetParam()), TensorType::q8_0);
    base::Random random(83);
    const auto tokens = random_tokens(random, 67);
    for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last}) {
        const auto alone = pooled_prompt(file, tokens, {.pooling = pooling});
        ASSERT_FALSE(alone.empty());
        for (const std::int32_t rows : tried_batch_rows()) {
            EXPECT_EQ(pooled_prompt(file, tokens, {pooling, rows, 6}), alone)
                << spec::to_string(pooling) << " in batches of " << rows;
        }
    }
}

TEST_P(Encoder, EveryTokenSeesThoseBehindIt) {
    const SynthFile file(shape_of(GetParam()), TensorType::f32);
    base::Random random(84);
    auto tokens = random_tokens(random, 20);
    const auto one = pooled_prompt(file, tokens, {.pooling = Pooling::cls});
    tokens.back() = (tokens.back() + 1) % kVocab;
    EXPECT_NE(pooled_prompt(file, tokens, {.pooling = Pooling::cls}), one);
}

// A window ends five positions behind a row's own, and layers without one see everything.
TEST(EmbeddingGemma, AWindowIsHalfToEachSide) {
    model::SynthShape shape = shape_of(kGemmaEmbedding);
    shape.n_layers = 1;
    const SynthFile file(shape, TensorType::f32);
    base::Random random(90);
    auto tokens = random_tokens(random, 40);
    const auto states = [&] {
        Runner runner = make_runner(file, {0, 1}, test_options(), 1);
        Piece piece = text_of(1, {0, 1}, tokens);
        return must_run(runner, {piece})[0].output;
    };
    const auto before = states();
    tokens[20] = (tokens[20] + 1) % kVocab;
    const auto after = states();
    const std::size_t width = base::size_of(shape.hidden);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
        const auto same = std::equal(before.begin() + std::ptrdiff_t(row * width),
                                     before.begin() + std::ptrdiff_t((row + 1) * width),
                                     after.begin() + std::ptrdiff_t(row * width));
        EXPECT_EQ(same, row < 15 || row > 25) << row;
    }
}

TEST_P(Encoder, StatesHaveTheSameBitsOnEveryInstructionSetPageSizeAndInABatch) {
    const SynthFile file(shape_of(GetParam()), TensorType::q8_0);
    base::Random random(85);
    std::vector<std::vector<Token>> texts;
    std::vector<std::vector<float>> expected;
    Runner single = make_runner(file, kAllLayers, test_options(16, 1), 1);
    for (const std::size_t length : {1U, 40U, 133U}) {
        texts.push_back(random_tokens(random, length));
        expected.push_back(
            must_run(single, {text_of(texts.size(), kAllLayers, texts.back())})[0].output);
    }
    std::int32_t block_size = 3;
    for (const ops::Isa isa : machine_isas()) {
        CpuOptions options = test_options(block_size, 1 + block_size % 3);
        options.isa = isa;
        block_size += 7;
        Runner runner = make_runner(file, kAllLayers, options, 2);
        std::vector<Piece> pieces;
        for (std::size_t i = texts.size(); i-- > 0;)
            pieces.push_back(text_of(i, kAllLayers, texts[i]));
        const auto results = must_run(runner, pieces);
        for (std::size_t i = 0; i < results.size(); ++i)
            EXPECT_TRUE(same_bits(results[i].output, expected[texts.size() - 1 - i]))
                << ops::to_string(isa);
    }
}

TEST_P(Encoder, AnySplitOfTheLayersGivesTheSameBits) {
    const SynthFile file(shape_of(GetParam()), TensorType::q4_0);
    base::Random random(86);
    const auto tokens = random_tokens(random, 30);
    Runner whole = make_runner(file, kAllLayers, test_options(), 9);
    const auto expected = must_run(whole, {text_of(1, kAllLayers, tokens)})[0].output;
    for (std::int32_t cut = 1; cut < kLayers; ++cut) {
        Runner first = make_runner(file, {0, cut}, test_options(), 1);
        Runner second = make_runner(file, {cut, kLayers}, test_options(), 2);
        const auto half = must_run(first, {text_of(1, {0, cut}, tokens)});
        const auto rest = must_run(second, {text_of(1, {cut, kLayers}, tokens, half[0].output)});
        EXPECT_TRUE(same_bits(rest[0].output, expected)) << "cut at " << cut;
    }
}

std::vector<float> states_on(std::unique_ptr<Device> device, const SynthFile& file,
                             const std::vector<Token>& tokens, ops::KvType kv_type) {
    auto weights = model::LocalWeights::open(file.path());
    const auto config = model::read_model_config(**weights);
    RunnerOptions options;
    options.block_size = 5;
    options.kv_type = kv_type;
    auto backend = ModelRunner::create(std::shared_ptr<model::WeightSource>(std::move(*weights)),
                                       *config, std::move(device), options);
    CHECK(backend.ok());
    Runner runner(std::move(*backend), kAllLayers, options.block_size, 3);
    return must_run(runner, {text_of(1, kAllLayers, tokens)})[0].output;
}

TEST_P(Encoder, SeveralRanksAndSeveralDevicesGiveTheBitsOfOne) {
    const SynthFile file(shape_of(GetParam()), TensorType::q8_0);
    base::Random random(87);
    const auto tokens = random_tokens(random, 30);
    Runner one = make_runner(file, kAllLayers, test_options(), 1);
    const auto expected = must_run(one, {text_of(1, kAllLayers, tokens)})[0].output;
    CpuOptions options = test_options(16, 3);
    options.ranks = 3;
    Runner ranks = make_runner(file, kAllLayers, options, 1);
    EXPECT_TRUE(same_bits(must_run(ranks, {text_of(1, kAllLayers, tokens)})[0].output, expected));
    std::vector<std::unique_ptr<Device>> devices;
    const auto config = model::read_model_config(**model::LocalWeights::open(file.path()));
    for (int rank = 0; rank < 2; ++rank)
        devices.push_back(
            CpuDevice::create({.threads = 1, .cpus = {}, .ranks = 1, .isa = {}}, *config).value());
    EXPECT_TRUE(same_bits(states_on(std::make_unique<DeviceGroup>(std::move(devices)), file, tokens,
                                    ops::KvType::f16),
                          expected));
}

TEST_P(Encoder, AnotherDeviceMakesTheSameStates) {
    const SynthFile file(shape_of(GetParam()), TensorType::bf16);
    base::Random random(88);
    const auto tokens = random_tokens(random, 30);
    CpuOptions options = test_options();
    options.kv_type = ops::KvType::f32;
    Runner cpu = make_runner(file, kAllLayers, options, 1);
    const auto expected = must_run(cpu, {text_of(1, kAllLayers, tokens)})[0].output;
    const auto got = states_on(std::make_unique<ReferenceDevice>(), file, tokens, ops::KvType::f32);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 5e-5F) << i;
}

TEST_P(Encoder, WhatItCannotDoIsAnError) {
    const SynthFile file(shape_of(GetParam()), TensorType::q8_0);
    Runner runner = make_runner(file, kAllLayers, test_options(), 1);
    const auto drawn = runner.run({piece_of(1, kAllLayers, 0, {1, 2, 3})});
    ASSERT_FALSE(drawn.ok());
    EXPECT_NE(drawn.error().message.find("an encoder draws and scores no tokens"),
              std::string::npos)
        << drawn.error().message;
    const auto weights = model::LocalWeights::open(file.path()).value();
    if (weights->file().find_tensor("position_embd.weight") == nullptr) return;
    const auto longer = runner.run({text_of(1, kAllLayers, std::vector<Token>(513, 1))});
    ASSERT_FALSE(longer.ok());
    EXPECT_NE(longer.error().message.find("of which the model has 512"), std::string::npos)
        << longer.error().message;
}

void make_ranker(model::SynthShape& shape) {
    make_bert(shape);
    shape.pooling = Pooling::rank;
    shape.reranks = true;
}
constexpr SynthKind kRankers[] = {{"bert", make_ranker}, {"xlm_roberta", [](model::SynthShape& s) {
                                                              make_ranker(s);
                                                              s.unigrams = true;
                                                          }}};

class CrossEncoder : public testing::TestWithParam<SynthKind> {
  protected:
    // [CLS] and the texts, each with a [SEP] behind it.
    static std::vector<Token> pair_of(std::uint64_t seed, std::size_t query, std::size_t document) {
        base::Random random(seed);
        std::vector<Token> tokens{2};
        for (const std::size_t length : {query, document}) {
            for (const Token token : random_tokens(random, length))
                tokens.push_back(token == 3 ? 4 : token);
            tokens.push_back(3);
        }
        return tokens;
    }
    static std::vector<float> score(const SynthFile& file, const std::vector<Token>& tokens,
                                    PooledRun run = {}) {
        run.pooling = Pooling::rank;
        return pooled_prompt(file, tokens, run);
    }
};
INSTANTIATE_TEST_SUITE_P(Kinds, CrossEncoder, testing::ValuesIn(kRankers),
                         [](const auto& given) { return given.param.name; });

TEST_P(CrossEncoder, ScoresAreThoseOfTheReferenceForward) {
    const SynthFile file(shape_of(GetParam()), TensorType::f32);
    EncoderReference reference(file.path());
    for (const auto& [query, document] : {std::pair(0U, 0U), {3U, 20U}, {7U, 140U}}) {
        const auto tokens = pair_of(query + 91, query, document);
        const double expected = reference.score(tokens);
        const auto got = score(file, tokens);
        ASSERT_EQ(got.size(), 1U);
        EXPECT_NEAR(static_cast<double>(got[0]), expected, 5e-6);
        EXPECT_GT(std::abs(expected - 0.5), 1e-3) << "it says nothing";
    }
    const SynthFile packed(shape_of(GetParam()), TensorType::q8_0);
    const auto tokens = pair_of(92, 5, 30);
    EXPECT_NEAR(static_cast<double>(score(packed, tokens)[0]),
                EncoderReference(packed.path()).score(tokens), 0.05);
}

TEST_P(CrossEncoder, ScoresHaveTheSameBitsInBatchesOfAnySizeAndInAnyCompany) {
    const SynthFile file(shape_of(GetParam()), TensorType::q8_0);
    const auto tokens = pair_of(93, 9, 60);
    const auto alone = score(file, tokens);
    ASSERT_EQ(alone.size(), 1U);
    for (const std::int32_t rows : tried_batch_rows())
        EXPECT_EQ(score(file, tokens, {.max_rows = rows, .company = 6}), alone) << rows;
}

TEST_P(CrossEncoder, TheDocumentCountsAndSoDoesWhichTextItIs) {
    const SynthFile file(shape_of(GetParam()), TensorType::f32);
    const auto tokens = pair_of(94, 8, 12);
    auto other = tokens;
    other[other.size() - 2] = (other[other.size() - 2] + 5) % kVocab;
    EXPECT_NE(score(file, other), score(file, tokens));
    auto later = tokens;
    std::swap(later[9], later[14]);  // the separator, behind the query
    EXPECT_NE(score(file, later), score(file, tokens));
}

// The head lies with the last layer, and takes of its memory.
TEST_P(CrossEncoder, TheHeadIsTheLastStagesAndCounted) {
    const SynthFile file(shape_of(GetParam()), TensorType::f32);
    const SynthFile plain(
        shape_of(GetParam().name == std::string_view("bert") ? kBert : kXlmRoberta),
        TensorType::f32);
    const auto pages = [](const SynthFile& of, spec::LayerRange layers) {
        CpuOptions options = test_options();
        options.memory_bytes = 8 << 20;
        return (*open_backend(of.path(), options))->load(layers).value();
    };
    EXPECT_LT(pages(file, {1, kLayers}), pages(plain, {1, kLayers}));
    EXPECT_EQ(pages(file, {1, kLayers - 1}), pages(plain, {1, kLayers - 1}));

    core::BatchPlan plan;
    core::BatchChunk chunk;
    chunk.layers = kAllLayers;
    chunk.tokens = {2, 7, 3, 8, 3};
    chunk.pages.resize(kLayers);
    for (std::size_t i = 0; i < chunk.pages.size(); ++i)
        chunk.pages[i] = static_cast<core::PageId>(i);
    chunk.sample = true;
    chunk.pooling = Pooling::rank;
    plan.chunks = {chunk};
    const auto backend = open_backend(plain.path(), test_options());
    ASSERT_TRUE((*backend)->load(kAllLayers).ok());
    const auto ran = (*backend)->run(plan, {});
    ASSERT_FALSE(ran.ok());
    EXPECT_NE(ran.error().message.find("no head that ranks documents"), std::string::npos);
    // Loaded, left and loaded again.
    const auto ranker = open_backend(file.path(), test_options());
    std::vector<float> first;
    for (const spec::LayerRange layers : {kAllLayers, spec::LayerRange{0, 2}, kAllLayers}) {
        ASSERT_TRUE((*ranker)->load(layers).ok());
        if (layers != kAllLayers) continue;
        const auto scored = (*ranker)->run(plan, {});
        ASSERT_TRUE(scored.ok()) << scored.error().message;
        ASSERT_EQ(scored->pooled.size(), 1U);
        if (first.empty()) first = scored->pooled[0].embedding;
        EXPECT_EQ(scored->pooled[0].embedding, first);
        EXPECT_EQ(first.size(), 1U);
    }
}

}  // namespace
}  // namespace helix::engine::test::encoder_test
