#include "api/openapi.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/body_fields.h"
#include "api/guard.h"
#include "api/routes.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;

Json array_of(Json items) {
    return {{"type", "array"}, {"items", std::move(items)}};
}

Json prompt_shape() {
    const Json ids = array_of({{"type", "integer"}});
    return {
        {"anyOf",
         Json::array({{{"type", "string"}}, array_of({{"type", "string"}}), ids, array_of(ids)})}};
}

Json shape_of(const BodyField& field) {
    Json shape;
    switch (field.shape) {
        case FieldShape::number:
            shape["type"] = "number";
            break;
        case FieldShape::integer:
            shape["type"] = "integer";
            break;
        case FieldShape::boolean:
            return {{"type", "boolean"}};
        case FieldShape::text:
            return {{"type", "string"}};
        case FieldShape::texts:
            return {{"anyOf", Json::array({{{"type", "string"}}, array_of({{"type", "string"}})})}};
        case FieldShape::object:
            return {{"type", "object"}};
        case FieldShape::array:
            return {{"type", "array"}};
        case FieldShape::prompt:
            return prompt_shape();
        case FieldShape::any:
            return Json::object();
    }
    if (field.low == field.high) return shape;
    const auto bound = [&field](double value) {
        return field.shape == FieldShape::integer ? Json(static_cast<std::int64_t>(value))
                                                  : Json(value);
    };
    shape["minimum"] = bound(field.low);
    if (field.high < field::kMost32) shape["maximum"] = bound(field.high);
    return shape;
}

// The fields of a body; those of an object in it stand in that object.
Json body_schema(std::uint16_t body) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const BodyField& field : all_body_fields()) {
        if ((field.in & body) == 0) continue;
        Json shape = shape_of(field);
        shape["description"] = field.about;
        const std::string name(field.name);
        const std::size_t dot = name.find('.');
        const bool inside = dot != name.npos && properties.contains(name.substr(0, dot));
        if (inside) {
            properties[name.substr(0, dot)]["properties"][name.substr(dot + 1)] = std::move(shape);
        } else {
            properties[name] = std::move(shape);
        }
        if (field.required) required.push_back(name);
    }
    Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) schema["required"] = std::move(required);
    return schema;
}

bool may_stream(std::uint16_t body) {
    return (field::kStream.in & body) != 0;
}

Json answers_of(const Route& route) {
    const bool lines = (route.body & body::kOllama) != 0;
    Json content = {{"application/json", Json::object()}};
    if (route.endless) content = {{"text/event-stream", Json::object()}};
    if (may_stream(route.body)) {
        content[lines ? "application/x-ndjson" : "text/event-stream"] = Json::object();
    }
    const Json error = {{"description", "what is wrong, in the words of the protocol"}};
    Json answers = {{"200", {{"description", route.about}, {"content", std::move(content)}}}};
    if (route.body != 0) answers["400"] = error;
    if (route.counted)
        answers["429"] = {{"description", "too much is asked; Retry-After says when"}};
    return answers;
}

Json security_of(const Route& route) {
    switch (access_of(route.method, route.path)) {
        case Access::probe:
        case Access::open:
        case Access::session:
            return Json::array();
        case Access::admin:
            return Json::array({{{"adminKey", Json::array()}}});
        case Access::look:
        case Access::internals:
            return Json::array({{{"anyKey", Json::array()}}});
        case Access::client:
            break;
    }
    return Json::array({{{"apiKey", Json::array()}}});
}

// "/models/{id...}" is "/v1/models/{id}" to others.
std::string shown_path(const Route& route) {
    std::string path = std::string(route.prefix) + std::string(route.path);
    const std::size_t dots = path.find("...}");
    if (dots != path.npos) path.erase(dots, 3);
    return path;
}

Json operation(const Route& route) {
    const std::string path = shown_path(route);
    std::string id;
    for (const char c : std::string(route.method) + path) {
        id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    Json out = {{"operationId", id}, {"summary", route.about}};
    if (const std::size_t open = path.find('{'); open != path.npos) {
        const std::string name = path.substr(open + 1, path.find('}') - open - 1);
        out["parameters"] = Json::array({{{"name", name},
                                          {"in", "path"},
                                          {"required", true},
                                          {"schema", {{"type", "string"}}}}});
    }
    if (route.body != 0) {
        out["requestBody"] = {
            {"required", true},
            {"content", {{"application/json", {{"schema", body_schema(route.body)}}}}}};
    }
    out["responses"] = answers_of(route);
    out["security"] = security_of(route);
    return out;
}

}  // namespace

std::string openapi_document(const std::string& version) {
    Json paths = Json::object();
    for (const Route& route : all_routes()) {
        std::string method;
        for (const char c : route.method) {
            method += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
        paths[shown_path(route)][method] = operation(route);
    }
    const Json bearer = {{"type", "http"}, {"scheme", "bearer"}};
    Json document = {
        {"openapi", "3.1.0"},
        {"info",
         {{"title", "Helix"},
          {"version", version},
          {"description", "Fields that are not named here are ignored."},
          {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
        {"servers", Json::array({{{"url", "/"}}})},
        {"paths", std::move(paths)},
        {"components",
         {{"securitySchemes", {{"anyKey", bearer}, {"apiKey", bearer}, {"adminKey", bearer}}}}}};
    return document.dump(1) + "\n";
}

}  // namespace helix::api
