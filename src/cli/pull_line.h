#pragma once

#include <chrono>
#include <string>

#include "cli/access_option.h"
#include "cli/progress.h"
#include "hub/pull.h"
#include "hub/rate.h"

namespace helix::cli {

// Shows a pull on standard error: how much is there, the rate, the time left; and why it waits.
class PullLine {
  public:
    explicit PullLine(const std::string& what) : line_("pulling " + what) {}
    void update(const hub::PullProgress& progress);
    void note(base::Duration pause, const std::string& why);

  private:
    ProgressLine line_;
    hub::RateMeter rate_;
    std::string noted_;
};

// By the environment's settings; token_file "": the token is where they say. keys are for another
// Helix. line must live as long as the options.
base::Result<hub::PullOptions> pull_options(PullLine& line, const std::string& token_file = {},
                                            const CallerKeys& keys = {});

// Puts the path of a model on this machine in the place of a hub's name or an address; pulls it
// when it is not there yet. A path that is there wins, and what can only be a path or another name
// stays.
base::Status resolve_model(std::string& model);

}  // namespace helix::cli
