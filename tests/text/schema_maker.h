#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"

namespace helix::text::grammar::test {

using Json = nlohmann::ordered_json;

// Makes schemas and values at random, over few words, so that values often satisfy schemas.
class SchemaMaker {
  public:
    explicit SchemaMaker(std::uint64_t seed) : random_(seed) {}

    Json schema(int depth) {
        Json out = Json::object();
        switch (random_.below(depth > 0 ? 12 : 5)) {
            case 0:
                out["type"] = pick({"string", "integer", "number", "boolean", "null"});
                break;
            case 1:
                out["type"] = "integer";
                out["minimum"] = random_.below(3);
                if (coin()) out["maximum"] = 1 + random_.below(3);
                if (coin()) out["multipleOf"] = 2;
                break;
            case 2:
                out["enum"] = Json::array({scalar(), scalar(), scalar()});
                break;
            case 3:
                out["const"] = scalar();
                break;
            case 4:
                out["type"] = "string";
                if (coin()) out["pattern"] = pick({"^a", "b$", "^[ab]*$"});
                if (coin()) out["maxLength"] = random_.below(4);
                break;
            case 5:
            case 6:
            case 7:
                object(out, depth);
                break;
            case 8:
                array(out, depth);
                break;
            case 9:
                out[pick({"anyOf", "oneOf", "allOf"})] =
                    Json::array({schema(depth - 1), schema(depth - 1)});
                if (coin()) object(out, depth);
                break;
            case 10:
                out["not"] = schema(depth - 1);
                if (coin()) out["type"] = Json::array({"integer", "string", "object"});
                break;
            default:
                out["if"] = schema(depth - 1);
                out["then"] = schema(depth - 1);
                if (coin()) out["else"] = schema(depth - 1);
        }
        return out;
    }

    Json value(int depth) {
        const std::uint64_t kind = random_.below(depth > 0 ? 4 : 1);
        if (kind == 0) return scalar();
        if (kind == 1) {
            Json list = Json::array();
            for (std::uint64_t i = random_.below(4); i > 0; --i) list.push_back(value(depth - 1));
            return list;
        }
        Json out = Json::object();
        for (const char* name : {"a", "b", "c", "ab"}) {
            if (coin()) out[name] = value(depth - 1);
        }
        return out;
    }

  private:
    bool coin() { return random_.below(2) == 0; }
    std::string pick(const std::vector<std::string>& of) { return of[random_.below(of.size())]; }

    Json scalar() {
        static const Json kScalars =
            Json::array({nullptr, true, false, 0, 1, 2, 3, -1, 0.5, "", "a", "ab", "b", "ba"});
        return kScalars[random_.below(kScalars.size())];
    }

    void object(Json& out, int depth) {
        if (coin()) out["type"] = "object";
        Json properties = Json::object();
        for (const char* name : {"a", "b", "c"}) {
            if (coin()) properties[name] = coin() ? Json(true) : schema(depth - 1);
        }
        if (coin()) out["properties"] = properties;
        if (coin()) out["additionalProperties"] = coin() ? Json(false) : schema(depth - 1);
        if (random_.below(3) == 0) out["required"] = Json::array({pick({"a", "b", "c"})});
        if (random_.below(5) == 0) {
            out["patternProperties"] = Json{{pick({"^a", "b", "^.$"}), schema(depth - 1)}};
        }
        if (random_.below(6) == 0) out["minProperties"] = 1;
        if (random_.below(6) == 0) out["maxProperties"] = 1 + random_.below(2);
        if (random_.below(6) == 0) out["propertyNames"] = Json{{"pattern", pick({"^a", "^.$"})}};
        if (random_.below(6) == 0) out["dependentRequired"] = Json{{"a", Json::array({"b"})}};
    }

    void array(Json& out, int depth) {
        out["type"] = "array";
        if (coin()) out["items"] = schema(depth - 1);
        if (random_.below(3) == 0) out["prefixItems"] = Json::array({schema(depth - 1)});
        if (random_.below(3) == 0) out["minItems"] = random_.below(3);
        if (random_.below(3) == 0) out["maxItems"] = random_.below(4);
        if (random_.below(5) == 0) out["contains"] = schema(depth - 1);
    }

    base::Random random_;
};

}  // namespace helix::text::grammar::test
