#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "text/grammar/call_arguments.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// The rules of a grammar for arguments in Python's notation, a=1, b="x"; those of equal values are
// made once.
class PythonArguments {
  public:
    explicit PythonArguments(Grammar& grammar) : grammar_(grammar) {}

    // The arguments that satisfy a schema of an object: its properties in their order, without
    // those that are not required as it may be, and no others. Error invalid for what such calls
    // cannot hold to: it names the keyword or property, or is schema_grammar()'s.
    base::Result<Expr> of(const nlohmann::ordered_json& schema);

  private:
    base::Result<Expr> one(const CallArgument& argument, const nlohmann::ordered_json& root);

    Grammar& grammar_;
    std::map<std::string, RuleIndex> values_;  // by their schemas
};

}  // namespace helix::text::grammar
