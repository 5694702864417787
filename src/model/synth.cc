#include "model/synth.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "base/random.h"
#include "model/gguf_writer.h"
#include "model/synth_vocabulary.h"

namespace helix::model {
namespace {

constexpr std::uint64_t kBatchBytesPerThread = 4U << 20;

// Says nothing about the model's training, as it has none; gives chat clients something to render.
constexpr char kChatTemplate[] =
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

// llama.cpp's enum llama_ftype: what most matrices of the file are.
std::uint32_t file_type(TensorType quant) {
    switch (quant) {
        case TensorType::f32:
            return 0;
        case TensorType::f16:
            return 1;
        case TensorType::q4_0:
            return 2;
        case TensorType::q8_0:
            return 7;
        case TensorType::q4_k:
            return 14;
        case TensorType::q6_k:
            return 18;
        case TensorType::q4_1:
            return 3;
        case TensorType::q5_0:
            return 8;
        case TensorType::q5_1:
            return 9;
        case TensorType::q3_k:
            return 11;
        case TensorType::q5_k:
            return 16;
        case TensorType::iq4_nl:
            return 25;
        case TensorType::mxfp4:
            return 38;
        case TensorType::bf16:
            return 32;
    }
    return 0;
}

struct SynthTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    float mean = 0;
    float deviation = 0;
};

// Deviations keep the residual stream near one: matrices preserve the size of their input, and the
// two that add to the stream are smaller the more layers there are (GPT-2's rule).
std::vector<SynthTensor> list_tensors(const SynthShape& shape) {
    const std::int64_t hidden = shape.hidden;
    const std::int64_t ffn = shape.ffn;
    const std::int64_t kv = hidden / shape.n_heads * shape.n_kv_heads;
    const auto from = [](std::int64_t fan_in) {
        return 1.0F / std::sqrt(static_cast<float>(fan_in));
    };
    const float added = 1.0F / std::sqrt(2.0F * static_cast<float>(shape.n_layers));
    // A tied embedding is the head too, and must keep logits near one.
    const float embedding = shape.tied_embeddings ? from(hidden) : 1.0F;
    std::vector<SynthTensor> tensors{{"token_embd.weight", {hidden, shape.vocab}, 0, embedding}};
    for (std::int32_t layer = 0; layer < shape.n_layers; ++layer) {
        const auto add = [&](const char* name, std::vector<std::int64_t> dims, float mean,
                             float dev) {
            tensors.push_back(
                {fmt::format("blk.{}.{}.weight", layer, name), std::move(dims), mean, dev});
        };
        add("attn_norm", {hidden}, 1, 0.1F);
        add("attn_q", {hidden, hidden}, 0, from(hidden));
        add("attn_k", {hidden, kv}, 0, from(hidden));
        add("attn_v", {hidden, kv}, 0, from(hidden));
        add("attn_output", {hidden, hidden}, 0, from(hidden) * added);
        add("ffn_norm", {hidden}, 1, 0.1F);
        add("ffn_gate", {hidden, ffn}, 0, from(hidden));
        add("ffn_up", {hidden, ffn}, 0, from(hidden));
        add("ffn_down", {ffn, hidden}, 0, from(ffn) * added);
    }
    tensors.push_back({"output_norm.weight", {hidden}, 1, 0.1F});
    if (!shape.tied_embeddings) {
        tensors.push_back({"output.weight", {hidden, shape.vocab}, 0, from(hidden)});
    }
    return tensors;
}

void set_metadata(GgufBuilder& builder, const SynthShape& shape, TensorType quant,
                  std::uint64_t seed) {
    const auto count = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
    builder.set("general.architecture", "llama");
    builder.set("general.name",
                fmt::format("synth-{}-{}-{}", shape.name, tensor_type_info(quant)->name, seed));
    builder.set("general.file_type", file_type(quant));
    builder.set("general.quantization_version", std::uint32_t{2});
    builder.set("llama.vocab_size", count(shape.vocab));
    builder.set("llama.context_length", count(shape.context_length));
    builder.set("llama.embedding_length", count(shape.hidden));
    builder.set("llama.block_count", count(shape.n_layers));
    builder.set("llama.feed_forward_length", count(shape.ffn));
    builder.set("llama.rope.dimension_count", count(shape.hidden / shape.n_heads));
    builder.set("llama.rope.freq_base", shape.rope_base);
    builder.set("llama.attention.head_count", count(shape.n_heads));
    builder.set("llama.attention.head_count_kv", count(shape.n_kv_heads));
    builder.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);

    SynthVocabulary vocabulary = make_synth_vocabulary(shape.vocab, seed);
    builder.set("tokenizer.ggml.model", "llama");
    builder.set("tokenizer.ggml.tokens", std::move(vocabulary.tokens));
    builder.set("tokenizer.ggml.scores", std::move(vocabulary.scores));
    builder.set("tokenizer.ggml.token_type", std::move(vocabulary.types));
    builder.set("tokenizer.ggml.bos_token_id", vocabulary.bos);
    builder.set("tokenizer.ggml.eos_token_id", vocabulary.eos);
    builder.set("tokenizer.ggml.unknown_token_id", vocabulary.unknown);
    builder.set("tokenizer.ggml.add_bos_token", true);
    builder.set("tokenizer.ggml.add_eos_token", false);
    builder.set("tokenizer.ggml.add_space_prefix", true);
    builder.set("tokenizer.chat_template", kChatTemplate);
}

// Bell-shaped with deviation one: four 16-bit uniforms, summed exactly in integers, so that it is
// the same on every machine.
float bell(std::uint64_t bits) {
    const std::uint64_t sum =
        (bits & 0xffffU) + ((bits >> 16) & 0xffffU) + ((bits >> 32) & 0xffffU) + (bits >> 48);
    constexpr float kInverseDeviation = 1.7320508F / 65536.0F;
    return (static_cast<float>(sum) - 131070.0F) * kInverseDeviation;
}

// The quantised rows [begin, end) of a tensor.
struct RowFiller {
    const SynthTensor& tensor;
    TensorType type;
    std::uint64_t key;
    std::size_t row_length;
    std::size_t row_bytes;

    void fill(std::uint64_t begin, std::uint64_t end, std::byte* out) const {
        std::vector<float> row(row_length);
        for (std::uint64_t r = begin; r < end; ++r, out += row_bytes) {
            for (std::size_t i = 0; i < row_length; ++i) {
                row[i] =
                    tensor.mean + tensor.deviation * bell(base::hash_pair(key, r * row_length + i));
            }
            quantize_row(type, row, out);
        }
    }

    void fill_on(unsigned threads, std::uint64_t begin, std::uint64_t end, std::byte* out) const {
        std::vector<std::thread> pool;
        const std::uint64_t each = (end - begin + threads - 1) / threads;
        for (std::uint64_t from = begin; from < end; from += each) {
            const std::uint64_t to = std::min(end, from + each);
            std::byte* at = out + (from - begin) * row_bytes;
            if (to == end) {
                fill(from, to, at);
            } else {
                pool.emplace_back([this, from, to, at] { fill(from, to, at); });
            }
        }
        for (std::thread& thread : pool) thread.join();
    }
};

base::Status check_shape(const SynthShape& shape, TensorType quant) {
    const TensorTypeInfo& type = *tensor_type_info(quant);
    const auto wrong = [&](const std::string& text) {
        return base::invalid(fmt::format("shape {}: {}", shape.name, text));
    };
    for (const std::int32_t value : {shape.n_layers, shape.hidden, shape.n_heads, shape.n_kv_heads,
                                     shape.ffn, shape.context_length}) {
        if (value < 1) return wrong("every size must be at least 1");
    }
    if (shape.hidden % shape.n_heads != 0 || shape.n_heads % shape.n_kv_heads != 0 ||
        shape.hidden / shape.n_heads % 2 != 0) {
        return wrong(
            "expected heads that divide the hidden size into even parts, and KV heads that "
            "divide the heads");
    }
    if (shape.vocab < kMinSynthVocabulary) {
        return wrong(fmt::format("a vocabulary of {}, expected at least {}", shape.vocab,
                                 kMinSynthVocabulary));
    }
    for (const std::int32_t row : {shape.hidden, shape.ffn}) {
        if (row % type.block_size == 0) continue;
        return wrong(
            fmt::format("rows of {} elements, {} needs a multiple of {}; the shape \"small\" has "
                        "that",
                        row, type.name, type.block_size));
    }
    return base::Ok{};
}

base::Status write_tensor(GgufOutput& out, const RowFiller& rows, std::uint64_t n_rows,
                          unsigned threads, std::uint64_t total, std::uint64_t& done,
                          const SynthProgress& progress) {
    const std::uint64_t step =
        std::max<std::uint64_t>(1, kBatchBytesPerThread * threads / rows.row_bytes);
    std::vector<std::byte> batch(std::min(step, n_rows) * rows.row_bytes);
    for (std::uint64_t begin = 0; begin < n_rows; begin += step) {
        const std::uint64_t end = std::min(n_rows, begin + step);
        rows.fill_on(threads, begin, end, batch.data());
        const std::uint64_t bytes = (end - begin) * rows.row_bytes;
        TRY_VOID(out.append(std::span(batch).first(bytes)));
        done += bytes;
        if (progress) progress(done, total);
    }
    return base::Ok{};
}

}  // namespace

const std::vector<SynthShape>& synth_shapes() {
    // name, layers, hidden, heads, KV heads, ffn, vocabulary, context, rope base, tied
    static const std::vector<SynthShape> shapes{
        {"tiny", 4, 64, 8, 4, 160, 512, 512, 10000.0F, false},
        {"tiny-tied", 4, 64, 8, 4, 160, 512, 512, 10000.0F, true},
        {"small", 4, 256, 8, 4, 768, 1024, 1024, 10000.0F, false},
        {"llama-160m", 12, 768, 12, 12, 3072, 32000, 2048, 10000.0F, false},
        {"llama-1b", 22, 2048, 32, 4, 5632, 32000, 2048, 10000.0F, false},
        {"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, 10000.0F, false},
        {"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 500000.0F, false},
        {"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, 10000.0F, false},
    };
    return shapes;
}

base::Status synth_model(const SynthShape& shape, TensorType quant, const SynthOptions& options,
                         const SynthProgress& progress) {
    TRY_VOID(check_shape(shape, quant));
    const std::vector<SynthTensor> tensors = list_tensors(shape);
    GgufBuilder builder;
    set_metadata(builder, shape, quant, options.seed);
    std::uint64_t total = 0;
    for (const SynthTensor& tensor : tensors) {
        const TensorType type = tensor.shape.size() == 1 ? TensorType::f32 : quant;
        builder.add_tensor(tensor.name, type, tensor.shape);
        total += builder.tensors().back().bytes;
    }
    TRY(const auto out, GgufOutput::create(options.path, builder));
    const unsigned threads =
        options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const TensorInfo& info = builder.tensors()[i];
        const auto n_rows = static_cast<std::uint64_t>(info.rows());
        const std::uint64_t name_key = base::hash128(std::as_bytes(std::span(info.name))).low;
        const RowFiller rows{tensors[i], info.type, base::hash_pair(options.seed, name_key),
                             static_cast<std::size_t>(info.row_length()), info.bytes / n_rows};
        TRY_VOID(write_tensor(*out, rows, n_rows, threads, total, done, progress));
    }
    return out->finish();
}

base::Status synth_model(const SynthOptions& options, const SynthProgress& progress) {
    const TensorType* quant = tensor_type_by_name(options.quant);
    if (quant == nullptr) {
        return base::invalid(fmt::format("quantisation \"{}\" is unknown; known: {}", options.quant,
                                         tensor_type_names()));
    }
    std::vector<std::string_view> names;
    for (const SynthShape& shape : synth_shapes()) {
        if (shape.name == options.shape) return synth_model(shape, *quant, options, progress);
        names.push_back(shape.name);
    }
    return base::invalid(
        fmt::format("shape \"{}\" is unknown; known: {}", options.shape, fmt::join(names, ", ")));
}

}  // namespace helix::model
