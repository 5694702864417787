#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/effort.h"
#include "model/synth.h"
#include "runner.h"

// Synthetic models of kLayers layers and kVocab tokens, and runners for them.

namespace helix::engine::test {

constexpr std::int32_t kLayers = 5;
constexpr std::int32_t kVocab = 400;

constexpr spec::LayerRange kAllLayers{0, kLayers};

// A kind of model: what makes its shape another than that of a small llama.
struct SynthKind {
    const char* name;
    void (*change)(model::SynthShape& shape);
};

inline void make_experts(model::SynthShape& shape, const char* architecture, std::int32_t n,
                         std::int32_t used) {
    shape.architecture = architecture;
    shape.n_experts = n;
    shape.n_experts_used = used;
    shape.ffn = 64;
}

inline void scale_as_granite(model::SynthShape& shape) {
    shape.embedding_scale = 12;
    shape.residual_scale = 0.22F;
    shape.attention_scale = 0.1F;
    shape.logit_scale = 0.5F;
}

inline constexpr SynthKind kQwen3{"qwen3", [](model::SynthShape& s) {
                                      s.architecture = "qwen3";
                                      s.head_dim = 32;
                                      s.tied_embeddings = true;
                                  }};
inline constexpr SynthKind kSmolLm3{"smollm3",
                                    [](model::SynthShape& s) { s.architecture = "smollm3"; }};
inline constexpr SynthKind kOlmo3{"olmo3", [](model::SynthShape& s) {
                                      s.architecture = "olmo2";
                                      s.sliding_window = 11;
                                      s.rope_scaling = {"yarn", 4, 16};
                                  }};
inline constexpr SynthKind kGlm4{"glm4", [](model::SynthShape& s) {
                                     s.architecture = "glm4";
                                     s.rope_dim = 8;
                                     s.qkv_bias = true;
                                 }};
inline constexpr SynthKind kPhi4{"phi4", [](model::SynthShape& s) {
                                     s.architecture = "phi3";
                                     s.rope_dim = 12;
                                     s.rope_scaling = {"longrope", 3, 256};
                                 }};
inline constexpr SynthKind kGranite{"granite", [](model::SynthShape& s) {
                                        s.architecture = "granite";
                                        s.tied_embeddings = true;
                                        scale_as_granite(s);
                                    }};
inline constexpr SynthKind kGraniteMoe{"granitemoe", [](model::SynthShape& s) {
                                           make_experts(s, "granitemoe", 8, 2);
                                           s.shared_ffn = 96;
                                           scale_as_granite(s);
                                       }};
inline constexpr SynthKind kQwen2Moe{"qwen2moe", [](model::SynthShape& s) {
                                         make_experts(s, "qwen2moe", 12, 4);
                                         s.shared_ffn = 96;
                                     }};
inline constexpr SynthKind kGlm4Moe{"glm4moe", [](model::SynthShape& s) {
                                        make_experts(s, "glm4moe", 12, 4);
                                        s.rope_dim = 8;
                                        s.qkv_bias = true;
                                        s.n_dense_layers = 2;
                                        s.dense_ffn = 192;
                                        s.shared_ffn = 64;
                                        s.selection_bias = true;
                                        s.expert_weight_scale = 2.5F;
                                        s.n_skipped_layers = 1;
                                    }};
// As DeepSeek V3 chooses: among the experts of two of four groups.
inline constexpr SynthKind kGlm4MoeGroups{"glm4moe_groups", [](model::SynthShape& s) {
                                              make_experts(s, "glm4moe", 12, 4);
                                              s.shared_ffn = 64;
                                              s.selection_bias = true;
                                              s.n_expert_groups = 4;
                                              s.n_expert_groups_used = 2;
                                          }};
inline constexpr SynthKind kMiniMaxM2{"minimax_m2", [](model::SynthShape& s) {
                                          make_experts(s, "minimax-m2", 12, 4);
                                          s.rope_dim = 8;
                                          s.selection_bias = true;
                                      }};
inline constexpr SynthKind kGptOss{"gpt_oss", [](model::SynthShape& s) {
                                       make_experts(s, "gpt-oss", 8, 2);
                                       s.head_dim = 32;
                                       s.sliding_window = 11;
                                       s.rope_scaling = {"yarn", 4, 16};
                                   }};
inline constexpr SynthKind kCommandRPlus{"command_r_plus", [](model::SynthShape& s) {
                                             s.architecture = "command-r";
                                             s.tied_embeddings = true;
                                             s.logit_scale = 0.5F;
                                         }};
inline constexpr SynthKind kNemotron{"nemotron", [](model::SynthShape& s) {
                                         s.architecture = "nemotron";
                                         s.rope_dim = 8;
                                     }};
inline constexpr SynthKind kCohere2{"cohere2", [](model::SynthShape& s) {
                                        s.architecture = "cohere2";
                                        s.tied_embeddings = true;
                                        s.sliding_window = 9;
                                        s.logit_scale = 0.25F;
                                    }};
inline constexpr SynthKind kGemma2{"gemma2", [](model::SynthShape& s) {
                                       s.architecture = "gemma2";
                                       s.tied_embeddings = true;
                                       s.head_dim = 32;
                                       s.sliding_window = 11;
                                       s.attention_softcap = 2;
                                       s.logit_softcap = 3;
                                   }};
inline constexpr SynthKind kGemma3{"gemma3", [](model::SynthShape& s) {
                                       s.architecture = "gemma3";
                                       s.tied_embeddings = true;
                                       s.head_dim = 32;
                                       s.rope_base = 1e6F;
                                       s.sliding_window = 11;
                                       s.full_attention_period = 3;
                                       s.rope_scaling = {"linear", 8, 16};
                                   }};
inline void make_gemma4(model::SynthShape& shape) {
    shape.architecture = "gemma4";
    shape.tied_embeddings = true;
    shape.head_dim = 64;
    shape.windowed_kv_heads = 6;
    shape.windowed_head_dim = 16;
    shape.keys_are_values = true;
    shape.rope_base = 1e6F;
    shape.sliding_window = 11;
    shape.full_attention_period = 3;
    shape.rope_scaling = {"proportional", 0.25F, 512};
    shape.logit_softcap = 3;
}
inline constexpr SynthKind kGemma4{"gemma4", make_gemma4};
inline constexpr SynthKind kGemma4Moe{"gemma4moe", [](model::SynthShape& s) {
                                          make_experts(s, "gemma4", 8, 2);
                                          make_gemma4(s);
                                          s.windowed_head_dim = 48;
                                          s.keys_are_values = false;
                                          s.dense_ffn = 96;
                                      }};
// As E2B, but for its last layer: the layers without the window are 1 and 3, and 4 shares the keys
// and values of 2.
inline constexpr SynthKind kGemma4E{"gemma4_e", [](model::SynthShape& s) {
                                        make_gemma4(s);
                                        s.keys_are_values = false;
                                        s.full_attention_period = 2;
                                        s.layer_input = 32;
                                        s.n_shared_kv_layers = 1;
                                        s.shared_kv_ffn = 192;
                                    }};
// Gemma 4 and its E with heads that several devices can share, where others have eight query heads
// and four key-value heads.
inline void share_gemma4(model::SynthShape& shape) {
    shape.architecture = "gemma4";
    shape.head_dim = 64;
    shape.windowed_kv_heads = 8;
    shape.windowed_head_dim = 16;
    shape.rope_scaling = {"proportional", 0.25F, 512};
    shape.sliding_window = 7;
    shape.full_attention_period = 2;
}
inline void share_gemma4_e(model::SynthShape& shape) {
    share_gemma4(shape);
    shape.layer_input = 32;
    shape.n_shared_kv_layers = 1;
}
inline void make_llama4(model::SynthShape& shape) {
    make_experts(shape, "llama4", 8, 1);
    shape.shared_ffn = 96;
    shape.sliding_window = 11;
    shape.temperature_length = 7;
    shape.rope_scaling = {"llama3", 8, 16};
}
inline constexpr SynthKind kLlama4{"llama4", make_llama4};
// As the larger one: experts in every second layer, queries and keys that are not normed.
inline constexpr SynthKind kLlama4Sparse{"llama4_sparse", [](model::SynthShape& s) {
                                             make_llama4(s);
                                             s.expert_period = 2;
                                             s.dense_ffn = 192;
                                             s.qk_norm = false;
                                             s.n_experts_used = 3;
                                         }};
inline constexpr SynthKind kMixtral{"mixtral",
                                    [](model::SynthShape& s) { make_experts(s, "llama", 8, 2); }};
inline constexpr SynthKind kQwen3Moe{
    "qwen3moe", [](model::SynthShape& s) { make_experts(s, "qwen3moe", 12, 4); }};

// Those of the cases that have one of these names; name_of(case) is a case's.
template <typename Case, std::size_t n, typename NameOf>
std::vector<Case> cases_named(const Case (&all)[n], std::initializer_list<std::string_view> names,
                              NameOf name_of) {
    std::vector<Case> some;
    for (const Case& one : all) {
        if (std::find(names.begin(), names.end(), name_of(one)) != names.end()) some.push_back(one);
    }
    CHECK(some.size() == names.size());
    return some;
}

// All of the cases; under a sanitizer, which finds the same in many of them, those of these names.
template <typename Case, std::size_t n, typename NameOf>
std::vector<Case> cases_or_few(const Case (&all)[n], std::initializer_list<std::string_view> few,
                               NameOf name_of) {
    if (kSanitized) return cases_named(all, few, name_of);
    return {std::begin(all), std::end(all)};
}

// Encoders.
inline void make_bert(model::SynthShape& shape) {
    shape.architecture = "bert";
    shape.n_kv_heads = shape.n_heads;
    shape.pooling = spec::Pooling::cls;
}
inline constexpr SynthKind kBert{"bert", make_bert};
inline constexpr SynthKind kNomicBert{"nomic_bert", [](model::SynthShape& s) {
                                          make_bert(s);
                                          s.architecture = "nomic-bert";
                                          s.rope_base = 1000;
                                      }};
inline constexpr SynthKind kNomicBertMoe{"nomic_bert_moe", [](model::SynthShape& s) {
                                             make_bert(s);
                                             make_experts(s, "nomic-bert-moe", 8, 2);
                                             s.rope_base = 1000;
                                             s.expert_period = 2;
                                             s.dense_ffn = s.ffn;
                                             s.unigrams = true;
                                         }};
inline constexpr SynthKind kJinaBert{"jina_bert", [](model::SynthShape& s) {
                                         make_bert(s);
                                         s.architecture = "jina-bert-v2";
                                         s.qk_norm = false;
                                     }};
inline constexpr SynthKind kJinaCode{"jina_code", [](model::SynthShape& s) {
                                         make_bert(s);
                                         s.architecture = "jina-bert-v2";
                                     }};
// With BERT's feed-forward.
inline constexpr SynthKind kJinaUngated{"jina_ungated", [](model::SynthShape& s) {
                                            kJinaBert.change(s);
                                            s.gated = false;
                                        }};
// XLM-RoBERTa with rope, and queries, keys and values in one tensor.
inline constexpr SynthKind kJinaV3{"jina_v3", [](model::SynthShape& s) {
                                       make_bert(s);
                                       s.architecture = "jina-bert-v3";
                                       s.rope_base = 1000;
                                       s.unigrams = true;
                                   }};
inline constexpr SynthKind kModernBert{"modern_bert", [](model::SynthShape& s) {
                                           make_bert(s);
                                           s.architecture = "modern-bert";
                                           s.rope_base = 1000;
                                           s.sliding_window = 41;
                                           s.full_attention_period = 3;
                                       }};
inline constexpr SynthKind kXlmRoberta{"xlm_roberta", [](model::SynthShape& s) {
                                           make_bert(s);
                                           s.unigrams = true;
                                       }};

// Windows of 11 positions in layers 0, 2 and 4: five to each side.
inline constexpr SynthKind kGemmaEmbedding{"gemma_embedding", [](model::SynthShape& s) {
                                               s.architecture = "gemma-embedding";
                                               s.tied_embeddings = true;
                                               s.n_heads = 12;
                                               s.n_kv_heads = 6;
                                               s.head_dim = 32;
                                               s.rope_base = 1e6F;
                                               s.sliding_window = 11;
                                               s.full_attention_period = 2;
                                               s.pooling = spec::Pooling::mean;
                                               s.dense_inner = 128;
                                           }};

inline model::SynthShape shape_of(const SynthKind& kind) {
    model::SynthShape shape;
    shape.name = kind.name;
    shape.n_layers = kLayers;
    shape.hidden = 96;
    shape.n_heads = 6;
    shape.n_kv_heads = 2;
    shape.ffn = 160;
    shape.vocab = kVocab;
    shape.context_length = 512;
    kind.change(shape);
    return shape;
}

// A synthetic model's file that goes away with the test.
class SynthFile {
  public:
    SynthFile(const model::SynthShape& shape, model::TensorType type) {
        static std::atomic<int> count{0};
        path_ = testing::TempDir() + "helix_engine_" + std::to_string(getpid()) + "_" +
                std::to_string(++count) + ".gguf";
        model::SynthOptions options;
        options.seed = 3;
        options.path = path_;
        options.threads = 1;
        const auto made = model::synth_model(shape, type, options);
        if (!made.ok()) ADD_FAILURE() << made.error().message;
    }
    ~SynthFile() { std::remove(path_.c_str()); }
    SynthFile(const SynthFile&) = delete;
    SynthFile& operator=(const SynthFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline CpuOptions test_options(std::int32_t block_size = 16, int threads = 2) {
    CpuOptions options;
    options.threads = threads;
    options.memory_bytes = 64 << 20;
    options.block_size = block_size;
    return options;
}

inline Runner make_runner(const SynthFile& file, spec::LayerRange layers, CpuOptions options,
                          std::uint64_t seed) {
    const std::int32_t block_size = options.block_size;
    auto backend = open_backend(file.path(), options);
    if (!backend.ok()) ADD_FAILURE() << backend.error().message;
    return Runner(std::move(*backend), layers, block_size, seed);
}

inline std::vector<spec::Token> random_tokens(base::Random& random, std::size_t n) {
    std::vector<spec::Token> tokens(n);
    for (spec::Token& token : tokens) token = static_cast<spec::Token>(random.below(kVocab));
    return tokens;
}

inline Piece piece_of(std::uint64_t request, spec::LayerRange layers, std::int32_t first,
                      std::vector<spec::Token> tokens, std::vector<float> input = {}) {
    Piece piece;
    piece.request = request;
    piece.layers = layers;
    piece.first_position = first;
    piece.tokens = std::move(tokens);
    piece.input = std::move(input);
    piece.sample = layers.end == kLayers;
    piece.sampling.temperature = 0.8F;
    piece.sampling.seed = request;
    piece.sampling.n_logprobs = kVocab - 1;
    return piece;
}

// Some next rows of some of the sequences, of which done rows ran; a sequence pauses with this
// chance.
inline std::vector<Piece> next_pieces(const std::vector<std::vector<spec::Token>>& sequences,
                                      const std::vector<std::size_t>& done, spec::LayerRange layers,
                                      double pause, base::Random& random) {
    std::vector<Piece> pieces;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
        const std::size_t rest = sequences[s].size() - done[s];
        if (rest == 0 || random.chance(pause)) continue;
        const std::size_t n = 1 + random.below(rest);
        const auto from = sequences[s].begin() + static_cast<std::ptrdiff_t>(done[s]);
        pieces.push_back(piece_of(s, layers, static_cast<std::int32_t>(done[s]),
                                  {from, from + static_cast<std::ptrdiff_t>(n)}));
    }
    return pieces;
}

inline bool all_done(const std::vector<std::vector<spec::Token>>& sequences,
                     const std::vector<std::size_t>& done) {
    for (std::size_t s = 0; s < sequences.size(); ++s) {
        if (done[s] < sequences[s].size()) return false;
    }
    return true;
}

inline std::vector<PieceResult> must_run(Runner& runner, const std::vector<Piece>& pieces) {
    auto results = runner.run(pieces);
    if (!results.ok()) ADD_FAILURE() << results.error().message;
    return std::move(*results);
}

}  // namespace helix::engine::test
