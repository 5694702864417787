#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/error.h"
#include "base/hash.h"
#include "net/http_message.h"

// Answers that can be asked for again. A request may bring a key (Idempotency-Key): what of its
// answer is usually random is then made from the key, so that the same request with the same key
// gets the same answer at every server of the same model, and nothing has to be kept for that. A
// stream of such an answer says with each event how far it is, and whoever repeats the last of
// these marks (Last-Event-ID) gets what comes behind it.

namespace helix::api {

struct PreparedCompletion;

// How far a client is in a stream: "MODEL.REQUEST-N", or "-N.N.N" where there are several choices.
// How events of several choices mix is chance, so that those of each are counted for themselves.
// What belongs to no choice counts with the first one: it comes before or behind all of them.
struct StreamPlace {
    std::string model;
    std::string request;
    std::vector<std::int64_t> events;  // that the client has, by choice
};
// Nothing if it is none.
std::optional<StreamPlace> parse_stream_place(std::string_view text);

// What a request says in its headers.
struct AnswerKey {
    std::string key;                   // "" = none
    std::optional<StreamPlace> place;  // only with a key
};
std::optional<ApiError> read_answer_key(const net::HttpRequest& request, AnswerKey& key);

// What a key decides of an answer.
struct KeyedAnswer {
    std::uint64_t seed = 0;  // where the request has none
    std::uint64_t id = 0;
    // "MODEL.REQUEST", which tells this stream from all others; "" = its events are not numbered.
    std::string fingerprint;
    std::vector<std::int64_t> had;  // StreamPlace::events; empty = the client has none
};

// key is not empty; body is the hash of the request's body as it came. On success prepared has its
// KeyedAnswer.
std::optional<ApiError> apply_answer_key(const AnswerKey& key, const base::Hash128& body,
                                         PreparedCompletion& prepared);

}  // namespace helix::api
