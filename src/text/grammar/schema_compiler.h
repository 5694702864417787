#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/json_rules.h"

namespace helix::text::grammar {

using SchemaJson = nlohmann::ordered_json;

// Which of JSON's types a schema may match, as bits.
enum SchemaType : unsigned {
    kNullType = 1,
    kBooleanType = 2,
    kIntegerType = 4,
    kNumberType = 8,
    kStringType = 16,
    kArrayType = 32,
    kObjectType = 64,
    kAllTypes = 127,
};

base::Error schema_error(std::string_view place, std::string_view message);
// The place of a member: "#/properties" and "a/b" give "#/properties/a~1b".
std::string schema_place(std::string_view place, std::string_view key);
SchemaType type_of(const SchemaJson& value);
// Whether "type" (and "nullable") of a schema lets a value of this type through; number takes
// integers.
bool admits_type(unsigned types, SchemaType type);

// Reads one schema document into a grammar (json_schema.h).
class SchemaCompiler {
  public:
    explicit SchemaCompiler(const SchemaJson& root) : root_(root), json_(grammar_) {}

    base::Result<Grammar> compile();

  private:
    using ExprResult = base::Result<Expr>;

    // place says where the schema stands, for messages.
    ExprResult schema(const SchemaJson& s, const std::string& place);
    ExprResult combined(const SchemaJson& s, const std::string& place);
    ExprResult any_of(const SchemaJson& s, const char* keyword, const std::string& place);
    ExprResult all_of(const SchemaJson& s, const std::string& place);
    ExprResult reference(const SchemaJson& s, const std::string& place);
    ExprResult values(const SchemaJson& s, const std::string& place);
    ExprResult typed(const SchemaJson& s, const std::string& place);
    ExprResult of_type(const SchemaJson& s, SchemaType type, const std::string& place);

    ExprResult object(const SchemaJson& s, const std::string& place);
    ExprResult array(const SchemaJson& s, const std::string& place);
    ExprResult string(const SchemaJson& s, const std::string& place);
    ExprResult integer(const SchemaJson& s, const std::string& place);
    ExprResult number(const SchemaJson& s, const std::string& place);

    // Counts work: about the number of a schema's values each time they are looked through or
    // copied, and the number of parts of what is made of it.
    base::Status charge(std::uint64_t steps, const std::string& place);
    base::Status charge(const SchemaJson& s, const std::string& place);
    // Makes a rule of an expression that is not small, so that using it twice does not copy it.
    Expr shared(Expr e, const char* name);
    ExprResult new_schema(const SchemaJson& s, const std::string& place);

    base::Status check_keywords(const SchemaJson& s, const std::string& place) const;
    base::Result<unsigned> types(const SchemaJson& s, const std::string& place) const;
    base::Result<const SchemaJson*> resolve(const std::string& reference,
                                            const std::string& place) const;
    // One schema that says what both say.
    base::Result<SchemaJson> merge(SchemaJson a, const SchemaJson& b, const std::string& place);
    base::Status merge_keyword(const std::string& key, const SchemaJson& value, SchemaJson& out,
                               const std::string& place);
    // Whether nothing that is generated for a matches b.
    base::Result<bool> apart(const SchemaJson& a, const SchemaJson& b, int depth);
    base::Result<bool> objects_apart(const SchemaJson& a, const SchemaJson& b, int depth);
    const SchemaJson& followed(const SchemaJson& s) const;

    const SchemaJson& root_;
    Grammar grammar_;
    JsonRules json_;
    std::map<std::string, RuleIndex> references_;
    std::map<std::string, Expr> schemas_;  // what was made of a schema, by its text
    std::map<std::string, Expr> strings_;  // the same for patterns and formats
    std::uint64_t work_ = 0;
    int depth_ = 0;
    int steps_ = 0;
    int merges_ = 0;
};

// The keyword as a whole number from 0 on, or `otherwise` if it is absent.
base::Result<std::int32_t> schema_count(const SchemaJson& s, const char* keyword,
                                        std::int32_t otherwise, const std::string& place);

// Expressions over a string's own characters for "format".
base::Result<Expr> schema_format(const std::string& format, const std::string& place);

}  // namespace helix::text::grammar
