// What comes to the matrices of a model, counted by the engine, against forward passes that share
// no code with it.

#include "engine/input_squares.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/model_distance.h"
#include "engine/prompt_runner.h"
#include "model/local_weights.h"
#include "reference_model.h"
#include "synth_file.h"

namespace helix::engine::test::input_squares_test {
namespace {

using Texts = std::vector<std::vector<spec::Token>>;

std::shared_ptr<model::WeightSource> open_model(const std::string& path) {
    auto weights = model::LocalWeights::open(path);
    EXPECT_TRUE(weights.ok());
    return std::shared_ptr<model::WeightSource>(std::move(*weights));
}

Texts random_texts(std::initializer_list<std::size_t> lengths) {
    base::Random random(17);
    Texts texts;
    for (const std::size_t length : lengths) texts.push_back(random_tokens(random, length));
    return texts;
}

struct Counted {
    std::vector<double> sums;
    std::vector<std::int64_t> counts;
};

std::map<std::string, Counted> count_by_reference(model::WeightSource& source, const Texts& texts) {
    const auto config = model::read_model_config(source);
    EXPECT_TRUE(config.ok());
    const std::string head = config->tied_embeddings ? "token_embd.weight" : "output.weight";
    std::map<std::string, Counted> counted;
    for (const auto& text : texts) {
        std::size_t heads = 0;
        ReferenceModel reference(source, *config);
        reference.on_product = [&](const std::string& tensor, std::size_t first,
                                   const ReferenceModel::Row& x) {
            // Nothing follows the last token, so nobody asks the head what does.
            if (tensor == head && ++heads == text.size()) return;
            const model::TensorInfo& info = *source.file().find_tensor(tensor);
            const std::size_t matrices =
                info.shape.size() > 2 ? static_cast<std::size_t>(info.shape[2]) : 1;
            const std::size_t matrix =
                matrices > 1 ? first / static_cast<std::size_t>(info.shape[1]) : 0;
            Counted& to = counted[tensor];
            to.sums.resize(matrices * x.size());
            to.counts.resize(matrices);
            ++to.counts[matrix];
            for (std::size_t i = 0; i < x.size(); ++i)
                to.sums[matrix * x.size() + i] += x[i] * x[i];
        };
        reference.logits(text);
    }
    return counted;
}

TEST(InputSquares, AreThoseOfADoublePrecisionForwardPass) {
    for (const SynthKind& kind :
         {SynthKind{"llama", [](model::SynthShape&) {}}, kMixtral, kPhi4, kGraniteMoe, kQwen2Moe}) {
        const SynthFile file(shape_of(kind), model::TensorType::f32);
        const Texts texts = random_texts({70, 3});
        const auto source = open_model(file.path());
        const auto made = measure_input_squares(source, texts, {2, {}});
        ASSERT_TRUE(made.ok()) << made.error().message;
        EXPECT_EQ(made->chunks, 2);
        const auto expected = count_by_reference(*source, texts);
        ASSERT_EQ(made->tensors.size(), expected.size()) << kind.name;
        for (const auto& [name, counted] : expected) {
            const auto found = made->tensors.find(name);
            ASSERT_NE(found, made->tensors.end()) << kind.name << " " << name;
            ASSERT_EQ(found->second.counts.size(), counted.counts.size()) << name;
            for (std::size_t m = 0; m < counted.counts.size(); ++m)
                EXPECT_EQ(found->second.counts[m], static_cast<float>(counted.counts[m]))
                    << kind.name << " " << name << " matrix " << m;
            ASSERT_EQ(found->second.sums.size(), counted.sums.size()) << name;
            double all = 0;
            for (const double sum : counted.sums) all += sum;
            const double mean = all / static_cast<double>(counted.sums.size());
            for (std::size_t i = 0; i < counted.sums.size(); ++i)
                ASSERT_NEAR(found->second.sums[i], counted.sums[i],
                            1e-3 * counted.sums[i] + 1e-4 * mean)
                    << kind.name << " " << name << " column " << i;
        }
    }
}

TEST(InputSquares, DoNotDependOnThreads) {
    const SynthFile file(shape_of(kMixtral), model::TensorType::q8_0);
    const Texts texts = random_texts({90});
    const auto one = measure_input_squares(open_model(file.path()), texts, {1, {}});
    std::uint64_t told = 0;
    const auto three =
        measure_input_squares(open_model(file.path()), texts,
                              {3, [&](std::uint64_t done, std::uint64_t) { told = done; }});
    ASSERT_TRUE(one.ok() && three.ok());
    EXPECT_EQ(told, 90U);
    ASSERT_EQ(one->tensors.size(), three->tensors.size());
    for (const auto& [name, squares] : one->tensors) {
        EXPECT_EQ(squares.sums, three->tensors.at(name).sums) << name;
        EXPECT_EQ(squares.counts, three->tensors.at(name).counts) << name;
    }
}

TEST(PromptRunner, RefusesTextsLongerThanTheModelsContext) {
    const SynthFile file(shape_of(kQwen3), model::TensorType::q8_0);
    const auto opened = PromptRunner::open(open_model(file.path()), 513, {});
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().message.find("texts of 513 tokens, the model was trained with 512"),
              std::string::npos)
        << opened.error().message;
}

double log_softmax(const std::vector<double>& logits, spec::Token token) {
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    return logits[static_cast<std::size_t>(token)] - std::log(sum);
}

// By reference: the mean divergence of two models, and the second's loss.
struct Expected {
    double mean_kl = 0;
    double loss = 0;
};
Expected expected_distance(model::WeightSource& base, model::WeightSource& other,
                           const Texts& texts) {
    const auto config = model::read_model_config(base);
    Expected sum;
    double count = 0;
    for (const auto& text : texts) {
        ReferenceModel of_base(base, *config);
        ReferenceModel of_other(other, *config);
        const auto p = of_base.logits(text);
        const auto q = of_other.logits(text);
        for (std::size_t i = 0; i + 1 < text.size(); ++i, ++count) {
            sum.loss -= log_softmax(q[i], text[i + 1]);
            for (spec::Token t = 0; t < config->vocab; ++t) {
                const double log_p = log_softmax(p[i], t);
                sum.mean_kl += std::exp(log_p) * (log_p - log_softmax(q[i], t));
            }
        }
    }
    return {sum.mean_kl / count, sum.loss / count};
}

TEST(ModelDistance, IsThatOfDoublePrecisionForwardPasses) {
    const SynthFile exact(shape_of(kQwen3), model::TensorType::f32);
    const SynthFile rough(shape_of(kQwen3), model::TensorType::q4_0);
    const Texts texts = random_texts({66, 1, 5});
    const auto found =
        measure_distance(open_model(exact.path()), open_model(rough.path()), texts, {2, {}});
    ASSERT_TRUE(found.ok()) << found.error().message;
    const Expected expected =
        expected_distance(*open_model(exact.path()), *open_model(rough.path()), texts);
    EXPECT_EQ(found->tokens, 65 + 4);
    EXPECT_NEAR(std::log(found->perplexity), expected.loss, 0.01);
    EXPECT_NEAR(found->mean_kl, expected.mean_kl, 0.03 * expected.mean_kl);
    EXPECT_GT(found->mean_kl, 0);
    EXPECT_LE(found->p99_kl, found->max_kl);
}

TEST(ModelDistance, IsNothingFromAModelToItself) {
    const SynthFile file(shape_of(kQwen3), model::TensorType::q8_0);
    const auto found = measure_distance(open_model(file.path()), open_model(file.path()),
                                        random_texts({40}), {1, {}});
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->max_kl, 0);
    EXPECT_EQ(found->same_top, 1);
    EXPECT_EQ(found->perplexity, found->base_perplexity);
}

TEST(ModelDistance, WantsOneVocabulary) {
    model::SynthShape larger = shape_of(kQwen3);
    larger.vocab += 16;
    const SynthFile one(shape_of(kQwen3), model::TensorType::q8_0);
    const SynthFile other(larger, model::TensorType::q8_0);
    const auto found = measure_distance(open_model(one.path()), open_model(other.path()),
                                        random_texts({4}), {1, {}});
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.error().message.find("a vocabulary of 416, the other model has 400"),
              std::string::npos);
}

}  // namespace
}  // namespace helix::engine::test::input_squares_test
