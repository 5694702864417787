#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// What calls have in common that write their arguments one by one, each in its own way.

namespace helix::text::grammar {

struct CallArgument {
    std::string name;
    const nlohmann::ordered_json* schema = nullptr;
    bool required = false;

    std::string place() const;  // of its schema
};

// The properties of a schema of an object, in their order. Error invalid names the keyword for a
// schema that says more than which there are and must be.
base::Result<std::vector<CallArgument>> call_arguments(const nlohmann::ordered_json& schema);

// Equal keys: the arguments' values have equal grammars.
std::string key_of(const CallArgument& argument, const nlohmann::ordered_json& document);

base::Error not_in_call(std::string_view what);

}  // namespace helix::text::grammar
