#include "cli/balance_option.h"

#include "spec/word_choice.h"

namespace helix::cli {

base::Result<bool> moves_as_llumnix(const std::string& balance, bool no_balance) {
    TRY(const bool as_llumnix,
        spec::choose_word<bool>("--balance", balance, {{"helix", false}, {"llumnix", true}}));
    if (as_llumnix && no_balance) {
        return base::invalid("--balance llumnix: --no-balance turns it off");
    }
    return as_llumnix;
}

}  // namespace helix::cli
