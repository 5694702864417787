#pragma once

#include <string>

#include "base/result.h"
#include "hub/download.h"
#include "hub/http_rules.h"

namespace helix::hub {

// An answer that is read whole.
struct SmallAnswer {
    HttpHead head;
    std::string body;     // of an answer that is no refusal
    std::string address;  // that was asked
};

// Asks for what is short, and again while that may help. token "": none. Errors: there was no
// answer, or none that is worth another try.
base::Result<SmallAnswer> ask_small(const World& world, const std::string& address,
                                    const std::string& token, bool head_only);

}  // namespace helix::hub
