#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/dfa.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/schema_facts.h"
#include "text/grammar/schema_reader.h"

namespace helix::text::grammar {

// Reads one schema of a document into a grammar (json_schema.h).
class SchemaCompiler {
  public:
    explicit SchemaCompiler(const SchemaJson& root, Notation notation = Notation::json);

    base::Result<Grammar> compile();
    // Of a schema inside of the document, to which its references lead.
    base::Result<Grammar> compile(const SchemaJson& part, const std::string& place);

  private:
    using Facts = SchemaFacts;
    using ExprResult = base::Result<Expr>;
    using DfaResult = base::Result<Dfa>;

    // A pattern or format to be met, or not, as an expression over the text itself.
    struct TextSet {
        Expr expr;
        bool search = true;
        bool wanted = true;
    };
    struct Property {
        Expr member;  // "name": value
        bool required = false;
    };
    // Names that are not listed, by what their values must satisfy.
    struct OtherNames {
        Expr name;
        const SchemaJson* value = nullptr;
    };

    // place says where the schema stands, for messages. Where no value can satisfy a schema the
    // expression is nothing(), and the first reason is kept for the case that the whole is so.
    ExprResult schema(const SchemaJson& s, const std::string& place);
    ExprResult new_schema(const SchemaJson& s, const std::string& place);
    ExprResult reference(const std::string& name, const SchemaJson& s, const std::string& place);
    ExprResult of_facts(const Facts& facts, const std::string& place);
    ExprResult choice_of(const Facts& facts, const std::string& place);
    ExprResult branch_of(const Facts::Choice& choice, const std::vector<Facts>& branches,
                         std::size_t i, const Facts& rest, const std::string& place);
    static base::Error may_match_both(const Facts::Choice& choice, std::size_t i, std::size_t j,
                                      const base::Error& why);
    ExprResult values(const Facts& facts, const std::string& place);
    ExprResult typed(const Facts& facts, const std::string& place);
    ExprResult of_type(const Facts& facts, unsigned type, const std::string& place);
    Expr never(std::string reason);

    // ---- schema_string.cc, schema_number.cc
    ExprResult string(const Facts& facts, const std::string& place);
    base::Result<std::vector<TextSet>> text_sets(const Facts& facts, const std::string& place);
    DfaResult dfa_of(const std::vector<TextSet>& sets, const Alphabet& alphabet,
                     const std::string& place);
    ExprResult text_of(const Dfa& dfa, const Alphabet& alphabet, Facts::Counts length,
                       const std::string& place);
    base::Error too_costly(const std::string& place) const;
    ExprResult integer(const Facts& facts, const std::string& place);
    ExprResult number(const Facts& facts, const std::string& place);
    // Takes the excluded values out, and keeps what is or is not a multiple.
    ExprResult numbers_left(Dfa dfa, const Facts& facts, const Alphabet& alphabet,
                            const std::string& place);
    ExprResult number_in(const Facts& facts, bool whole, const std::string& place);

    // ---- schema_array.cc
    ExprResult array(const Facts& facts, const std::string& place);
    base::Result<std::vector<Expr>> first_items(const Facts& facts, const std::string& place);
    const SchemaJson* item_schema(const Facts& facts, std::size_t position);
    ExprResult with_contained(const Facts& facts, const Expr& item, const std::string& place);
    ExprResult without_repeats(const Facts& facts, const std::string& place);

    // ---- schema_object.cc
    ExprResult object(const Facts& facts, const std::string& place);
    base::Result<const SchemaJson*> property_schema(const Facts& facts, const std::string& name);
    base::Result<std::vector<std::string>> listed_names(const Facts& facts,
                                                        const std::string& place);
    base::Result<std::vector<OtherNames>> other_names(const Facts& facts,
                                                      const std::vector<std::string>& listed,
                                                      const std::string& place);
    // A pattern of patternProperties, of one of the schemas that hold together.
    struct NamePattern {
        std::size_t layer = 0;
        Expr expr;
        const SchemaJson* value = nullptr;
    };
    // Names that match the same patterns.
    struct NameSet {
        Dfa dfa;
        std::vector<std::size_t> matched;
    };
    base::Result<std::vector<NamePattern>> name_patterns(const Facts& facts,
                                                         const std::string& place);
    base::Result<std::optional<std::vector<TextSet>>> name_conditions(
        const Facts& facts, const std::vector<std::string>& listed, Facts::Counts& length,
        const std::string& place);
    base::Result<std::vector<NameSet>> divide_names(Dfa all,
                                                    const std::vector<NamePattern>& patterns,
                                                    const Alphabet& alphabet,
                                                    const std::string& place);
    base::Result<std::vector<OtherNames>> names_by_pattern(const Facts& facts,
                                                           const std::vector<std::string>& listed,
                                                           const std::string& place);
    base::Result<bool> may_be_named(const Facts& facts, const std::string& name);
    ExprResult members(const std::vector<Property>& properties, const std::optional<Expr>& other,
                       Facts::Counts counts, const std::string& place);

    // ---- schema_check.cc: whether values satisfy schemas, and whether schemas exclude each other
    // if_unknown is the answer where it cannot be told.
    base::Result<bool> holds(const SchemaJson& value, const SchemaJson& s, bool if_unknown);
    base::Result<bool> holds_inside(const SchemaJson& value, const SchemaJson& s, bool if_unknown);
    base::Result<bool> text_holds(const std::string& text, const SchemaJson& s, bool if_unknown);
    base::Result<bool> array_holds(const SchemaJson& value, const SchemaJson& s, bool if_unknown);
    base::Result<bool> object_holds(const SchemaJson& value, const SchemaJson& s, bool if_unknown);
    base::Result<bool> combination_holds(const SchemaJson& value, const SchemaJson& s,
                                         bool if_unknown);
    base::Result<bool> one_of_holds(const SchemaJson& value, const SchemaJson& s, bool if_unknown);
    base::Result<bool> condition_holds(const SchemaJson& value, const SchemaJson& s,
                                       bool if_unknown);
    base::Result<bool> all_hold(const SchemaJson& value, const Facts& facts, bool if_unknown);
    base::Result<bool> in_list(const SchemaJson& value, const SchemaJson& list);
    const SchemaJson& only_numbers(const SchemaJson& s);
    static SchemaJson only_objects(const SchemaJson& s);
    base::Result<bool> text_matches(const std::string& text, const std::string& pattern);
    // Whether nothing that is generated for a satisfies b.
    base::Result<bool> apart(const Facts& a, const Facts& b, int depth);
    base::Result<bool> type_apart(const Facts& a, const Facts& b, unsigned type, int depth);
    base::Result<bool> objects_apart(const Facts& a, const Facts& b, int depth);
    base::Result<bool> strings_apart(const Facts& a, const Facts& b);

    // Makes a rule of an expression that is not small, so that using it twice does not copy it.
    Expr shared(Expr e, const char* name);

    const SchemaJson& root_;
    SchemaReader reader_;
    Grammar grammar_;
    JsonRules json_;
    StepBudget budget_;
    std::map<std::string, RuleIndex> references_;
    std::map<std::string, Expr> schemas_;          // what was made of a schema, by its text
    std::map<std::string, RuleIndex> being_made_;  // by their text; -1: not referred to
    std::map<std::string, Expr> made_;             // strings and numbers, by what is asked of them
    std::map<std::string, std::pair<Alphabet, Dfa>> matchers_;  // by pattern
    std::map<const SchemaJson*, std::set<std::string>> lists_;  // of enum, as they are written
    std::string reason_;
    int depth_ = 0;
    int check_depth_ = 0;
    int steps_ = 0;
};

// The pattern of a format that is checked; empty for others.
std::string format_pattern(std::string_view format);

}  // namespace helix::text::grammar
