#include "api/output_format.h"

#include <fmt/format.h>

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
        return fields.fail("response_format.json_schema.name",
                           fmt::format("at most {} bytes (max_name_bytes)", limits.max_name_bytes));
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

}  // namespace

void read_output_format(FieldReader& fields, CompletionRequest& request) {
    const Json* format = fields.find("response_format");
    if (format != nullptr) {
        const auto type = format->is_object() ? format->find("type") : format->end();
        if (!format->is_object() || type == format->end() || !type->is_string()) {
            return fields.fail("response_format", "expected an object with a type");
        }
        if (*type == "json_object") {
            read_json_object(fields, *format, request);
        } else if (*type == "json_schema") {
            read_json_schema(fields, *format, request);
        } else if (*type != "text") {
            fields.fail("response_format",
                        fmt::format("type {} is not known; use text, json_object or json_schema",
                                    type->dump().substr(0, 100)));
        }
    }
    std::string grammar;
    fields.text("grammar", grammar);
    if (!grammar.empty()) {
        if (request.sampling.grammar.present()) {
            return fields.fail("grammar", "use either grammar or response_format");
        }
        take(fields, "grammar", {Kind::gbnf, std::move(grammar)}, request);
    }
    if (request.sampling.grammar.present() && request.ignore_eos) {
        fields.fail("ignore_eos", "a grammar says where the answer ends; leave out ignore_eos");
    }
}

}  // namespace helix::api
