#include "lab/experiments/published.h"

#include <array>

namespace helix::lab {
namespace {

// Populations and rates are constants in the published scripts, chosen by hand.
const std::vector<PublishedMethod>& methods() {
    static const std::vector<PublishedMethod> all = {
        {"single24", k70b, "helix", {{"helix", 0, 700}}, {252.1}, {141.6, 2.64, 0.98}},
        {"single24", k70b, "swarm", {{"swarm", 180, 350}}, {124.7}, {69.8, 3.32, 1.04}},
        {"single24",
         k70b,
         "separate",
         {{"separate_a100", 18, 240, {{20, 491'900}}},
          {"separate_l4", 40, 120, {{10, 593'600}}},
          {"separate_t4", 3, 10, {{6, 216'960}, {7, 44'800}}}},
         {124.3},
         {84.0, 0.80, 0.22}},
        {"single24", k70b, "petals", {{"petals"}}, {191.1}, {}},
        {"single24",
         k30b,
         "helix",
         {{"helix_a100", 0, 600}, {"helix_l4", 0, 200}, {"helix_t4", 0, 170}},
         {339.6},
         {216.7, 0.43, 0.13}},
        {"single24", k30b, "swarm", {{"swarm", 50, 450}}, {151.6}, {104.9, 1.42, 0.26}},
        {"single24",
         k30b,
         "separate",
         {{"separate_a100", 30, 500}, {"separate_l4", 25, 150}, {"separate_t4", 25, 150}},
         {309.0},
         {189.8, 0.42, 0.11}},
        {"single24", k30b, "petals", {{"petals"}}, {}, {}},
        {"distributed24", k70b, "helix", {{"helix", 0, 320}}, {98.0}, {59.3, 5.79, 0.93}},
        {"distributed24", k70b, "swarm", {{"swarm", 180, 160}}, {51.9}, {31.0, 7.22, 1.23}},
        {"distributed24",
         k70b,
         "separate",
         {{"separate_a100", 1, 1}, {"separate_l4", 60, 120}, {"separate_t4", 50, 60}},
         {61.9},
         {33.6, 4.96, 1.20}},
        {"distributed24", k70b, "petals", {{"petals"}}, {66.6}, {}},
        {"distributed24",
         k30b,
         "helix",
         {{"helix_a100", 0, 560}, {"helix_l4", 0, 140}, {"helix_t4", 0, 140}},
         {232.7},
         {183.5, 0.51, 0.23}},
        {"distributed24", k30b, "swarm", {{"swarm", 60, 380}}, {98.7}, {82.1, 3.25, 0.48}},
        {"distributed24",
         k30b,
         "separate",
         {{"separate_a100", 35, 520}, {"separate_l4", 40, 100}, {"separate_t4", 40, 140}},
         {223.2},
         {173.8, 0.50, 0.23}},
        {"distributed24", k30b, "petals", {{"petals"}}, {}, {}},
        {"highhet42", k70b, "helix", {{"helix", 0, 2150}}, {645.6}, {459.8, 2.09, 0.73}},
        {"highhet42", k70b, "swarm", {{"swarm", 500, 1450}}, {473.2}, {309.6, 2.70, 0.77}},
        {"highhet42",
         k70b,
         "separate",
         {{"separate_a100", 1, 1},
          {"separate_l4", 60, 140},
          {"separate_l4x2", 35, 160},
          {"separate_t4x4", 110, 350}},
         {219.3},
         {140.2, 2.21, 0.47}},
        {"highhet42",
         k70b,
         "separate-plus",
         {{"separate_a100", 1, 1},
          {"separate_l4", 60, 140},
          {"separate_l4x2", 35, 160},
          {"separate_t4x4", 110, 350},
          {"separate_v100_t4", 90, 200}},
         {285.1},
         {181.3, 2.22, 0.57}},
        {"highhet42", k70b, "petals", {{"petals"}}, {}, {}},
    };
    return all;
}

}  // namespace

std::span<const PublishedMethod> published_methods() {
    return methods();
}

const PublishedMethod* find_published(std::string_view cluster, std::string_view model,
                                      std::string_view method) {
    for (const PublishedMethod& known : methods()) {
        if (known.cluster == cluster && known.model == model && known.method == method) {
            return &known;
        }
    }
    return nullptr;
}

double published_depth(std::string_view cluster) {
    if (cluster == "single24") return 16.05;
    if (cluster == "distributed24") return 12.73;
    return cluster == "highhet42" ? 15.53 : 0;
}

std::span<const MeasuredSystem> measured_systems() {
    // 338 and 167 prompts came back in the 270 s that count.
    static const std::array<MeasuredSystem, 6> all = {{
        {k70b, "helix", {223.4, 3.147, 1.750}, {148.3, 2.660, 2.020}, {}, 338 / 270.0},
        {k70b, "swarm", {111.7, 3.060, 1.598}, {81.1, 3.022, 1.639}, {}, 167 / 270.0},
        {k70b, "separate", {110.0, 0, 0}, {80.1, 1.119, 0.401}, {18, 40, 2}, 0},
        {k30b, "helix", {321.2, 0, 0}, {198.0, 0.740, 0.231}, {}, 0},
        {k30b, "swarm", {142.9, 1.237, 0.345}, {102.3, 1.243, 0.309}, {}, 0},
        {k30b, "separate", {295.1, 0, 0}, {173.1, 0.719, 0.209}, {30, 30, 30}, 0},
    }};
    return all;
}

const char* method_title(std::string_view method) {
    if (method == "helix") return "Helix";
    if (method == "swarm") return "Swarm";
    if (method == "separate") return "SP";
    if (method == "separate-plus") return "SP+";
    if (method == "petals") return "Petals";
    return "our plan";
}

const char* model_title(std::string_view model) {
    return model == k70b ? "LLaMA 70B" : model == k30b ? "LLaMA 30B" : "";
}

}  // namespace helix::lab
