#include "text/tool_calls/drawn_calls.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/grammar/schema_words.h"
#include "text/tool_calls/tool_schemas.h"

namespace helix::text {
namespace {

using Json = nlohmann::ordered_json;

// What may be left out; by the name of a schema others may refer to it.
bool is_annotation(std::string_view key) {
    return grammar::is_schema_annotation(key) && key != "$id";
}

// Members that name schemas, which may be called like a keyword.
bool names_schemas(std::string_view key) {
    return key == "properties" || key == "patternProperties" || key == "$defs" ||
           key == "definitions" || key == "dependentSchemas" || key == "dependencies" ||
           key == "dependentRequired";
}

// The schema without its descriptions, which agents write many of.
Json without_annotations(Json schema) {
    if (schema.is_array()) {
        for (Json& item : schema) item = without_annotations(std::move(item));
    }
    if (!schema.is_object()) return schema;
    Json out = Json::object();
    for (auto& [key, value] : schema.items()) {
        if (is_annotation(key)) continue;
        if (key == "enum" || key == "const" || key == "required") {
            out[key] = std::move(value);
        } else if (names_schemas(key) && value.is_object()) {
            Json named = Json::object();
            for (auto& [name, inner] : value.items()) {
                named[name] = without_annotations(std::move(inner));
            }
            out[key] = std::move(named);
        } else {
            out[key] = without_annotations(std::move(value));
        }
    }
    return out;
}

std::string with_name(std::string_view text, const std::string& name) {
    std::string out(text);
    const auto put = [&out](std::string_view place, const std::string& what) {
        const auto at = out.find(place);
        if (at != std::string::npos) out.replace(at, place.size(), what);
        return at != std::string::npos;
    };
    if (!put("{name}", name)) put("{}", Json(name).dump());
    return out;
}

Json triggers_of(const DrawnForm& form, const Json& tools) {
    if (form.trigger.find("{name}") == std::string_view::npos) return form.trigger;
    Json all = Json::array();
    for (const Json& tool : tools) all.push_back(with_name(form.trigger, tool["name"]));
    return all;
}

// The text before the arguments, in pieces if there is an id.
Json head_of_call(const DrawnForm& form, const std::string& name, bool demanded) {
    if (!demanded && !form.before_free.empty()) {
        return Json::array({with_name(form.before_free, name), form.ways_on});
    }
    constexpr std::string_view kId = "{id}";
    const std::size_t at = form.before.find(kId);
    if (at == std::string_view::npos) return with_name(form.before, name);
    const Json id = {{"of", form.id_of}, {"min", form.min_id}, {"max", form.max_id}};
    return Json::array({with_name(form.before.substr(0, at), name), id,
                        with_name(form.before.substr(at + kId.size()), name)});
}

// Which parameters are texts is what the parser will think they are.
Json tags_of_call(const DrawnTags& tags, const Json& tool) {
    const ToolSchemas types(Json::array({{{"type", "function"}, {"function", tool}}}));
    Json texts = Json::array();
    const Json& schema = tool["parameters"];
    if (schema.is_object() && schema.contains("properties")) {
        for (const auto& [name, property] : schema["properties"].items()) {
            const bool text =
                types.types(tool["name"].get<std::string>(), name) == json_type::kString;
            if (text) texts.push_back(name);
        }
    }
    return {{"text", tags.text},
            {"json", tags.json.empty() ? tags.text : tags.json},
            {"close", tags.close},
            {"never", tags.never},
            {"keeps_line_ends", tags.keeps_line_ends},
            {"texts", std::move(texts)}};
}

}  // namespace

nlohmann::ordered_json tools_to_call(const nlohmann::ordered_json& tools) {
    Json out = Json::array();
    for (const Json& tool : tools) {
        const Json& function = tool.at("function");
        const auto given = function.find("parameters");
        Json parameters = given != function.end() ? *given : Json();
        if (parameters.is_null()) {
            parameters = {{"type", "object"}, {"additionalProperties", false}};
        } else if (parameters.is_object() && !parameters.contains("type")) {
            parameters["type"] = "object";
        }
        out.push_back({{"name", function.at("name")},
                       {"parameters", without_annotations(std::move(parameters))}});
    }
    return out;
}

base::Result<std::string> grammar_of_calls(const WantedCalls& wanted) {
    const DrawnForm* form = wanted.form;
    Json out = {{"begin", form->begin},
                {"between", form->between},
                {"end", form->end},
                {"min", 1},
                {"max", wanted.several && form->several ? 0 : 1},
                {"markers", form->markers},
                {"calls", Json::array()}};
    if (!wanted.demanded) {
        out["trigger"] = triggers_of(*form, *wanted.tools);
        out["trigger_first"] = form->trigger_first;
        out["again"] = form->again;
        out["headers_begin"] = form->headers_begin;
        out["headers_end"] = form->headers_end;
    }
    for (const Json& tool : *wanted.tools) {
        const auto& name = tool["name"].get_ref<const std::string&>();
        if (!reads_name(*form, name)) {
            return base::invalid(
                fmt::format("calls of the tool {:.80} could not be read in the form {} that this "
                            "model writes; names of letters, digits, _ and - can",
                            Json(name).dump(), form->format));
        }
        Json call = {{"before", head_of_call(*form, tool["name"], wanted.demanded)},
                     {"schema", tool["parameters"]},
                     {"after", form->after}};
        if (!form->tags.text.empty()) call["tags"] = tags_of_call(form->tags, tool);
        if (!form->notation.empty()) call["notation"] = form->notation;
        out["calls"].push_back(std::move(call));
    }
    return out.dump();
}

}  // namespace helix::text
