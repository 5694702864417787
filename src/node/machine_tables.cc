#include "node/machine_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/ops/kv_layout.h"
#include "engine/ops/kv_type.h"
#include "model/gguf.h"
#include "spec/units.h"

namespace helix::node {
namespace {

// So many bytes of weights are measured together: more than caches hold, so that each batch reads
// them from memory, as a worker with many layers does.
constexpr std::int64_t kMeasuredBytes = std::int64_t{256} << 20U;
// Of the machine's memory, for the contexts that are decoded.
constexpr std::int64_t kPageShare = 4;
// What stays free for KV beside layers, unless one whole context needs less (plan::MemoryRule).
constexpr double kKvReserve = 0.2;
// A spread above this makes a table that another run would not repeat.
constexpr double kNoisy = 0.15;

std::string as_file_name(std::string name) {
    for (char& c : name) {
        if (std::string_view(" /,:+\"\\").find(c) != std::string_view::npos) c = '-';
    }
    return name;
}

// A few middle layers: without embedding and head where the model allows it.
spec::LayerRange measured_layers(const spec::ModelSpec& spec) {
    const std::int32_t begin = spec::typical_layer(spec);
    const std::int32_t most = (spec.n_layers > 2 ? spec.n_layers - 1 : spec.n_layers) - begin;
    const std::int64_t wanted = kMeasuredBytes / std::max<std::int64_t>(spec.layer_bytes, 1);
    const auto count = static_cast<std::int32_t>(std::clamp<std::int64_t>(wanted, 1, most));
    return {begin, begin + count};
}

// What fits beside j layers, by the planner's rule for a machine of its own.
std::vector<spec::MeasuredTables::Limit> table_limits(const TableSubject& s,
                                                      const MachineProfile& profile) {
    std::vector<spec::MeasuredTables::Limit> limits;
    const std::int64_t kv_token_bytes = s.page_bytes / s.request.block_size;
    for (std::int32_t j = 1; j <= s.spec.n_layers; ++j) {
        std::int64_t left =
            s.memory_bytes - s.spec.common_bytes -
            static_cast<std::int64_t>(s.packed_share *
                                      static_cast<double>(spec::most_stored_bytes(s.spec, j)));
        if (j == s.spec.n_layers) left -= s.spec.embedding_bytes + s.spec.head_bytes;
        const std::int64_t kv_layers = spec::most_kv_layers(s.spec, j);
        const double one_context = spec::kept_tokens(s.spec, s.spec.context_length) *
                                   static_cast<double>(kv_token_bytes * kv_layers);
        const double reserve =
            std::min(kKvReserve * static_cast<double>(s.memory_bytes), one_context);
        if (static_cast<double>(left) < reserve || left < kv_layers * s.page_bytes) break;
        spec::MeasuredTables::Limit limit;
        limit.kv_tokens_per_layer = left / s.page_bytes / kv_layers * s.request.block_size;
        limit.prompt_max_tokens = profile.prompt.back().tokens;
        limit.prompt_max_requests = std::max(1, limit.prompt_max_tokens / s.request.context);
        limit.decode_max_tokens = profile.decode.back().tokens;
        limit.decode_max_context = std::int64_t{limit.decode_max_tokens} * s.request.context;
        limits.push_back(limit);
    }
    return limits;
}

spec::MeasuredTables::Curve curve_of(const std::vector<ProfilePoint>& points) {
    spec::MeasuredTables::Curve curve;
    for (const ProfilePoint& point : points) {
        curve.emplace_back(point.tokens, point.seconds);
    }
    return curve;
}

std::string points_text(const char* title, const char* unit,
                        const std::vector<ProfilePoint>& points) {
    std::string text = fmt::format("\n{}\n{:>10}{:>14}{:>14}{:>10}{:>7}\n", title, unit,
                                   "one layer", "per token", "spread", "runs");
    for (const ProfilePoint& p : points) {
        text += fmt::format("{:>10}{:>14}{:>14}{:>8.1f} %{:>7}{}\n", p.tokens,
                            spec::format_duration(p.seconds),
                            spec::format_duration(p.seconds / p.tokens), p.spread * 100, p.runs,
                            p.spread > kNoisy ? "  noisy" : "");
    }
    return text;
}

std::string context_text(const MachineProfile& profile) {
    if (profile.context.empty()) return "\nhow context slows decodes: no time was left for that\n";
    std::string text =
        fmt::format("\n{} sequences decode, by the context of each: ", profile.context_sequences);
    for (std::size_t i = 0; i < profile.context.size(); ++i) {
        const ProfilePoint& p = profile.context[i];
        text += fmt::format("{}{} after {} tokens", i == 0 ? "" : ", ",
                            spec::format_duration(p.seconds), p.tokens);
    }
    return text + "\n";
}

nlohmann::ordered_json points_json(const std::vector<ProfilePoint>& points) {
    auto list = nlohmann::ordered_json::array();
    for (const ProfilePoint& p : points) {
        list.push_back(
            {{"tokens", p.tokens}, {"layer_s", p.seconds}, {"spread", p.spread}, {"runs", p.runs}});
    }
    return list;
}

}  // namespace

base::Result<TableSubject> prepare_tables(TableQuestion a) {
    TableSubject s;
    s.type = as_file_name(a.type);
    TRY(std::shared_ptr<model::WeightSource> source, model::open_weights(a.model, a.weights));
    TRY(s.config, model::read_model_config(*source));
    TRY_VOID(a.backend->check(s.config, a.threads));
    TRY(s.spec, model::read_model_spec(source->file()));
    s.spec.name = as_file_name(a.name.empty() ? model::model_name(source->file()) : a.name);
    const std::int64_t offered_bytes = a.backend->memory().offered_bytes;
    s.memory_bytes = a.memory_bytes > 0 ? a.memory_bytes : offered_bytes;
    TRY(const engine::ops::KvType kv_type, engine::ops::parse_kv_type(a.kv_type));
    s.page_bytes = engine::ops::kv_page_of(s.config, kv_type, a.request.block_size).page_bytes();
    s.request = a.request;
    s.request.layers = measured_layers(s.spec);
    const std::int64_t pages =
        std::min(pages_to_profile(s.request), s.memory_bytes / kPageShare / s.page_bytes);
    engine::BackendRequest request;
    request.model = s.spec;
    request.hidden_size = s.config.hidden;
    request.vocab_size = s.config.vocab;
    request.block_size = a.request.block_size;
    request.kv_type = a.kv_type;
    request.threads = a.threads;
    // Packed weights may be larger than stored ones. What is not used takes no memory of a CPU; of
    // another device it is no more than a worker would take.
    request.memory_bytes = 8 * s.spec.layer_bytes * s.request.layers.size() +
                           8 * (s.spec.common_bytes + s.spec.embedding_bytes + s.spec.head_bytes) +
                           pages * s.page_bytes;
    if (a.backend->name() != "cpu")
        request.memory_bytes = std::min(request.memory_bytes, offered_bytes);
    request.weights = [source]() -> base::Result<std::shared_ptr<model::WeightSource>> {
        return source;
    };
    TRY(s.backend, a.backend->make(request));
    TRY(const std::int64_t total, s.backend->load(s.request.layers));
    s.request.pages = std::min(total, pages);
    s.packed_share = static_cast<double>(request.memory_bytes - total * s.page_bytes) /
                     static_cast<double>(spec::stored_bytes(s.spec, s.request.layers));
    return s;
}

base::Result<MachineTables> measure_tables(TableSubject& s,
                                           std::function<void(double share)> on_progress) {
    s.request.on_progress = std::move(on_progress);
    MachineTables measured;
    TRY(measured.profile, profile_machine(*s.backend, s.request));
    spec::MeasuredTables& tables = measured.tables;
    tables.model = s.spec;
    tables.type = s.type;
    tables.block_size = s.request.block_size;
    tables.prompt_s = curve_of(measured.profile.prompt);
    tables.decode_s = curve_of(measured.profile.decode);
    tables.limits = table_limits(s, measured.profile);
    if (tables.limits.empty()) {
        return base::Error{base::Errc::unavailable,
                           fmt::format("{} of memory cannot hold one layer of {} and its KV",
                                       spec::format_bytes(s.memory_bytes), s.spec.name)};
    }
    return measured;
}

std::string tables_json(const TableSubject& s, const MachineTables& measured,
                        const std::string& output) {
    nlohmann::ordered_json json = {
        {"model", s.spec.name},
        {"type", measured.tables.type},
        {"output", output},
        {"layers_measured", {s.request.layers.begin, s.request.layers.end}},
        {"context", s.request.context},
        {"memory_bytes", s.memory_bytes},
        {"max_layers", measured.tables.limits.size()},
        {"kv_tokens_per_layer", measured.tables.limits.back().kv_tokens_per_layer},
        {"prompt", points_json(measured.profile.prompt)},
        {"decode", points_json(measured.profile.decode)},
        {"context_sequences", measured.profile.context_sequences},
        {"decode_by_context", points_json(measured.profile.context)}};
    return json.dump(1) + "\n";
}

std::string tables_text(const TableSubject& s, const MachineTables& measured,
                        const std::string& output) {
    std::string text =
        fmt::format("{} on {}, measured over layers {}-{}\n", s.spec.name, measured.tables.type,
                    s.request.layers.begin, s.request.layers.end - 1);
    text += points_text("prompts", "tokens", measured.profile.prompt);
    text += points_text(
        fmt::format("decoding, each sequence after {} tokens of context", s.request.context)
            .c_str(),
        "sequences", measured.profile.decode);
    text += context_text(measured.profile);
    text += fmt::format("\nup to {} of {} layers in {}; beside {} there is KV for {} tokens\n",
                        measured.tables.limits.size(), s.spec.n_layers,
                        spec::format_bytes(s.memory_bytes), measured.tables.limits.size(),
                        measured.tables.limits.back().kv_tokens_per_layer);
    return text + fmt::format("written to {}: use it with --profiles {} --profile {} --type {}\n",
                              output, output, s.spec.name, measured.tables.type);
}

}  // namespace helix::node
