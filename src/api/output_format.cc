#include "api/output_format.h"

#include <fmt/format.h>

#include "text/grammar/gbnf_writer.h"
#include "text/grammar/output_grammar.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using Kind = spec::OutputGrammar::Kind;

void take(FieldReader& fields, const char* field, spec::OutputGrammar grammar,
          CompletionRequest& request) {
    const auto compiled = text::grammar::compile(grammar);
    if (!compiled.ok()) return fields.fail(field, compiled.error().message);
    request.sampling.grammar = std::move(grammar);
}

void take_schema(FieldReader& fields, const char* field, const Json& schema,
                 CompletionRequest& request) {
    if (!schema.is_object() && !schema.is_boolean()) {
        return fields.fail(field, "expected a JSON schema, got " + kind_of(schema));
    }
    take(fields, field, {Kind::json_schema, schema.dump()}, request);
}

void read_json_schema(FieldReader& fields, const Json& format, CompletionRequest& request) {
    constexpr const char* kField = "response_format.json_schema";
    const auto described = format.find("json_schema");
    if (described == format.end() || !described->is_object()) {
        return fields.fail(kField, "expected an object with name and schema");
    }
    const auto name = described->find("name");
    if (name != described->end() && !name->is_string()) {
        return fields.fail("response_format.json_schema.name",
                           "expected a string, got " + kind_of(*name));
    }
    const RequestLimits limits;
    if (name != described->end() &&
        name->get_ref<const std::string&>().size() > limits.max_name_bytes) {
        return fields.fail("response_format.json_schema.name", limits.name_too_long());
    }
    const auto schema = described->find("schema");
    if (schema == described->end()) {
        return fields.fail("response_format.json_schema.schema", "expected a JSON schema");
    }
    take_schema(fields, "response_format.json_schema.schema", *schema, request);
}

// Reads a json_object with or without a schema, as llama.cpp's server does.
void read_json_object(FieldReader& fields, const Json& format, CompletionRequest& request) {
    const auto schema = format.find("schema");
    if (schema != format.end()) {
        return take_schema(fields, "response_format.schema", *schema, request);
    }
    take(fields, "response_format", {Kind::json_object, {}}, request);
}

void take_pattern(FieldReader& fields, const std::string& field, const Json& pattern,
                  CompletionRequest& request) {
    if (!pattern.is_string()) {
        return fields.fail(field, "expected a string, got " + kind_of(pattern));
    }
    auto written = text::grammar::gbnf_of_pattern(pattern.get_ref<const std::string&>());
    if (!written.ok()) return fields.fail(field, written.error().message);
    take(fields, field.c_str(), {Kind::gbnf, std::move(*written)}, request);
}

void take_choices(FieldReader& fields, const std::string& field, const Json& list,
                  CompletionRequest& request) {
    std::vector<std::string> choices;
    for (const Json& choice : list.is_array() ? list : Json::array()) {
        if (choice.is_string()) choices.push_back(choice);
    }
    if (!list.is_array() || choices.empty() || choices.size() != list.size()) {
        return fields.fail(field, "expected an array of strings that is not empty");
    }
    take(fields, field.c_str(), {Kind::gbnf, text::grammar::gbnf_of_choices(choices)}, request);
}

// vLLM's json, regex, choice, grammar and json_object; a schema may be given as its text.
void take_structure(FieldReader& fields, const std::string& field, std::string_view kind,
                    const Json& value, CompletionRequest& request) {
    if (kind == "regex") return take_pattern(fields, field, value, request);
    if (kind == "choice") return take_choices(fields, field, value, request);
    if (kind == "json") {
        const Json schema = value.is_string()
                                ? Json::parse(value.get_ref<const std::string&>(), nullptr, false)
                                : value;
        if (schema.is_discarded()) return fields.fail(field, "the schema is not valid JSON");
        return take_schema(fields, field.c_str(), schema, request);
    }
    if (kind == "json_object") {
        if (value != true) return fields.fail(field, "expected true");
        return take(fields, field.c_str(), {Kind::json_object, {}}, request);
    }
    if (!value.is_string()) return fields.fail(field, "expected a string, got " + kind_of(value));
    take(fields, field.c_str(), {Kind::gbnf, value.get<std::string>()}, request);
}

// structured_outputs: exactly one of its kinds, and nothing that would change what may be written
// between the parts of JSON.
void read_structured_outputs(FieldReader& fields, CompletionRequest& request) {
    constexpr const char* kField = "structured_outputs";
    const Json* outputs = fields.find(kField);
    if (outputs == nullptr) return;
    if (!outputs->is_object()) return fields.fail(kField, "expected an object");
    int given = 0;
    for (const auto& [name, value] : outputs->items()) {
        const std::string field = std::string(kField) + "." + name;
        if (value.is_null() || value == false) continue;
        const bool known = name == "json" || name == "regex" || name == "choice" ||
                           name == "grammar" || name == "json_object";
        if (!known) return fields.fail(field, "is not supported");
        if (++given > 1) break;
        take_structure(fields, field, name, value, request);
    }
    if (given != 1) {
        fields.fail(kField, "expected exactly one of json, regex, choice, grammar, json_object");
    }
}

// The same as fields of the request, as vLLM had them before.
void read_guided(FieldReader& fields, CompletionRequest& request) {
    for (const char* kind : {"json", "regex", "choice", "grammar"}) {
        const std::string field = std::string("guided_") + kind;
        const Json* value = fields.find(field.c_str());
        if (value == nullptr) continue;
        if (request.sampling.grammar.present()) {
            return fields.fail(field, "a request has one output format; leave out the others");
        }
        take_structure(fields, field, kind, *value, request);
    }
}

}  // namespace

void read_output_format(FieldReader& fields, CompletionRequest& request) {
    const Json* format = fields.find(field::kResponseFormat);
    if (format != nullptr) {
        const auto type = format->is_object() ? format->find("type") : format->end();
        if (!format->is_object() || type == format->end() || !type->is_string()) {
            return fields.fail(field::kResponseFormat, "expected an object with a type");
        }
        if (*type == "json_object") {
            read_json_object(fields, *format, request);
        } else if (*type == "json_schema") {
            read_json_schema(fields, *format, request);
        } else if (*type != "text") {
            fields.fail(field::kResponseFormat,
                        fmt::format("type {} is not known; use text, json_object or json_schema",
                                    type->dump().substr(0, 100)));
        }
    }
    std::string grammar;
    fields.text(field::kGrammar, grammar);
    if (!grammar.empty()) {
        if (request.sampling.grammar.present()) {
            return fields.fail(field::kGrammar, "use either grammar or response_format");
        }
        take(fields, "grammar", {Kind::gbnf, std::move(grammar)}, request);
    }
    const bool has_outputs = fields.find(field::kStructuredOutputs) != nullptr;
    if (has_outputs && request.sampling.grammar.present()) {
        return fields.fail(field::kStructuredOutputs,
                           "a request has one output format; leave out the others");
    }
    read_structured_outputs(fields, request);
    read_guided(fields, request);
    if (request.sampling.grammar.present() && request.ignore_eos) {
        fields.fail(field::kIgnoreEos,
                    "a grammar says where the answer ends; leave out ignore_eos");
    }
}

}  // namespace helix::api
