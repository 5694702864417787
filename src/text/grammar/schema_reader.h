#pragma once

#include <deque>
#include <string>

#include "text/grammar/schema_facts.h"
#include "text/grammar/schema_words.h"

namespace helix::text::grammar {

// Reads the schemas of one document into facts. Work is counted; the document and the reader must
// outlive the facts.
class SchemaReader {
  public:
    explicit SchemaReader(const SchemaJson& root) : root_(root), references_(root) {}

    // Adds what a schema says. place says where it stands, for messages.
    base::Status add(const SchemaJson& s, const std::string& place, SchemaFacts& facts);
    // Adds that the schema does not hold. Error invalid: that cannot be said.
    base::Status add_not(const SchemaJson& s, const std::string& place, SchemaFacts& facts);

    // The schema that a reference leads to.
    base::Result<const SchemaJson*> resolve(const SchemaJson& reference, const std::string& place);
    // If the schema only refers to another: by which name.
    const std::string* only_reference(const SchemaJson& s) const;

    // Keeps a schema that is made on the way.
    const SchemaJson* keep(SchemaJson made);
    // One schema that all of them make together.
    const SchemaJson* all_of(std::vector<const SchemaJson*> parts);
    const SchemaJson* opposite(const SchemaJson* s);

    // Counts work: about the number of a schema's values each time they are looked through or
    // copied, and the number of parts of what is made of it.
    base::Status charge(std::uint64_t steps, const std::string& place);
    base::Status charge(const SchemaJson& s, const std::string& place);

  private:
    using Facts = SchemaFacts;

    base::Status add_inside(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_types(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_values(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_numbers(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_strings(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_arrays(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_objects(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_dependents(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_combinations(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_condition(const SchemaJson& s, const std::string& place, Facts& facts);
    base::Status add_choice(const SchemaJson& s, const char* keyword, const std::string& place,
                            Facts& facts);
    base::Status check_unkept(const SchemaJson& s, const std::string& place) const;

    base::Status add_not_part(const std::string& keyword, const SchemaJson& part,
                              const std::string& place, Facts& facts);
    base::Status add_not_number(const std::string& keyword, const SchemaJson& part,
                                const std::string& place, Facts& facts);
    base::Status add_not_count(const std::string& keyword, const SchemaJson& part,
                               const std::string& place, Facts& facts);
    base::Status add_not_object(const std::string& keyword, const SchemaJson& part,
                                const std::string& place, Facts& facts);
    base::Status add_not_combination(const std::string& keyword, const SchemaJson& part,
                                     const std::string& place, Facts& facts);
    // One of these holds.
    void add_any(std::vector<SchemaJson> branches, const std::string& place, Facts& facts);

    const SchemaJson& root_;
    std::deque<SchemaJson> made_;
    SchemaReferences references_;
    std::uint64_t work_ = 0;
    int depth_ = 0;
};

// The keyword as a whole number from 0 on, at most `limit` (which stands for all larger ones if
// it is a maximum), or `otherwise` if it is absent.
base::Result<std::int32_t> schema_count(const SchemaJson& s, const char* keyword,
                                        std::int32_t otherwise, const std::string& place);

// Whether nothing is known of this format, so that it is an annotation.
bool is_unknown_format(std::string_view format);

}  // namespace helix::text::grammar
