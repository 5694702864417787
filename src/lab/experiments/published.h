#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What was published of Helix (ASPLOS'25): figures that experiments are shown beside, and the loads
// they were made under. Sources: the paper (arXiv:2406.01566) and the README of its artifact
// (Thesys-lab/Helix-ASPLOS25, artifact_evaluation/ae_readme.md, Apache-2.0).

namespace helix::lab {

// The models of the published runs, as data/paper names them.
inline constexpr const char* k70b = "llama2-70b";
inline constexpr const char* k30b = "llama1-30b";

// One separate cluster of a method; most methods have one.
struct PublishedPart {
    const char* layout;              // last part of the layout file's name: "separate_a100"
    std::int32_t population = 0;     // offline, constant; 0: fed as the KV estimate has room
    double online_tokens_per_s = 0;  // prompt and output tokens offered; 0: was not run online
    // KV memory of a machine with so many layers, in tokens x layers, where the published file has
    // more layers than were measured and gives it by hand.
    std::map<std::int32_t, std::int64_t> kv_token_layers = {};
};

struct PublishedRun {
    double decode_tokens_per_s = 0;  // 0: not published
    double ttft_p50_s = 0;           // 0: not published
    double tpot_p50_s = 0;
};

// A method on a cluster under the published simulator.
struct PublishedMethod {
    const char* cluster;
    const char* model;
    const char* method;  // helix, swarm, separate, separate-plus, petals
    std::vector<PublishedPart> parts;
    PublishedRun offline;
    PublishedRun online;
};
// In the order of the tables. Null: not known.
std::span<const PublishedMethod> published_methods();
const PublishedMethod* find_published(std::string_view cluster, std::string_view model,
                                      std::string_view method);

// Mean stages of a request in the published Helix layout of LLaMA 70B; 0: not known.
double published_depth(std::string_view cluster);

// The real system on 24 machines (single24), the first 60 s of 300 s left out.
struct MeasuredSystem {
    const char* model;
    const char* method;
    struct Load {
        double decode_tokens_per_s = 0;
        double ttft_mean_s = 0;  // 0: not published
        double tpot_mean_s = 0;
    };
    Load offline;
    Load online;
    // The load, which the scripts that are public do not have in these places. Offline: requests in
    // each part, by Little's law (tok/s x TPOT + prompts/s x TTFT); empty: as in the published
    // simulation. Online: prompts/s that its logs show; 0: the published rates.
    std::vector<std::int32_t> populations = {};
    double online_prompts_per_s = 0;
};
std::span<const MeasuredSystem> measured_systems();

const char* method_title(std::string_view method);
const char* model_title(std::string_view model);

}  // namespace helix::lab
