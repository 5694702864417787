#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Requests and answers as plain data, and the text around them.

namespace helix::net {

class SpooledBody;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
    std::string method;   // "GET", as sent
    std::string path;     // percent-decoded, without the query
    std::string query;    // after '?', as sent
    HttpHeaders headers;  // names in lower case
    std::string body;
    // Has the body in place of `body` if the server was told to keep this one on disk.
    std::shared_ptr<const SpooledBody> body_file = nullptr;
    std::string request_id;  // the client's x-request-id if it is a plain word, else one of ours
    std::string peer = {};   // the client's address without its port; "" = the request is our own
    // What body takes of the server's memory for bodies, given back with the last copy of this.
    std::shared_ptr<const void> body_share = nullptr;

    // The first header of this name, "" when there is none. name is in lower case.
    std::string_view header(std::string_view name) const;
    // The body, wherever it is kept.
    std::string_view body_text() const;
};

struct HttpResponse {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    HttpHeaders headers;
};

// "OK", "Not Found", ...; the name of its class for a status that nobody registered. status is 100
// to 599.
std::string_view status_text(int status);

// Undoes %XX; a '%' without two hexadecimal digits stays as it is.
std::string percent_decode(std::string_view text);

// Whether this text may stand in a header as it is: at most 128 letters, digits and "-_.:/".
bool is_plain_word(std::string_view text);

// How a body is delimited on the wire.
enum class Framing {
    length,   // content-length
    chunked,  // HTTP/1.1 streams
    close,    // HTTP/1.0 streams: the end of the connection ends the body
};

struct ResponseHead {
    int status = 200;
    std::string_view content_type;
    const HttpHeaders* headers = nullptr;
    std::string_view date;          // "" = not said
    std::string_view request_id;    // "" = not said
    std::string_view allow_origin;  // "" = no CORS headers
    Framing framing = Framing::length;
    std::size_t content_length = 0;
    bool keep_alive = true;
};

// Status line, headers and the empty line after them.
std::string format_head(const ResponseHead& head);

// One chunk of a chunked body, appended to out. data must not be empty: an empty chunk ends the
// body.
void append_chunk(std::string& out, std::string_view data);

}  // namespace helix::net
