#pragma once

#include <string>

namespace helix::api {

// What the API takes, as an OpenAPI 3.1 document: the routes of routes.cc with the fields of
// body_fields.h. Served at /openapi.json; docs/api.md has its tables from it (tools/api_tables.py).
std::string openapi_document(const std::string& version);

}  // namespace helix::api
