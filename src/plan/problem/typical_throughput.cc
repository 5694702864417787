#include "plan/problem/typical_throughput.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::plan {
namespace {

using Machine = spec::ProfileTables::Machine;

constexpr double kPromptTokens = 750;
constexpr double kOutputTokens = 240;
constexpr double kKvShare = 0.3;  // of the KV memory that is in use on average
constexpr int kIterations = 10;

// What the rule takes as given for a type.
struct Typical {
    std::int32_t layers = 0;
    std::int32_t layers_if_few = 0;  // when the whole mix would hardly hold the model
    double start_speed = 0;          // layers/s in any unit; the iteration forgets it
};

using TypicalByType = std::map<std::string, Typical>;

const TypicalByType* published_constants(const std::string& model) {
    static const TypicalByType kLlama2_70b = {
        {"A100", {8, 12, 80}}, {"V100", {3, 4, 40}}, {"L4", {4, 7, 20}},    {"L4x2", {9, 14, 30}},
        {"T4", {3, 4, 12.5}},  {"T4x2", {6, 9, 20}}, {"T4x4", {12, 18, 30}}};
    static const TypicalByType kLlama1_30b = {{"A100", {12, 18, 48}}, {"V100", {4, 7, 25}},
                                              {"L4", {8, 11, 9}},     {"L4x2", {14, 22, 15}},
                                              {"T4", {4, 7, 8}},      {"T4x2", {10, 15, 15}},
                                              {"T4x4", {20, 30, 23}}};
    if (model == "llama2-70b") return &kLlama2_70b;
    if (model == "llama1-30b") return &kLlama1_30b;
    return nullptr;
}

Typical typical_of(const std::string& model, const std::string& type, const Machine& machine) {
    if (const TypicalByType* published = published_constants(model)) {
        const auto found = published->find(type);
        if (found != published->end()) return found->second;
    }
    const double batch = 10;
    return {std::max(1, static_cast<std::int32_t>(std::lround(machine.max_layers * 2 / 3.0))),
            machine.max_layers, 1 / std::max(machine.decode_s.at(batch), 1e-9)};
}

// std::nearbyint in the default mode is Python's round: half to even.
double python_round(double x) {
    return std::nearbyint(x);
}

class Rule {
  public:
    Rule(const spec::ProfileTables& tables, const MachineCounts& mix)
        : tables_(tables), n_layers_(tables.model().n_layers) {
        double typically_held = 0;
        for (const auto& [type, count] : mix) {
            const Machine& machine = tables.machines().at(type);
            const Typical typical = typical_of(tables.model().name, type, machine);
            members_.push_back({type, &machine, count, typical.layers, typical.start_speed});
            typically_held += static_cast<double>(count) * typical.layers;
        }
        const bool few = typically_held < 1.2 * n_layers_;
        for (Member& member : members_) {
            if (few) {
                member.layers =
                    typical_of(tables.model().name, member.type, *member.machine).layers_if_few;
            }
            member.layers = std::clamp(member.layers, 1, member.machine->max_layers);
        }
    }

    base::Result<spec::TypeThroughput> run() {
        for (int i = 0; i < kIterations; ++i) {
            std::vector<double> speeds;
            for (const Member& member : members_) {
                TRY(const double tokens_per_s, throughput(member, member.layers));
                speeds.push_back(tokens_per_s * member.layers);
            }
            for (std::size_t k = 0; k < members_.size(); ++k) members_[k].speed = speeds[k];
        }
        spec::TypeThroughput result;
        for (const Member& member : members_) {
            std::vector<double>& by_layers = result[member.type];
            by_layers.push_back(0);
            for (std::int32_t j = 1; j <= std::min(member.machine->max_layers, n_layers_); ++j) {
                TRY(const double tokens_per_s, throughput(member, j));
                by_layers.push_back(tokens_per_s);
            }
        }
        return result;
    }

  private:
    struct Member {
        std::string type;
        const Machine* machine = nullptr;
        std::int32_t count = 0;
        std::int32_t layers = 0;
        double speed = 0;  // perf: layers/s
    };

    // The mean time of a layer, over the layers that the mix typically holds.
    double mean_layer_time() const {
        double time = 0;
        double layers = 0;
        for (const Member& member : members_) {
            const double held = static_cast<double>(member.count) * member.layers;
            time += held / member.speed;
            layers += held;
        }
        return time / layers;
    }

    base::Result<double> throughput(const Member& member, std::int32_t j) const {
        const double own = j / member.speed;
        const double share = own / ((n_layers_ - j) * mean_layer_time() + own);
        const double kv_tokens =
            member.machine->held[static_cast<std::size_t>(j)].kv_tokens_per_layer;
        const double in_use = std::trunc(kKvShare * (kv_tokens * j) / j);
        const double sequences = in_use / (kPromptTokens + kOutputTokens) * share;
        double prompts = sequences / kOutputTokens;
        double prompt_tokens = python_round(prompts * kPromptTokens);
        double decode_tokens = python_round(sequences);
        if (prompts > 1) {
            prompts = 1;
            prompt_tokens = kPromptTokens;
            decode_tokens = kOutputTokens;
        }
        const double rounds = prompts < 1 ? 1 / prompts : 1;
        const double seconds = member.machine->prompt_s.at(std::trunc(prompt_tokens * rounds)) +
                               rounds * member.machine->decode_s.at(decode_tokens);
        const double tokens_per_s = rounds * (prompt_tokens + decode_tokens) / (j * seconds);
        if (!std::isfinite(tokens_per_s) || tokens_per_s <= 0) {
            return base::invalid(fmt::format(
                "the paper's rule gives no throughput for {} with {} layers of {} in this mix: its "
                "typical batch rounds to {} prompt and {} decode tokens",
                member.type, j, tables_.model().name, prompt_tokens, decode_tokens));
        }
        return tokens_per_s;
    }

    const spec::ProfileTables& tables_;
    std::int32_t n_layers_ = 0;
    std::vector<Member> members_;
};

}  // namespace

MachineCounts machine_counts(const spec::ClusterSpec& cluster) {
    MachineCounts counts;
    for (const spec::NodeSpec& node : cluster.nodes) ++counts[node.type];
    return counts;
}

base::Result<MachineCounts> read_machine_mix(const std::string& directory,
                                             const std::string& name) {
    const std::string path = directory + "/machine_mixes.json";
    TRY(const std::string text, spec::read_text_file(path));
    TRY(const nlohmann::json document, spec::parse_json(text, path));
    const spec::JsonPlace root(document, path);
    TRY_VOID(root.expect_object());
    if (!root.has(name.c_str())) {
        std::vector<std::string> known;
        for (const auto& [mix, unused] : document.items()) known.push_back(mix);
        return base::Error{base::Errc::not_found,
                           fmt::format("{}: has no machine mix \"{}\"; known: {}", path, name,
                                       fmt::join(known, ", "))};
    }
    const spec::JsonPlace mix = root.child(name);
    TRY_VOID(mix.expect_object());
    MachineCounts counts;
    for (const auto& [type, unused] : mix.value().items()) {
        const spec::JsonPlace place = mix.child(type);
        TRY(const std::int64_t count, place.integer());
        if (count < 0 || count > 1'000'000) return place.error("a number of machines");
        if (count > 0) counts[type] = static_cast<std::int32_t>(count);
    }
    return counts;
}

base::Result<spec::TypeThroughput> typical_throughput(const spec::ProfileTables& tables,
                                                      const MachineCounts& mix) {
    if (mix.empty()) return base::invalid("the machine mix is empty");
    for (const auto& [type, count] : mix) {
        if (count <= 0) {
            return base::invalid(fmt::format(
                "the machine mix has {} machines of type {}; expected at least 1", count, type));
        }
        if (tables.machines().contains(type)) continue;
        std::vector<std::string> known;
        for (const auto& [name, unused] : tables.machines()) known.push_back(name);
        return base::invalid(
            fmt::format("there are no measured tables for type \"{}\" with {}; known: {}", type,
                        tables.model().name, fmt::join(known, ", ")));
    }
    return Rule(tables, mix).run();
}

}  // namespace helix::plan
