#pragma once

#include <span>
#include <string_view>

#include "net/http_message.h"

// The page for browsers: the files of web/dist, which are part of the program, and the headers that
// they and all other answers are served with.

namespace helix::api {

struct PageFile {
    std::string_view path;   // "/index.html", "/assets/index-3fa9c1.js"
    std::string_view plain;  // its bytes
    std::string_view gzip;   // the same, packed
};

// All files of the page; cmake/helix_page.cmake writes this function.
std::span<const PageFile> page_files();
// nullptr when the page has no such file.
const PageFile* find_page_file(std::string_view path);

// Whether who asks for "/" can show a page: browsers name text/html, programs do not.
bool wants_page(const net::HttpRequest& request);

// Headers of every answer at this path, errors included, that keep a browser from running or
// loading what is not ours. path has no "/v1" before it.
net::HttpHeaders guarding_headers(std::string_view path);

// The file packed if the client takes that, or 304 if it has it. Files below /assets/ have names
// that change with their contents and are kept for good; index.html is asked for anew each time.
net::HttpResponse page_response(const PageFile& file, const net::HttpRequest& request);

}  // namespace helix::api
