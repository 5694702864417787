// rooms: net
// Forms as anybody may send them: every content lies within the body.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "net/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    // The first line is the content type.
    const std::size_t end = input.find('\n');
    const std::string_view type = input.substr(0, end);
    const std::string_view body =
        end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
    for (const std::string_view t : {type, std::string_view("multipart/form-data; boundary=X")}) {
        const auto parts = helix::net::parse_form(t, body);
        if (!parts.ok()) continue;
        for (const helix::net::FormPart& part : *parts) {
            CHECK(part.content.data() >= body.data());
            CHECK(part.content.data() + part.content.size() <= body.data() + body.size());
        }
    }
    helix::net::query_value(type, "a");
    return 0;
}
