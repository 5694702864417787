#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/decimal.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

using SchemaJson = nlohmann::ordered_json;

// Which of JSON's types a value may have, as bits. "number" is both bits of numbers.
enum SchemaType : unsigned {
    kNullType = 1,
    kBooleanType = 2,
    kIntegerType = 4,
    kFractionType = 8,  // numbers that are not whole
    kStringType = 16,
    kArrayType = 32,
    kObjectType = 64,
    kAllTypes = 127,
};
constexpr unsigned kNumberTypes = kIntegerType | kFractionType;

// What must hold of one value, all of it: several schemas taken together (allOf, $ref beside
// others, a branch of anyOf and what stands beside anyOf). Schemas of parts of the value are as
// they stand in the document, or made and kept by the reader.
struct SchemaFacts {
    using Schema = const SchemaJson*;

    struct Limit {
        Decimal value;
        bool exclusive = false;
    };
    struct Numbers {
        std::optional<Limit> low;
        std::optional<Limit> high;
        std::vector<Decimal> multiples_of;
        std::vector<Decimal> no_multiples_of;
    };
    struct Strings {
        std::vector<std::string> patterns;
        std::vector<std::string> no_patterns;
        std::vector<std::string> formats;  // only such as are checked
    };
    struct Counts {
        std::int32_t min = 0;
        std::int32_t max = kNoLimit;
        // Takes a minimum (or maximum) into account.
        void at_least(std::int32_t count) { min = count > min ? count : min; }
        void at_most(std::int32_t count) { max = max == kNoLimit || count < max ? count : max; }
    };
    // What one schema says of an array's items, or of an object's properties. A name or position
    // has a schema from each layer.
    struct ArrayLayer {
        std::vector<Schema> first;
        Schema others = nullptr;
    };
    struct ObjectLayer {
        Schema properties = nullptr;
        Schema patterns = nullptr;
        Schema others = nullptr;
    };
    struct Choice {
        std::vector<Schema> branches;
        bool only_one = false;
        std::string place;
    };

    unsigned types = kAllTypes;
    bool typed = false;  // the types are given
    unsigned hints = 0;  // types that keywords speak of
    std::optional<std::vector<SchemaJson>> values;
    std::vector<SchemaJson> excluded;
    Numbers numbers;
    Strings strings;
    Counts length;
    std::vector<ArrayLayer> arrays;
    Counts items;
    std::vector<Schema> contains;
    bool unique = false;
    std::vector<ObjectLayer> objects;
    std::vector<std::string> required;
    Counts properties;
    std::vector<Schema> names;
    std::vector<Choice> choices;
    std::vector<Schema> sources;  // the schemas that all this comes from
    std::string never;            // why no value can satisfy it
    bool plain = true;            // nothing but choices

    // The types that values are written in: those that keywords speak of where none is given.
    unsigned written_types() const { return !typed && hints != 0 ? types & hints : types; }
};

// A schema of one keyword.
inline SchemaJson only_keyword(const std::string& keyword, SchemaJson value) {
    SchemaJson out = SchemaJson::object();
    out[keyword] = std::move(value);
    return out;
}

base::Error schema_error(std::string_view place, std::string_view message);
// The place of a member: "#/properties" and "a/b" give "#/properties/a~1b".
std::string schema_place(std::string_view place, std::string_view key);
unsigned type_of(const SchemaJson& value);
// The types of "type": null, boolean ... or a list of them.
base::Result<unsigned> schema_types(const SchemaJson& names, const std::string& place);

}  // namespace helix::text::grammar
