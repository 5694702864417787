#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// The JSON texts that satisfy a schema, as a grammar. What it generates always satisfies the
// schema; where the schema leaves more open than is useful it generates less: properties come in
// the schema's order, numbers are bounded (JsonRules), and an object with properties has no others
// unless additionalProperties says so.
//
// Supported: true; type (also a list), nullable, enum, const, anyOf, oneOf (where no text can match
// two of them), allOf (merged), $ref to a place in the schema, $defs; properties, required,
// additionalProperties; items, prefixItems, minItems, maxItems; minLength, maxLength, pattern,
// format (date, time, date-time, uuid, ipv4, email); minimum, maximum, exclusive ones too
// (integers; for numbers only a minimum of 0). Annotations are ignored.
//
// Error invalid names the keyword, and its place as a JSON pointer ("#/properties/age").
base::Result<Grammar> json_schema_grammar(const nlohmann::ordered_json& schema);

// The same from the schema's text. Error invalid also for text that is no JSON.
base::Result<Grammar> json_schema_grammar(std::string_view schema);

// Any JSON object.
Grammar json_object_grammar();

}  // namespace helix::text::grammar
