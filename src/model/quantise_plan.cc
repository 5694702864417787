#include "model/quantise_plan.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "model/file_type.h"
#include "model/model_config.h"
#include "model/quant/searched.h"

namespace helix::model {
namespace {

constexpr std::string_view kHead = "output.weight";
constexpr std::string_view kEmbedding = "token_embd.weight";

constexpr TensorType kQuantisable[] = {
    TensorType::f32,   TensorType::f16,    TensorType::bf16,   TensorType::q8_0,
    TensorType::q4_0,  TensorType::q4_1,   TensorType::q5_0,   TensorType::q5_1,
    TensorType::q2_k,  TensorType::q3_k,   TensorType::q4_k,   TensorType::q5_k,
    TensorType::q6_k,  TensorType::iq4_nl, TensorType::iq4_xs, TensorType::iq3_xxs,
    TensorType::iq3_s, TensorType::iq2_s,  TensorType::iq2_xs, TensorType::iq2_xxs};

// Most matrices get `base`; those of which everything passes through, `better`: the values of
// attention, and what the feed-forward adds to the residuals; the head, or the embedding that is
// one, `head`. docs/quantize.md says it in words.
struct Mix {
    std::string_view name;
    std::uint32_t file_type;  // llama.cpp's number
    TensorType base;
    TensorType better;
    TensorType head;
};
constexpr Mix kMixes[] = {
    {"q2_k_m", 10, TensorType::q2_k, TensorType::q3_k, TensorType::q6_k},
    {"q3_k_m", 12, TensorType::q3_k, TensorType::q4_k, TensorType::q6_k},
    {"q4_k_m", 15, TensorType::q4_k, TensorType::q5_k, TensorType::q6_k},
    {"q5_k_m", 17, TensorType::q5_k, TensorType::q6_k, TensorType::q6_k},
};

std::string lower_case(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

base::Result<TensorType> quantised_type(const std::string& name) {
    const TensorType* type = tensor_type_by_name(lower_case(name));
    if (type == nullptr) {
        return base::invalid(
            fmt::format("type \"{}\" is unknown; known: {}", name, quantise_types()));
    }
    if (std::find(std::begin(kQuantisable), std::end(kQuantisable), *type) ==
        std::end(kQuantisable)) {
        return base::invalid(
            fmt::format("type {}: there is no search for its scales, so nothing is "
                        "quantised to it; known: {}",
                        name, quantise_types()));
    }
    return *type;
}

// * stands for any characters, also none.
bool fits_pattern(std::string_view pattern, std::string_view name) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return pattern == name;
    if (!name.starts_with(pattern.substr(0, star))) return false;
    const std::string_view rest = pattern.substr(star + 1);
    for (std::size_t at = star; at <= name.size(); ++at) {
        if (fits_pattern(rest, name.substr(at))) return true;
    }
    return false;
}

bool is_multiplied(const TensorInfo& info) {
    return !is_vector(info.name, info.shape.size()) &&
           info.name.find("ffn_gate_inp") == std::string::npos;
}

bool is_float(TensorType type) {
    return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

bool has_whole_blocks(const TensorInfo& info, TensorType type) {
    return info.row_length() % tensor_type_info(type)->block_size == 0;
}

// The type with as many bits or a few more in shorter blocks.
TensorType shorter_blocks(TensorType type) {
    switch (type) {
        case TensorType::q6_k:
            return TensorType::q8_0;
        case TensorType::q5_k:
            return TensorType::q5_1;
        case TensorType::q4_k:
            return TensorType::q5_0;
        default:
            return TensorType::iq4_nl;
    }
}

struct Rule {
    std::string pattern;
    TensorType type;
    bool used = false;
};

class Planner {
  public:
    Planner(const GgufFile& file, const QuantiseOptions& options)
        : file_(file), options_(options) {}

    base::Result<QuantisePlan> plan() {
        TRY_VOID(read_options());
        for (const TensorInfo& info : file_.tensors()) {
            TRY(PlannedTensor planned, plan_tensor(info));
            const TensorTypeInfo& type = *tensor_type_info(planned.to);
            planned.bytes = static_cast<std::uint64_t>(info.row_length() / type.block_size *
                                                       type.block_bytes * info.rows());
            plan_.bytes_before += info.bytes;
            plan_.bytes += planned.bytes;
            plan_.tensors.push_back(std::move(planned));
        }
        for (const Rule& rule : rules_) {
            if (!rule.used) {
                return base::invalid(
                    fmt::format("{}: no matrix is called \"{}\"", file_.label(), rule.pattern));
            }
        }
        return std::move(plan_);
    }

  private:
    base::Status read_options() {
        plan_.type = lower_case(options_.type);
        const auto mix = std::find_if(std::begin(kMixes), std::end(kMixes),
                                      [&](const Mix& m) { return m.name == plan_.type; });
        if (mix != std::end(kMixes)) {
            mix_ = &*mix;
            base_ = mix->base;
            plan_.file_type = mix->file_type;
        } else {
            TRY(base_, quantised_type(options_.type));
            plan_.file_type = file_type(base_);
        }
        if (!options_.output_type.empty()) {
            TRY(head_, quantised_type(options_.output_type));
        }
        if (!options_.embedding_type.empty()) {
            TRY(embedding_, quantised_type(options_.embedding_type));
        }
        for (const TensorRule& rule : options_.rules) {
            TRY(const TensorType type, quantised_type(rule.type));
            rules_.push_back({rule.pattern, type});
        }
        return base::Ok{};
    }

    Rule* rule_for(std::string_view name) {
        Rule* found = nullptr;
        for (Rule& rule : rules_) {
            if (!fits_pattern(rule.pattern, name)) continue;
            rule.used = true;
            found = &rule;
        }
        return found;
    }

    bool is_head(std::string_view name) const {
        return name == kHead || (name == kEmbedding && file_.find_tensor(kHead) == nullptr);
    }

    TensorType wanted(std::string_view name) const {
        if (is_head(name) && head_) return *head_;
        if ((name == kEmbedding || name == kLayerInputTable) && embedding_) return *embedding_;
        if (mix_ == nullptr) return base_;
        if (is_head(name)) return mix_->head;
        const bool passes_all = name.find(".attn_v.") != std::string_view::npos ||
                                name.find(".ffn_down") != std::string_view::npos;
        return passes_all ? mix_->better : mix_->base;
    }

    base::Result<PlannedTensor> plan_tensor(const TensorInfo& info) {
        PlannedTensor planned{info, info.type, {}, 0};
        if (!is_multiplied(info)) return planned;
        const auto wrong = [&](const std::string& text) {
            return base::invalid(fmt::format("{}: tensor {}: {}", file_.label(), info.name, text));
        };
        const Rule* rule = rule_for(info.name);
        planned.to = rule != nullptr ? rule->type : wanted(info.name);
        if (!has_whole_blocks(info, planned.to)) {
            const TensorTypeInfo& type = *tensor_type_info(planned.to);
            if (rule != nullptr) {
                return wrong(fmt::format("rows of {} elements, {} needs a multiple of {}",
                                         info.row_length(), type.name, type.block_size));
            }
            planned.asked = planned.to;
            planned.to = shorter_blocks(planned.to);
            if (!has_whole_blocks(info, planned.to)) planned.to = TensorType::f16;
        }
        if (!planned.changes() || is_float(info.type)) return planned;
        const char* is = tensor_type_info(info.type)->name;
        if (!factor_tensor(info.type, info.name).empty()) {
            return wrong(fmt::format("is {}, whose factors no other type has", is));
        }
        if (!options_.allow_requantise) {
            return wrong(
                fmt::format("is {} already; quantising once more loses more than from "
                            "floats: --allow-requantize does it",
                            is));
        }
        return planned;
    }

    const GgufFile& file_;
    const QuantiseOptions& options_;
    QuantisePlan plan_;
    const Mix* mix_ = nullptr;
    TensorType base_ = TensorType::f32;
    std::optional<TensorType> head_, embedding_;
    std::vector<Rule> rules_;
};

}  // namespace

base::Result<QuantisePlan> plan_quantise(const GgufFile& file, const QuantiseOptions& options) {
    return Planner(file, options).plan();
}

std::string quantise_types() {
    std::string names;
    for (const TensorType type : kQuantisable) {
        names += (names.empty() ? "" : ", ") + std::string(tensor_type_info(type)->name);
    }
    for (const Mix& mix : kMixes) names += ", " + std::string(mix.name);
    return names;
}

}  // namespace helix::model
