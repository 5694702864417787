#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

// What all that read JSON schemas know of their words.

namespace helix::text::grammar {

// Whether a keyword says nothing about which values there may be.
bool is_schema_annotation(std::string_view keyword);

// Finds what $ref leads to in one document, which must outlive the object.
class SchemaReferences {
  public:
    explicit SchemaReferences(const nlohmann::ordered_json& document) : document_(document) {}

    // By a JSON pointer, an anchor or the document's own name. Error invalid says where else it
    // leads.
    base::Result<const nlohmann::ordered_json*> resolve(const nlohmann::ordered_json& reference);
    // Whether the whole document has been looked through, for its anchors.
    bool has_looked() const { return anchors_known_; }

  private:
    const nlohmann::ordered_json& document_;
    std::map<std::string, const nlohmann::ordered_json*> anchors_;
    bool anchors_known_ = false;
};

}  // namespace helix::text::grammar
