#include "model/synth_tokenizers.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "model/synth_vocabulary.h"

namespace helix::model {
namespace {

constexpr std::string_view kByteLevel = "gpt2";
constexpr std::string_view kByMerges = "gemma4";

// What each template writes is in its family's form, and as short as that allows.

constexpr std::string_view kImChat =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

constexpr std::string_view kImRank =
    "<|im_start|>system\nDoes the document meet the query? Say \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

constexpr std::string_view kGlmChat =
    "[gMASK]<sop>{% for message in messages %}<|{{ message['role'] }}|>\n"
    "{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

constexpr std::string_view kOlmoChat =
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n"
    "{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

constexpr std::string_view kPhiChat =
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

constexpr std::string_view kGraniteChat =
    "{% for message in messages %}<|start_of_role|>{{ message['role'] }}<|end_of_role|>"
    "{{ message['content'] }}<|end_of_text|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}";

constexpr std::string_view kCommandChat =
    "{{ bos_token }}{% for message in messages %}<|START_OF_TURN_TOKEN|>"
    "{% if message['role'] == 'user' %}<|USER_TOKEN|>"
    "{% elif message['role'] == 'assistant' %}<|CHATBOT_TOKEN|>"
    "{% else %}<|SYSTEM_TOKEN|>{% endif %}{{ message['content'] }}<|END_OF_TURN_TOKEN|>{% endfor %}"
    "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}";

constexpr std::string_view kNemotronChat =
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}<extra_id_0>System"
    "{% elif message['role'] == 'assistant' %}<extra_id_1>Assistant"
    "{% else %}<extra_id_1>User{% endif %}{{ '\\n' }}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<extra_id_1>Assistant\n{% endif %}";

constexpr std::string_view kGemmaChat =
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else 'user' }}\n"
    "{{ message['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

constexpr std::string_view kGemma4Chat =
    "{{ bos_token }}{% for message in messages %}<|turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ message['content'] }}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\n"
    "{% if enable_thinking is defined and not enable_thinking %}<|channel>thought\n<channel|>"
    "{% endif %}{% endif %}";

constexpr std::string_view kMiniMaxChat =
    "]~!b[{% for message in messages %}]~b]"
    "{{ 'ai' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ message['content'] }}[e~[\n{% endfor %}"
    "{% if add_generation_prompt %}]~b]ai\n<think>\n{% endif %}";

constexpr std::string_view kLlama4Chat =
    "{{ bos_token }}{% for message in messages %}"
    "<|header_start|>{{ message['role'] }}<|header_end|>\n\n{{ message['content'] }}<|eot|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|header_start|>assistant<|header_end|>\n\n{% endif %}";

// Calls are shown, since the answers of such a model are read as channels, with calls on them.
constexpr std::string_view kHarmonyChat =
    "{% if tools %}<|start|>developer<|message|># Tools\n"
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|end|>{% endif %}"
    "{% for message in messages %}{% if message['tool_calls'] %}"
    "{% for call in message['tool_calls'] %}"
    "<|start|>assistant<|channel|>commentary to=functions.{{ call['function']['name'] }} "
    "<|constrain|>json<|message|>{{ call['function']['arguments'] | tojson }}<|call|>{% endfor %}"
    "{% elif message['role'] == 'tool' %}"
    "<|start|>tool to=assistant<|channel|>commentary<|message|>{{ message['content'] }}<|end|>"
    "{% elif message['role'] == 'assistant' %}"
    "<|start|>assistant<|channel|>final<|message|>{{ message['content'] }}<|end|>"
    "{% else %}<|start|>{{ 'developer' if message['role'] == 'system' else message['role'] }}"
    "<|message|>{{ message['content'] }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}";

void add_byte_level(std::vector<SynthTokenizer>& all) {
    all.push_back({.name = "smollm3",
                   .model = kByteLevel,
                   .pre = "smaug-bpe",
                   .last = {"<|begin_of_text|>", "<|end_of_text|>", "<|finetune_right_pad_id|>",
                            "<|eom_id|>", "<|python_tag|>", "<|im_start|>", "<|im_end|>"},
                   .spoken = {"<think>", "</think>", "<tool_response>", "</tool_response>",
                              "<tool_call>", "</tool_call>", "<code>", "</code>"},
                   .bos = "<|begin_of_text|>",
                   .eos = "<|im_end|>",
                   .padding = "<|im_end|>",
                   .chat_template = kImChat});
    all.push_back({.name = "olmo2",
                   .model = kByteLevel,
                   .pre = "dbrx",
                   .last = {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                            "<|im_start|>", "<|im_end|>", "<|endofprompt|>", "<|pad|>"},
                   .spoken = {"|||PHONE_NUMBER|||", "|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||"},
                   .bos = "<|endoftext|>",
                   .eos = "<|endoftext|>",
                   .padding = "<|pad|>",
                   .chat_template = kOlmoChat});
    all.push_back({.name = "phi4",
                   .model = kByteLevel,
                   .pre = "gpt-4o",
                   .last = {"<|endoftext|>", "<|endofprompt|>", "<|assistant|>", "<|end|>",
                            "<|user|>", "<|system|>", "<|tool|>", "<|/tool|>", "<|tool_call|>",
                            "<|/tool_call|>", "<|tool_response|>", "<|tag|>"},
                   .bos = "<|endoftext|>",
                   .eos = "<|endoftext|>",
                   .unknown = "<|endoftext|>",
                   .padding = "<|endoftext|>",
                   .chat_template = kPhiChat});
    all.push_back(
        {.name = "granite",
         .model = kByteLevel,
         .pre = "refact",
         .first = {"<|end_of_text|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"},
         .last = {"<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"},
         .bos = "<|end_of_text|>",
         .eos = "<|end_of_text|>",
         .unknown = "<|end_of_text|>",
         .padding = "<|end_of_text|>",
         .chat_template = kGraniteChat});
    all.push_back({.name = "qwen3-embedding",
                   .model = kByteLevel,
                   .pre = "qwen2",
                   .last = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
                   .spoken = {"<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
                              "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
                              "<tool_response>", "</tool_response>", "<think>", "</think>"},
                   .bos = "<|endoftext|>",
                   .eos = "<|endoftext|>",
                   .padding = "<|endoftext|>",
                   .add_eos = true,
                   .chat_template = kImChat});
    SynthTokenizer reranker = all.back();
    reranker.name = "qwen3-reranker";
    reranker.eos = "<|im_end|>";
    reranker.add_eos = false;
    SynthTokenizer qwen2_moe = reranker;
    qwen2_moe.name = "qwen2-moe";
    qwen2_moe.spoken = {};
    reranker.rerank_template = kImRank;
    for (SynthTokenizer* one : {&reranker, &qwen2_moe}) all.push_back(std::move(*one));
}

void add_larger_byte_level(std::vector<SynthTokenizer>& all) {
    all.push_back({.name = "glm4",
                   .model = kByteLevel,
                   .pre = "glm4",
                   .last = {"<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>",
                            "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"},
                   .bos = "[gMASK]",
                   .eos = "<|endoftext|>",
                   .eot = "<|user|>",
                   .unknown = "<|endoftext|>",
                   .padding = "<|endoftext|>",
                   .chat_template = kGlmChat});
    SynthTokenizer glm4_moe = all.back();
    glm4_moe.name = "glm4-moe";
    glm4_moe.eom = "<|observation|>";
    glm4_moe.spoken = {"<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>", "<think>",
                       "</think>",        "<tool_call>",     "</tool_call>",    "<arg_key>",
                       "</arg_key>",      "<arg_value>",     "</arg_value>"};
    all.push_back(std::move(glm4_moe));
    all.push_back({.name = "command-r-plus",
                   .model = kByteLevel,
                   .pre = "command-r",
                   .first = {"<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>",
                             "<EOS_TOKEN>", "<EOP_TOKEN>"},
                   .last = {"<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>",
                            "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>"},
                   .bos = "<BOS_TOKEN>",
                   .eos = "<|END_OF_TURN_TOKEN|>",
                   .padding = "<PAD>",
                   .add_bos = true,
                   .chat_template = kCommandChat});
    // Command R7B.
    SynthTokenizer command_r = all.back();
    command_r.name = "command-r";
    command_r.last.insert(
        command_r.last.end(),
        {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
         "<|START_ACTION|>", "<|END_ACTION|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"});
    all.push_back(std::move(command_r));
    all.push_back({.name = "minimax-m2",
                   .model = kByteLevel,
                   .pre = "minimax-m2",
                   .last = {"]!p~[", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>",
                            "]~b]", "[e~[", "]!d~[", "]~!b["},
                   .spoken = {"<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"},
                   .bos = "]~!b[",
                   .eos = "[e~[",
                   .unknown = "]!d~[",
                   .chat_template = kMiniMaxChat});
    all.push_back(
        {.name = "llama4",
         .model = kByteLevel,
         .pre = "llama4",
         .last = {"<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>",
                  "<|fim_suffix|>", "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>",
                  "<|step|>", "<|image_start|>", "<|image_end|>", "<|image|>", "<|patch|>",
                  "<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"},
         .bos = "<|begin_of_text|>",
         .eos = "<|eot|>",
         .padding = "<|finetune_right_pad|>",
         .add_bos = true,
         .chat_template = kLlama4Chat});
    all.push_back(
        {.name = "gpt-oss",
         .model = kByteLevel,
         .pre = "gpt-4o",
         .last = {"<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>",
                  "<|start|>", "<|end|>", "<|message|>", "<|call|>", "<|endofprompt|>"},
         .bos = "<|startoftext|>",
         .eos = "<|return|>",
         .padding = "<|endoftext|>",
         .chat_template = kHarmonyChat});
}

void add_sentence_pieces(std::vector<SynthTokenizer>& all) {
    all.push_back({.name = "nemotron",
                   .model = "llama",
                   .first = {"<pad>", "<unk>", "<s>", "</s>"},
                   .last = {"<extra_id_0>", "<extra_id_1>", "<extra_id_2>"},
                   .bos = "<s>",
                   .eos = "</s>",
                   .unknown = "<unk>",
                   .padding = "<pad>",
                   .add_bos = true,
                   .add_space_prefix = true,
                   .chat_template = kNemotronChat});
    all.push_back({.name = "gemma2",
                   .model = "llama",
                   .first = {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>"},
                   .last = {"<start_of_turn>", "<end_of_turn>"},
                   .spoken = {"\n", "\n\n", "\n\n\n"},
                   .bos = "<bos>",
                   .eos = "<eos>",
                   .unknown = "<unk>",
                   .padding = "<pad>",
                   .add_bos = true,
                   .chat_template = kGemmaChat});
    SynthTokenizer gemma3 = all.back();
    gemma3.name = "gemma3";
    gemma3.last.insert(gemma3.last.end(), {"<start_of_image>", "<end_of_image>"});
    SynthTokenizer embedding = gemma3;
    embedding.name = "embeddinggemma";
    embedding.add_eos = true;
    embedding.chat_template = {};
    SynthTokenizer gemma4 = gemma3;
    gemma4.name = "gemma4";
    gemma4.model = kByMerges;
    gemma4.last = {"<|tool>",          "<tool|>",          "<|tool_call>", "<tool_call|>",
                   "<|tool_response>", "<tool_response|>", "<|\"|>",       "<|think|>",
                   "<|channel>",       "<channel|>",       "<|turn>",      "<turn|>",
                   "<|image>",         "<image|>"};
    // Line ends are tokens as they are, several of them together, too.
    gemma4.spoken = {};
    gemma4.mask = "<mask>";
    gemma4.chat_template = kGemma4Chat;
    for (SynthTokenizer* one : {&gemma3, &embedding, &gemma4}) all.push_back(std::move(*one));
}

// Encoders whose texts begin and end as those of RoBERTa and BERT.
void add_byte_level_encoders(std::vector<SynthTokenizer>& all) {
    all.push_back({.name = "jina-bert-v2-code",
                   .model = kByteLevel,
                   .pre = "jina-v2-code",
                   .first = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"},
                   .bos = "<s>",
                   .eos = "</s>",
                   .unknown = "<unk>",
                   .padding = "<pad>",
                   .mask = "<mask>",
                   .cls_and_sep = true,
                   .add_bos = true,
                   .add_eos = true});
    all.push_back({.name = "modern-bert",
                   .model = kByteLevel,
                   .pre = "modern-bert",
                   .first = {"<|padding|>", "<|endoftext|>"},
                   .last = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"},
                   .spoken = {"|||IP_ADDRESS|||", "|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||"},
                   .bos = "[CLS]",
                   .eos = "[SEP]",
                   .unknown = "[UNK]",
                   .padding = "[PAD]",
                   .mask = "[MASK]",
                   .cls_and_sep = true,
                   .add_bos = true,
                   .add_eos = true});
}

// The tokens, and what belongs to them.
struct Grown {
    std::vector<std::string> tokens;
    std::vector<std::int32_t> types;
    std::vector<float> scores;        // llama
    std::vector<std::string> merges;  // the others
};

// Control tokens; but where a byte may be unknown, the one that stands for it.
std::vector<SynthToken> first_tokens(const SynthTokenizer& tokenizer) {
    std::vector<SynthToken> tokens;
    for (const std::string_view text : tokenizer.first) {
        const bool unknown = tokenizer.model != kByteLevel && text == tokenizer.unknown;
        tokens.push_back({text, unknown ? synth_type::kUnknown : synth_type::kControl});
    }
    return tokens;
}

Grown grow_pieces(const SynthTokenizer& tokenizer, std::int32_t size, std::uint64_t seed) {
    SynthVocabulary made = make_synth_vocabulary(size, seed, first_tokens(tokenizer));
    return {std::move(made.tokens), std::move(made.types), std::move(made.scores), {}};
}

// Bytes have tokens of their own where the characters are not those of bytes.
Grown grow_merges(const SynthTokenizer& tokenizer, std::int32_t size, std::uint64_t seed) {
    Grown grown;
    const auto add = [&grown](std::string text, std::int32_t type) {
        grown.tokens.push_back(std::move(text));
        grown.types.push_back(type);
    };
    for (const SynthToken& token : first_tokens(tokenizer))
        add(std::string(token.text), token.type);
    const bool byte_level = tokenizer.model == kByteLevel;
    for (int byte = 0; byte < kSynthBytes && !byte_level; ++byte)
        add(fmt::format("<0x{:02X}>", byte), synth_type::kByte);
    const std::int32_t left = size - static_cast<std::int32_t>(grown.tokens.size());
    SynthMerges made =
        byte_level ? make_synth_byte_merges(left, seed) : make_synth_character_merges(left, seed);
    for (std::string& text : made.tokens) add(std::move(text), synth_type::kNormal);
    grown.merges = std::move(made.merges);
    return grown;
}

void set_roles(const SynthTokenizer& tokenizer, const std::vector<std::string>& tokens,
               GgufBuilder& metadata) {
    const std::string_view cls = tokenizer.cls_and_sep ? tokenizer.bos : std::string_view();
    const std::string_view sep = tokenizer.cls_and_sep ? tokenizer.eos : std::string_view();
    const std::pair<const char*, std::string_view> roles[] = {
        {"bos", tokenizer.bos},
        {"eos", tokenizer.eos},
        {"eot", tokenizer.eot},
        {"eom", tokenizer.eom},
        {"unknown", tokenizer.unknown},
        {"padding", tokenizer.padding},
        {"cls", cls},
        {"seperator", sep},  // so spelt in files
        {"mask", tokenizer.mask}};
    for (const auto& [role, text] : roles) {
        if (text.empty()) continue;
        const auto found = std::find(tokens.begin(), tokens.end(), text);
        CHECK(found != tokens.end());
        metadata.set(fmt::format("tokenizer.ggml.{}_token_id", role),
                     static_cast<std::uint32_t>(found - tokens.begin()));
    }
    metadata.set("tokenizer.ggml.add_bos_token", tokenizer.add_bos);
    metadata.set("tokenizer.ggml.add_eos_token", tokenizer.add_eos);
    if (tokenizer.model != kByteLevel)
        metadata.set("tokenizer.ggml.add_space_prefix", tokenizer.add_space_prefix);
}

}  // namespace

const std::vector<SynthTokenizer>& synth_tokenizers() {
    static const std::vector<SynthTokenizer> tokenizers = [] {
        std::vector<SynthTokenizer> all;
        add_byte_level(all);
        add_larger_byte_level(all);
        add_sentence_pieces(all);
        add_byte_level_encoders(all);
        return all;
    }();
    return tokenizers;
}

const SynthTokenizer* find_synth_tokenizer(std::string_view name) {
    for (const SynthTokenizer& tokenizer : synth_tokenizers()) {
        if (tokenizer.name == name) return &tokenizer;
    }
    return nullptr;
}

std::int32_t min_synth_vocabulary(const SynthTokenizer& tokenizer) {
    const std::size_t special =
        tokenizer.first.size() + tokenizer.last.size() + tokenizer.spoken.size();
    const std::int32_t characters = tokenizer.model == kByteLevel ? 0 : kSynthCharacters;
    return static_cast<std::int32_t>(special) + kSynthBytes + characters;
}

void set_synth_tokenizer(const SynthTokenizer& tokenizer, std::int32_t vocab, std::uint64_t seed,
                         GgufBuilder& metadata) {
    CHECK(vocab >= min_synth_vocabulary(tokenizer));
    const std::size_t behind = tokenizer.last.size() + tokenizer.spoken.size();
    const std::int32_t size = vocab - static_cast<std::int32_t>(behind);
    const bool by_scores = tokenizer.model == "llama";
    Grown grown =
        by_scores ? grow_pieces(tokenizer, size, seed) : grow_merges(tokenizer, size, seed);
    const auto add = [&](std::string_view text, std::int32_t type) {
        grown.tokens.emplace_back(text);
        grown.types.push_back(type);
        if (by_scores) grown.scores.push_back(0.0F);
    };
    for (const std::string_view text : tokenizer.last) add(text, synth_type::kControl);
    for (const std::string_view text : tokenizer.spoken) add(text, synth_type::kUserDefined);
    metadata.set("tokenizer.ggml.model", std::string(tokenizer.model));
    if (!tokenizer.pre.empty()) metadata.set("tokenizer.ggml.pre", std::string(tokenizer.pre));
    set_roles(tokenizer, grown.tokens, metadata);
    metadata.set("tokenizer.ggml.tokens", std::move(grown.tokens));
    metadata.set("tokenizer.ggml.token_type", std::move(grown.types));
    if (by_scores) metadata.set("tokenizer.ggml.scores", std::move(grown.scores));
    if (!by_scores) metadata.set("tokenizer.ggml.merges", std::move(grown.merges));
    if (!tokenizer.chat_template.empty())
        metadata.set("tokenizer.chat_template", std::string(tokenizer.chat_template));
}

}  // namespace helix::model
