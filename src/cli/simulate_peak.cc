#include "cli/simulate_peak.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/progress.h"

namespace helix::cli {
namespace {

class PeakLine {
  public:
    void update(const sim::PeakProgress& progress) {
        if (progress.run != run_) {
            line_.reset();  // wipes it
            line_.emplace(progress.tokens_per_s > 0
                              ? fmt::format("searching the peak, run {}: {:.0f} tokens/s",
                                            progress.run, progress.tokens_per_s)
                              : std::string("searching the peak, offline"));
            run_ = progress.run;
        }
        constexpr std::uint64_t kParts = 1000;
        line_->update(static_cast<std::uint64_t>(progress.share_done * kParts), kParts);
    }

  private:
    std::int32_t run_ = 0;
    std::optional<ProgressLine> line_;
};

template <typename Setup>
base::Result<sim::Peak> search(const Setup& setup) {
    PeakLine line;
    return sim::find_peak(setup, [&](const sim::PeakProgress& p) { line.update(p); });
}

}  // namespace

base::Result<sim::Peak> search_peak(const sim::HelixSetup& setup) {
    return search(setup);
}

base::Result<sim::Peak> search_peak(const sim::ReferenceSetup& setup) {
    return search(setup);
}

std::string peak_json(const sim::Peak& peak) {
    const nlohmann::ordered_json json = {{"peak_tokens_per_s", peak.tokens_per_s},
                                         {"served_tokens_per_s", peak.served_tokens_per_s},
                                         {"runs", peak.runs}};
    return json.dump(1) + "\n";
}

std::string peak_text(const sim::Peak& peak) {
    return fmt::format(
        "peak                   {:.1f} tokens/s, prompts and outputs\n"
        "served at that rate    {:.1f} tokens/s\n"
        "runs                   {}\n",
        peak.tokens_per_s, peak.served_tokens_per_s, peak.runs);
}

}  // namespace helix::cli
