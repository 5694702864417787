// rooms: net
// Requests as anybody may send them: however the bytes are cut the outcome is the same, and what is
// kept stays within the limits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/http_parser.h"

namespace {

using helix::net::HttpParser;
using Step = HttpParser::Step;

constexpr std::uint64_t kBodyLimit = 2000;

struct Outcome {
    Step end = Step::more;
    int status = 0;
    std::string method, path, query, body;
    helix::net::HttpHeaders headers;
    std::size_t taken = 0;
    bool operator==(const Outcome&) const = default;
};

Outcome parse(std::string_view text, std::size_t piece) {
    helix::net::HttpParserLimits limits;
    limits.max_header_bytes = 1000;
    limits.max_headers = 8;
    limits.max_chunk_line_bytes = 40;
    limits.max_chunk_extension_bytes = 60;
    limits.max_trailer_bytes = 100;
    HttpParser parser(limits);
    Outcome outcome;
    bool headed = false;
    while (true) {
        std::string_view data = text.substr(outcome.taken, piece);
        const std::size_t before = data.size();
        outcome.end = parser.step(data);
        outcome.taken += before - data.size();
        CHECK(parser.held_bytes() <= limits.max_header_bytes);
        CHECK(parser.head().headers.size() <= limits.max_headers);
        if (outcome.end == Step::head) {
            CHECK(!headed);
            headed = true;
            parser.allow_body(kBodyLimit);
        }
        if (outcome.end == Step::body) {
            CHECK(headed && !parser.piece().empty());
            outcome.body += parser.piece();
            CHECK(outcome.body.size() <= kBodyLimit);
        }
        if (outcome.end == Step::done || outcome.end == Step::refused) break;
        if (outcome.end == Step::more && outcome.taken == text.size()) break;
    }
    outcome.status = parser.refusal().status;
    CHECK((outcome.end == Step::refused) == (outcome.status != 0));
    // How far a refused request was read depends on how it came.
    if (outcome.end == Step::refused)
        return Outcome{outcome.end, outcome.status, {}, {}, {}, {}, {}, 0};
    outcome.method = parser.head().method;
    outcome.path = parser.head().path;
    outcome.query = parser.head().query;
    outcome.headers = parser.head().headers;
    return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Outcome whole = parse(text, std::max<std::size_t>(size, 1));
    CHECK(parse(text, 1) == whole);
    CHECK(parse(text, 7) == whole);
    return 0;
}
