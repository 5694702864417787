#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

// What the answers of a hub mean for a download. Nothing here touches the network.

namespace helix::hub {

// Status and headers of an answer; names are in lower case, the last of two equal ones counts.
struct HttpHead {
    int status = 0;
    int version = 1;  // of HTTP: 1 or above
    std::map<std::string, std::string, std::less<>> headers;

    std::string header(std::string_view name) const;  // "" when it is not there
};

// "bytes 5-9/20": all inclusive; total is absent for "*".
struct ContentRange {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::optional<std::uint64_t> total;
    bool operator==(const ContentRange&) const = default;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

// How long to wait before the next try, by Retry-After (seconds) or RateLimit ("...;r=0;t=55": one
// second more than t), at most ten minutes.
std::optional<base::Duration> asked_pause(const HttpHead& head);
// The address of the next page in a Link header, "" when there is none.
std::string next_page(std::string_view link);
// An ETag without "W/" and quotes.
std::string plain_etag(std::string_view etag);
// True for an ETag that two equal representations alone share.
bool is_strong_etag(std::string_view etag);

// An address from a header, which may be relative to that of the request. Error invalid: it is no
// http or https address, or would go from https to http.
base::Result<std::string> follow_address(const std::string& from, const std::string& to);
// Same scheme, host and port: only there may a token go.
bool same_origin(const std::string& a, const std::string& b);
// True when nobody on the way can listen: https, or the host is this machine.
bool keeps_secrets(const std::string& address);
// The address without query, fragment, user and password: what may stand in a message.
std::string shown_address(const std::string& address);
// Text as a part of a path or, with slashes kept, as a whole path of an address.
std::string escaped_path(std::string_view text, bool keep_slashes);

// What was asked of a server that has the bytes of a file.
struct ByteRequest {
    std::uint64_t offset = 0;           // of the first byte that is wanted
    std::optional<std::uint64_t> end;   // of the byte after the last; absent: all that is left
    std::optional<std::uint64_t> size;  // of the whole file, where it is known
    bool signed_address = false;        // it was given for this download, and may have expired
};

enum class Next {
    take,         // the body is what was asked for
    start_over,   // the body is the whole file, from byte 0
    ask_from_0,   // the part that is there cannot be continued: ask for the whole file
    follow,       // to the address in Location
    new_address,  // this one has expired: ask the hub for another
    wait,         // for pause, then ask again
    try_again,    // after a pause that grows
    give_up,      // error says why
};
struct Verdict {
    Next next = Next::give_up;
    base::Duration pause;
    base::Error error;  // also of what is tried again: what to say when no more tries are left
};
// address is for messages.
Verdict judge_bytes(const ByteRequest& request, const HttpHead& head, const std::string& address);
// The same for lists, heads and other small answers: never start_over, ask_from_0, new_address.
Verdict judge_small(const HttpHead& head, const std::string& address);
// True when the end of a body shows: without a length or frames a cut one looks like a whole one.
bool shows_its_end(const HttpHead& head);
// How long the whole file is by the head of an answer with its bytes.
std::optional<std::uint64_t> whole_size(const HttpHead& head);

// What a refusal by the hub means for who asked: that the model is gated, is not there or needs a
// token, was taken down. what is the repository and perhaps a file in it, has_token whether the
// request had one.
base::Error hub_refusal(const HttpHead& head, const std::string& endpoint, const std::string& what,
                        bool has_token);

}  // namespace helix::hub
