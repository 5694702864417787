#include <string>
#include <vector>

#include "model/arch/decoder.h"
#include "model/synth.h"

// The shapes that synthetic models may have, by name.

namespace helix::model {
namespace {

// A small model of a family.
SynthShape& add_like(std::vector<SynthShape>& all, const char* name, const char* architecture) {
    SynthShape& shape = all.emplace_back();
    shape.name = name;
    shape.architecture = architecture;
    shape.n_layers = 8;
    shape.hidden = 256;
    shape.n_heads = 8;
    shape.n_kv_heads = 2;
    shape.ffn = 768;
    shape.vocab = 2048;
    shape.context_length = 4096;
    return shape;
}

void make_granite(SynthShape& shape) {
    shape.tokenizer = "granite";
    shape.tied_embeddings = true;
    shape.embedding_scale = 12.0F;
    shape.residual_scale = 0.22F;
    shape.attention_scale = 0.03125F;
    shape.logit_scale = 2.0F;
}

void make_gemma4(SynthShape& shape) {
    shape.tokenizer = "gemma4";
    shape.n_layers = 6;
    shape.tied_embeddings = true;
    shape.head_dim = 128;
    shape.windowed_head_dim = 64;
    shape.windowed_kv_heads = 8;
    shape.keys_are_values = true;
    shape.rope_base = 1e6F;
    shape.sliding_window = 512;
    shape.rope_scaling = {"proportional", 0.25F, 4096};
    shape.logit_softcap = 30.0F;
}

void add_dense_likes(std::vector<SynthShape>& all) {
    const auto add = [&](const char* name, const char* architecture) -> SynthShape& {
        SynthShape& shape = add_like(all, name, architecture);
        shape.tokenizer = name;
        return shape;
    };
    SynthShape& smollm3 = add("smollm3", "smollm3");
    smollm3.rope_base = 5e6F;
    smollm3.tied_embeddings = true;
    SynthShape& glm4 = add("glm4", "glm4");
    glm4.rope_dim = 16;
    SynthShape& olmo2 = add("olmo2", "olmo2");
    olmo2.n_kv_heads = 8;
    olmo2.rope_base = 500000.0F;
    SynthShape& phi4 = add("phi4", "phi3");
    phi4.rope_dim = 24;
    phi4.tied_embeddings = true;
    phi4.rope_scaling = {"longrope", 3.0F, 1024};
    SynthShape& granite = add("granite", "granite");
    make_granite(granite);
    SynthShape& command_r = add("command-r", "cohere2");
    command_r.tied_embeddings = true;
    command_r.rope_base = 50000.0F;
    command_r.sliding_window = 512;
    command_r.logit_scale = 0.25F;
    SynthShape& command_r_plus = add("command-r-plus", "command-r");
    command_r_plus.tied_embeddings = true;
    command_r_plus.rope_base = 75000.0F;
    command_r_plus.logit_scale = 0.25F;
    SynthShape& nemotron = add("nemotron", "nemotron");
    nemotron.rope_dim = 16;
    SynthShape& gemma2 = add("gemma2", "gemma2");
    gemma2.tied_embeddings = true;
    gemma2.head_dim = 64;
    gemma2.sliding_window = 512;
    gemma2.attention_softcap = 50.0F;
    gemma2.logit_softcap = 30.0F;
    SynthShape& gemma3 = add("gemma3", "gemma3");
    gemma3.tied_embeddings = true;
    gemma3.head_dim = 64;
    gemma3.rope_base = 1e6F;
    gemma3.sliding_window = 512;
    gemma3.rope_scaling = {"linear", 8.0F, 1024};
    make_gemma4(add("gemma4", "gemma4"));
    // As E2B: every fifth layer has no window, and the last share keys and values.
    SynthShape& gemma4_e = add("gemma4-e", "gemma4");
    make_gemma4(gemma4_e);
    gemma4_e.n_layers = 10;
    gemma4_e.full_attention_period = 5;
    gemma4_e.n_kv_heads = gemma4_e.windowed_kv_heads = 1;
    gemma4_e.keys_are_values = false;
    gemma4_e.layer_input = 256;
    gemma4_e.n_shared_kv_layers = 5;
    gemma4_e.shared_kv_ffn = 1536;
    for (const bool reranks : {false, true}) {
        SynthShape& qwen3 = add(reranks ? "qwen3-reranker" : "qwen3-embedding", "qwen3");
        qwen3.head_dim = 64;
        qwen3.rope_base = 1e6F;
        qwen3.tied_embeddings = true;
        qwen3.reranks = reranks;
        if (!reranks) qwen3.pooling = spec::Pooling::last;
    }
}

void add_likes_with_experts(std::vector<SynthShape>& all) {
    const auto add = [&](const char* name, const char* architecture) -> SynthShape& {
        SynthShape& shape = add_like(all, name, architecture);
        shape.tokenizer = name;
        shape.n_layers = 4;
        shape.ffn = 256;
        shape.n_experts = 8;
        shape.n_experts_used = 2;
        return shape;
    };
    SynthShape& qwen2moe = add("qwen2-moe", "qwen2moe");
    qwen2moe.rope_base = 1e6F;
    qwen2moe.shared_ffn = 1024;
    SynthShape& granitemoe = add("granite-moe", "granitemoe");
    granitemoe.shared_ffn = 512;
    make_granite(granitemoe);
    SynthShape& glm4moe = add("glm4-moe", "glm4moe");
    glm4moe.rope_base = 1e6F;
    glm4moe.rope_dim = 16;
    glm4moe.qkv_bias = true;
    glm4moe.n_dense_layers = 1;
    glm4moe.dense_ffn = 768;
    glm4moe.shared_ffn = 256;
    glm4moe.selection_bias = true;
    glm4moe.expert_weight_scale = 2.5F;
    SynthShape& gemma4moe = add("gemma4-moe", "gemma4");
    gemma4moe.dense_ffn = 512;
    make_gemma4(gemma4moe);
    SynthShape& minimax = add("minimax-m2", "minimax-m2");
    minimax.rope_base = 5e6F;
    minimax.rope_dim = 16;
    minimax.selection_bias = true;
    SynthShape& llama4 = add("llama4", "llama4");
    llama4.context_length = 16384;
    llama4.rope_base = 500000.0F;
    llama4.n_experts_used = 1;
    llama4.expert_period = 2;
    llama4.dense_ffn = 768;
    llama4.shared_ffn = 256;
    llama4.rope_scaling = {"llama3", 8.0F, 1024};
    SynthShape& gpt_oss = add("gpt-oss", "gpt-oss");
    gpt_oss.rope_base = 150000.0F;
    gpt_oss.head_dim = 64;
    gpt_oss.sliding_window = 128;
    gpt_oss.rope_scaling = {"yarn", 32.0F, 128};
}

// They have the mechanisms of the models that they are called after: bge (and any other BERT),
// nomic-embed-text (of version 2 with experts), jina-embeddings-v2 and that for code, the base of
// jina-embeddings-v3, ModernBERT, bge-m3, whose vocabulary is one of unigrams, and EmbeddingGemma;
// and of the cross-encoders ms-marco-MiniLM and bge-reranker.
void add_encoder_likes(std::vector<SynthShape>& all) {
    const auto add = [&](const char* name, const char* architecture) -> SynthShape& {
        SynthShape& shape = add_like(all, name, architecture);
        shape.n_layers = 6;
        shape.n_kv_heads = 8;
        shape.context_length = 512;
        shape.pooling = spec::Pooling::cls;
        return shape;
    };
    add("bge", "bert");
    SynthShape& nomic = add("nomic-bert", "nomic-bert");
    nomic.context_length = 2048;
    nomic.rope_base = 1000.0F;
    nomic.pooling = spec::Pooling::mean;
    SynthShape& nomic_moe = add("nomic-bert-moe", "nomic-bert-moe");
    nomic_moe.pooling = spec::Pooling::mean;
    nomic_moe.unigrams = true;
    nomic_moe.n_experts = 8;
    nomic_moe.n_experts_used = 2;
    nomic_moe.expert_period = 2;
    nomic_moe.dense_ffn = nomic_moe.ffn;
    for (const bool of_code : {false, true}) {
        SynthShape& jina = add(of_code ? "jina-bert-v2-code" : "jina-bert-v2", "jina-bert-v2");
        jina.pooling = spec::Pooling::mean;
        jina.qk_norm = of_code;
        if (of_code) jina.tokenizer = jina.name;
    }
    SynthShape& jina_v3 = add("jina-bert-v3", "jina-bert-v3");
    jina_v3.context_length = 1024;
    jina_v3.rope_base = 20000.0F;
    jina_v3.pooling = spec::Pooling::mean;
    jina_v3.unigrams = true;
    SynthShape& modern = add("modern-bert", "modern-bert");
    modern.tokenizer = modern.name;
    modern.context_length = 2048;
    modern.rope_base = 160000.0F;
    modern.sliding_window = 128;
    modern.full_attention_period = 3;
    SynthShape& m3 = add("bge-m3", "bert");
    m3.context_length = 1024;
    m3.unigrams = true;
    SynthShape& gemma = add("embeddinggemma", "gemma-embedding");
    gemma.tokenizer = gemma.name;
    gemma.tied_embeddings = true;
    gemma.n_kv_heads = 2;
    gemma.head_dim = 64;
    gemma.context_length = 2048;
    gemma.rope_base = 1e6F;
    gemma.sliding_window = 512;
    gemma.pooling = spec::Pooling::mean;
    gemma.dense_inner = 1024;
    for (const bool unigrams : {false, true}) {
        SynthShape& ranker = add(unigrams ? "bge-reranker" : "minilm-reranker", "bert");
        ranker.reranks = true;
        ranker.unigrams = unigrams;
    }
}

}  // namespace

bool SynthShape::is_windowed(std::int32_t layer) const {
    const DecoderTraits* traits = find_traits(architecture);
    std::int32_t period = full_attention_period;
    if (period == 0 && traits != nullptr) period = traits->full_attention_period;
    const std::int32_t first = traits != nullptr && traits->full_attention_first ? 0 : 1;
    return sliding_window > 0 && (period == 0 || (layer + first) % period != 0);
}

SynthShape widened(SynthShape shape, std::int32_t times) {
    for (std::int32_t SynthShape::*width :
         {&SynthShape::hidden, &SynthShape::n_heads, &SynthShape::n_kv_heads, &SynthShape::ffn,
          &SynthShape::dense_ffn, &SynthShape::shared_ffn, &SynthShape::windowed_kv_heads,
          &SynthShape::dense_inner}) {
        shape.*width *= times;
    }
    return shape;
}

const std::vector<SynthShape>& synth_shapes() {
    // name, layers, hidden, heads, KV heads, ffn, vocabulary, context, rope base, tied,
    // architecture, head size, experts, experts used, window, rope scaling, reranks
    static const std::vector<SynthShape> shapes{
        {"tiny", 4, 64, 8, 4, 160, 512, 512, 10000.0F, false},
        {"tiny-tied", 4, 64, 8, 4, 160, 512, 512, 10000.0F, true},
        {"tiny-qwen2", 4, 64, 8, 4, 160, 512, 512, 1e6F, false, "qwen2"},
        {"tiny-qwen3", 4, 64, 8, 4, 160, 512, 512, 1e6F, false, "qwen3", 16},
        {"tiny-mistral", 4, 64, 8, 4, 160, 512, 512, 10000.0F, false, "llama", 0, 0, 0, 64},
        {"tiny-mixtral", 4, 64, 8, 4, 96, 512, 512, 1e6F, false, "llama", 0, 8, 2},
        {"tiny-qwen3moe", 4, 64, 8, 4, 32, 512, 512, 1e6F, false, "qwen3moe", 16, 16, 4},
        {"tiny-reranker", 4, 64, 8, 4, 160, 512, 512, 1e6F, true, "qwen3", 16, 0, 0, 0, {}, true},
        {"tiny-32k", 4, 64, 8, 4, 160, 32000, 4096, 10000.0F, true},
        {"small", 4, 256, 8, 4, 768, 1024, 1024, 10000.0F, false},
        {"llama-160m", 12, 768, 12, 12, 3072, 32000, 2048, 10000.0F, false},
        {"llama-1b", 22, 2048, 32, 4, 5632, 32000, 2048, 10000.0F, false},
        {"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, 10000.0F, false},
        {"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 500000.0F, false},
        {"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, 10000.0F, false},
        {"qwen3-0.6b", 28, 1024, 16, 8, 3072, 151936, 40960, 1e6F, true, "qwen3", 128},
        {"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 32768, 1e6F, false, "llama", 0, 8, 2},
        {"qwen3-30b-a3b", 48, 2048, 32, 4, 768, 151936, 40960, 1e6F, false, "qwen3moe", 128, 128,
         8},
    };
    return shapes;
}

const std::vector<SynthShape>& synth_likes() {
    static const std::vector<SynthShape> likes = [] {
        std::vector<SynthShape> all;
        add_dense_likes(all);
        add_likes_with_experts(all);
        add_encoder_likes(all);
        return all;
    }();
    return likes;
}

}  // namespace helix::model
