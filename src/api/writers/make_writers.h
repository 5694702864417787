#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/preparation.h"
#include "api/writers/answer_writer.h"

// The writers of the protocol that a request came in. What they need of prepared they copy, but for
// the model, which must outlive them.

namespace helix::api {

// The id of the answer with this number, as the endpoint's clients expect it.
std::string answer_id(Endpoint endpoint, std::uint64_t number);

std::unique_ptr<StreamWriter> make_stream_writer(const PreparedCompletion& prepared,
                                                 const AnswerHead& head);
std::shared_ptr<const WholeWriter> make_whole_writer(const PreparedCompletion& prepared,
                                                     const AnswerHead& head);

}  // namespace helix::api
