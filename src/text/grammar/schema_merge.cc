// Schemas that must hold together, and schemas that cannot hold together.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "text/grammar/schema_compiler.h"

namespace helix::text::grammar {
namespace {

constexpr int kMaxMerges = 500;   // each copies what it merges
constexpr int kMaxFollowed = 16;  // references to references

SchemaJson as_list(const SchemaJson& value) {
    return value.is_array() ? value : SchemaJson::array({value});
}

bool is_number_type(const SchemaJson& name) {
    return name == "number";
}

// What both lists of types admit; an integer is a number.
SchemaJson common_types(const SchemaJson& a, const SchemaJson& b) {
    SchemaJson out = SchemaJson::array();
    const SchemaJson left = as_list(a);
    const SchemaJson right = as_list(b);
    const auto in = [](const SchemaJson& list, const SchemaJson& name) {
        return std::find(list.begin(), list.end(), name) != list.end();
    };
    const auto takes = [&in](const SchemaJson& list, const SchemaJson& name) {
        return in(list, name) ||
               (name == "integer" && std::any_of(list.begin(), list.end(), is_number_type));
    };
    for (const SchemaJson& name : left) {
        if (takes(right, name)) out.push_back(name);
    }
    for (const SchemaJson& name : right) {
        if (takes(left, name) && !in(out, name)) out.push_back(name);
    }
    return out;
}

// The values that enum or const allow; null where neither is given.
SchemaJson listed_values(const SchemaJson& s) {
    if (!s.is_object()) return nullptr;
    if (s.contains("const")) return SchemaJson::array({s["const"]});
    return s.contains("enum") && s["enum"].is_array() ? s["enum"] : SchemaJson();
}

bool share_a_value(const SchemaJson& a, const SchemaJson& b) {
    const std::set<SchemaJson> values(a.begin(), a.end());
    return std::any_of(b.begin(), b.end(),
                       [&values](const SchemaJson& value) { return values.contains(value); });
}

bool requires_property(const SchemaJson& s, const std::string& name) {
    if (!s.contains("required") || !s["required"].is_array()) return false;
    return std::find(s["required"].begin(), s["required"].end(), SchemaJson(name)) !=
           s["required"].end();
}

// Whether objects that are generated for s may have this property.
bool may_have(const SchemaJson& s, const std::string& name) {
    if (s.contains("properties") && s["properties"].contains(name)) return true;
    if (s.contains("additionalProperties")) return s["additionalProperties"] != false;
    return !s.contains("properties") || requires_property(s, name);
}

unsigned possible_types(const SchemaJson& s) {
    if (!s.is_object() || !s.contains("type")) return kAllTypes;
    unsigned found = s.value("nullable", false) ? kNullType : 0U;
    for (const SchemaJson& name : as_list(s["type"])) {
        if (name == "null") found |= kNullType;
        if (name == "boolean") found |= kBooleanType;
        if (name == "integer") found |= kIntegerType;
        if (name == "number") found |= kNumberType | kIntegerType;
        if (name == "string") found |= kStringType;
        if (name == "array") found |= kArrayType;
        if (name == "object") found |= kObjectType;
    }
    return found;
}

}  // namespace

base::Result<SchemaJson> SchemaCompiler::merge(SchemaJson a, const SchemaJson& b,
                                               const std::string& place) {
    if (a.is_boolean() || b.is_boolean()) {
        if (a.is_boolean() && a.get<bool>()) return b;
        if (b.is_boolean() && b.get<bool>()) return a;
        return schema_error(place, "the schema is false, so nothing can be written here");
    }
    if (!b.is_object() || !a.is_object()) return schema_error(place, "expected a schema");
    if (++merges_ > kMaxMerges) {
        return schema_error(place, fmt::format("more than {} combinations of schemas", kMaxMerges));
    }
    TRY_VOID(charge(b, place));
    if (a.empty()) return b;
    if (b.empty()) return a;
    if (b.contains("$ref") && b["$ref"].is_string()) {
        TRY(const SchemaJson* target, resolve(b["$ref"].get<std::string>(), place));
        SchemaJson rest = b;
        rest.erase("$ref");
        if (++depth_ > 64) return schema_error(place, "references lead in a circle");
        auto merged = merge(std::move(rest), *target, place);
        --depth_;
        if (!merged.ok()) return merged;
        return merge(std::move(a), *merged, place);
    }
    for (const auto& [key, value] : b.items()) {
        const auto known = a.find(key);
        if (known == a.end()) {
            a[key] = value;
        } else if (*known != value) {
            TRY_VOID(merge_keyword(key, value, *known, place));
        }
    }
    return a;
}

// Merges a keyword; out has the other value, which differs.
base::Status SchemaCompiler::merge_keyword(const std::string& key, const SchemaJson& value,
                                           SchemaJson& out, const std::string& place) {
    if (key == "type") {
        TRY_VOID(charge(as_list(out).size() * as_list(value).size(), place));
        out = common_types(out, value);
        if (out.empty()) return schema_error(place, "no type satisfies all of these");
    } else if (key == "required" && out.is_array() && value.is_array()) {
        TRY_VOID(charge(out, place));
        std::set<SchemaJson> names(out.begin(), out.end());
        for (const SchemaJson& name : value) {
            if (names.insert(name).second) out.push_back(name);
        }
    } else if (key == "properties" && out.is_object() && value.is_object()) {
        TRY_VOID(charge(out.size(), place));
        auto& members = out.get_ref<SchemaJson::object_t&>();
        std::map<std::string, std::size_t> places;
        for (const auto& [name, property] : members) places.emplace(name, places.size());
        for (const auto& [name, property] : value.items()) {
            const auto [at, is_new] = places.emplace(name, members.size());
            if (is_new) {
                members.emplace_back(name, property);
                continue;
            }
            SchemaJson& known = (members.begin() + static_cast<std::ptrdiff_t>(at->second))->second;
            TRY(known, merge(std::move(known), property, schema_place(place, name)));
        }
    } else if (key == "allOf" && out.is_array() && value.is_array()) {
        for (const SchemaJson& part : value) out.push_back(part);
    } else if (key != "title" && key != "description" && key != "default" && key != "examples" &&
               key != "$comment" && key != "$defs") {
        return schema_error(place,
                            fmt::format("keyword \"{}\" is given twice with different values "
                                        "where both must hold; that is not supported",
                                        key));
    }
    return base::Ok{};
}

const SchemaJson& SchemaCompiler::followed(const SchemaJson& s) const {
    const SchemaJson* at = &s;
    for (int i = 0; i < kMaxFollowed && at->is_object() && at->contains("$ref"); ++i) {
        if (!(*at)["$ref"].is_string()) break;
        auto target = resolve((*at)["$ref"].get<std::string>(), "");
        if (!target.ok()) break;
        at = *target;
    }
    return *at;
}

base::Result<bool> SchemaCompiler::apart(const SchemaJson& first, const SchemaJson& second,
                                         int depth) {
    const SchemaJson& a = followed(first);
    const SchemaJson& b = followed(second);
    if (depth > 8 || !a.is_object() || !b.is_object()) return false;
    const SchemaJson a_values = listed_values(a);
    const SchemaJson b_values = listed_values(b);
    TRY_VOID(charge(1 + a_values.size() + b_values.size(), "#"));
    if (a_values.is_array() && b_values.is_array()) return !share_a_value(a_values, b_values);
    const auto outside = [](const SchemaJson& values, unsigned types) {
        return std::none_of(values.begin(), values.end(), [types](const SchemaJson& value) {
            return admits_type(types, type_of(value));
        });
    };
    const unsigned a_types = possible_types(a);
    const unsigned b_types = possible_types(b);
    if (a_values.is_array()) return outside(a_values, b_types);
    if (b_values.is_array()) return outside(b_values, a_types);
    if ((a_types & b_types) == 0) return true;
    if ((a_types & b_types) != kObjectType) return false;
    return objects_apart(a, b, depth);
}

base::Result<bool> SchemaCompiler::objects_apart(const SchemaJson& a, const SchemaJson& b,
                                                 int depth) {
    const auto properties = [](const SchemaJson& s) {
        return s.contains("properties") && s["properties"].is_object() ? s["properties"]
                                                                       : SchemaJson::object();
    };
    const SchemaJson in_a = properties(a);
    const SchemaJson in_b = properties(b);
    // Each name is looked up in these lists.
    const std::uint64_t lists = 1 + a.value("required", SchemaJson()).size() +
                                b.value("required", SchemaJson()).size() + in_a.size();
    for (const auto& [name, schema] : in_b.items()) {
        TRY_VOID(charge(1 + lists / 16, "#"));
        if (requires_property(b, name) && !may_have(a, name)) return true;
        if (!requires_property(a, name) || !in_a.contains(name)) continue;
        TRY(const bool are_apart, apart(in_a[name], schema, depth + 1));
        if (are_apart) return true;
    }
    return false;
}

}  // namespace helix::text::grammar
