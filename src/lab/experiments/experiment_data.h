#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/load/load.h"

namespace helix::lab {

// What experiments are made from: the folder of published inputs (clusters/, profiles/, layouts/,
// replay/, traces/), or the same clusters with speeds from datasheets and made-up conversations.
class ExperimentData {
  public:
    static constexpr const char* kMadeUp = "made-up";
    // The project's own data/paper, beside this program or above it; nothing where it was moved.
    static std::optional<std::string> project_folder();

    // directory: the published inputs; kMadeUp: writes clusters/ and profiles/ into `made_up_in`.
    static base::Result<ExperimentData> open(const std::string& directory,
                                             const std::string& made_up_in);

    bool made_up() const { return made_up_; }
    std::string cluster_file(std::string_view cluster) const;
    std::string profiles() const { return directory_ + "/profiles"; }
    // The published run's own inputs where they are kept, else its layout, else nothing.
    // part: "helix", "separate_a100".
    std::optional<std::string> layout_file(std::string_view cluster, std::string_view model,
                                           std::string_view part) const;
    // Of a layout by its file's stem: "ablation_no_prune_24".
    std::optional<std::string> layout_file(std::string_view stem) const;
    const sim::LengthSource& lengths() const { return lengths_; }
    // Arrivals as the paper has them, or Poisson ones where no counts are given.
    sim::OnlineLoad online(double tokens_per_s) const;

  private:
    std::string directory_;
    bool made_up_ = false;
    sim::LengthSource lengths_;
    std::vector<double> counts_per_3s_;
};

}  // namespace helix::lab
