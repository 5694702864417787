#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/grammar/call_arguments.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// How a call writes its arguments that has a tag around each. {} in a text is the parameter's name.
struct ArgumentTags {
    std::string text_open;           // before a string, which is written as it is
    std::string json_open;           // before any other value, which is JSON
    std::string close;               // behind either
    std::vector<std::string> never;  // what would end a value; each has a '<'
    bool keeps_line_ends = true;     // false: one at either end of a string would be lost
    std::vector<std::string> texts;  // the parameters that are strings
};

// The rules of a grammar for arguments with tags; those of equal values are made once.
class TaggedArguments {
  public:
    explicit TaggedArguments(Grammar& grammar) : grammar_(grammar) {}

    // The arguments that satisfy a schema of an object: its properties in their order, without
    // those that are not required as it may be, and no others. Error invalid for what tags cannot
    // hold to: it names the keyword or property, or is json_schema_grammar()'s.
    base::Result<Expr> of(const nlohmann::ordered_json& schema, const ArgumentTags& tags);

  private:
    base::Result<Expr> one(const CallArgument& argument, const nlohmann::ordered_json& root,
                           const ArgumentTags& tags);
    static base::Result<Grammar> value(const CallArgument& argument,
                                       const nlohmann::ordered_json& root, const ArgumentTags& tags,
                                       bool text);

    Grammar& grammar_;
    std::map<std::string, RuleIndex> values_;  // by their schemas
};

}  // namespace helix::text::grammar
