#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/grammar/notation.h"

namespace helix::text::grammar {

// The JSON texts that satisfy a schema, as a grammar. What it generates always satisfies the
// schema; where the schema leaves more open than is useful it generates less: properties come in
// the schema's order, numbers are bounded (JsonRules), texts with a pattern are written without
// needless escapes, and an object with properties has no others unless additionalProperties or
// patternProperties says so. Where a keyword speaks of one type and none is named, that type is
// generated.
//
// Keywords of drafts 4 to 2020-12 that constrain are kept, or refused; docs/api.md lists both, and
// the formats. Words that no draft knows are annotations, and so are formats that none knows.
//
// Error invalid names the keyword, and its place as a JSON pointer ("#/properties/age"); also for a
// schema that no value satisfies, and for one that takes too many steps to read (docs/security.md).
base::Result<Grammar> json_schema_grammar(const nlohmann::ordered_json& schema);

// The same from the schema's text. Error invalid also for text that is no JSON.
base::Result<Grammar> json_schema_grammar(std::string_view schema);

// The same of a part of a document, to which its references lead, with its place there; the values
// are in a notation. What that cannot write is left out of enum.
base::Result<Grammar> schema_grammar(const nlohmann::ordered_json& document,
                                     const nlohmann::ordered_json& part, const std::string& place,
                                     Notation notation);

// Any JSON object.
Grammar json_object_grammar();

}  // namespace helix::text::grammar
