#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/field_reader.h"
#include "api/handlers.h"
#include "api/heavy_work.h"
#include "api/jobs.h"
#include "api/json_text.h"
#include "api/preparation.h"
#include "api/protocols/kept_responses.h"

// OpenAI's /v1/responses: answers, and those that are kept.

namespace helix::api::handle {
namespace {

using OrderedJson = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

constexpr const char* kPrevious = "previous_response_id";

// What a request says of those before and after it.
struct Conversation {
    std::string previous;  // the id of the response that it goes on from; "" = none
    std::string items;     // its input with all that was said before: a JSON array
    bool store = false;    // the answer is to be kept
};

KeptResponses* kept_in(const ApiContext& context) {
    return context.jobs != nullptr ? &context.jobs->responses() : nullptr;
}

ApiError not_kept(const base::Error& error, const char* param) {
    ApiError answer = from_store(error);
    answer.param = param;
    return answer;
}

// Puts the items of the response that the request goes on from before its own.
MaybeError add_history(KeptResponses* kept, OrderedJson& body, Conversation& conversation) {
    FieldReader fields(body);
    conversation.store = kept != nullptr;
    bool wanted = true;
    fields.boolean(field::kStore, wanted);
    conversation.store = conversation.store && wanted;
    fields.text(field::kPreviousResponse, conversation.previous);
    if (fields.failed()) return fields.error();
    OrderedJson items = OrderedJson::array();
    if (!conversation.previous.empty()) {
        if (kept == nullptr) {
            fields.fail(kPrevious, "nothing is kept: the server has no --state-dir or --state");
            return fields.error();
        }
        auto record = kept->find(conversation.previous);
        if (!record.ok()) return not_kept(record.error(), kPrevious);
        items = OrderedJson::parse(record->items);
    }
    const auto input = body.find("input");
    if (input == body.end()) return {};  // an error that is found later
    if (input->is_string()) {
        items.push_back({{"role", "user"}, {"content", *input}});
    } else if (input->is_array() && !input->empty()) {
        for (OrderedJson& item : *input) items.push_back(std::move(item));
    } else {
        return {};  // likewise
    }
    if (conversation.store) conversation.items = items.dump();
    *input = std::move(items);
    body.erase(kPrevious);
    return {};
}

// Gives an answer to those that are kept, and has it written soon.
void keep_answer(ApiContext& context, const std::string& items, const std::string& answer) {
    OrderedJson made = OrderedJson::parse(answer);
    OrderedJson all = OrderedJson::parse(items);
    for (OrderedJson& item : made["output"]) all.push_back(std::move(item));
    KeptResponses& kept = context.jobs->responses();
    kept.keep({made["id"].get<std::string>(), answer, all.dump()});
    context.jobs->later([&kept] { kept.flush(); });
}

MaybeError prepare_response(ApiContext& context, HeavyInput& input, PreparedCompletion& prepared) {
    KeptResponses* kept = kept_in(context);
    Conversation conversation;
    std::string body = std::move(input.body);
    if (kept != nullptr || body.find(kPrevious) != std::string::npos) {
        OrderedJson object;
        const RequestLimits& limits = context.options.request_limits;
        if (auto error = read_body(limits, body, *prepared.share, object)) return error;
        if (auto error = add_history(kept, object, conversation)) return error;
        body = object.dump();
    }
    if (auto error =
            prepare_completion(context.options.request_limits, context.models, Endpoint::responses,
                               std::move(body), *input.dropped, prepared)) {
        return error;
    }
    std::string& settings = prepared.request.settings;
    settings += conversation.store ? ",\"store\":true,\"" : ",\"store\":false,\"";
    settings += kPrevious;
    settings += "\":";
    if (conversation.previous.empty()) {
        settings += "null";
    } else {
        append_json_string(settings, conversation.previous);
    }
    if (!conversation.store) return {};
    prepared.on_response = [c = &context, items = std::move(conversation.items)](
                               const std::string& answer) { keep_answer(*c, items, answer); };
    return {};
}

// Answers with what work finds, on a thread that may wait for a disk.
template <typename Work>
void with_kept(ApiContext& context, const Exchange& exchange, Words words, const Work& work) {
    KeptResponses* kept = kept_in(context);
    const std::string id(words[0]);
    if (kept == nullptr) {
        return context.refuse(*exchange, not_kept({base::Errc::not_found,
                                                   "No responses are kept: the server has no "
                                                   "--state-dir or --state."},
                                                  ""));
    }
    run_heavy(context, exchange, client_of(context, exchange->request()),
              [c = &context, exchange, kept, id, work](const HeavyInput& /*input*/) {
                  base::Result<std::string> found = work(*kept, id);
                  return Then([c, exchange, found = std::move(found)] {
                      if (!found.ok()) return c->refuse(*exchange, not_kept(found.error(), ""));
                      net::HttpResponse response;
                      response.body = *found;
                      c->respond(*exchange, response);
                  });
              });
}

}  // namespace

void responses(ApiContext& context, const Exchange& exchange, Words) {
    prepare_and_complete(context, exchange, client_of(context, exchange->request()),
                         [c = &context](HeavyInput& input, PreparedCompletion& prepared) {
                             return prepare_response(*c, input, prepared);
                         });
}

void get_response(ApiContext& context, const Exchange& exchange, Words words) {
    with_kept(context, exchange, words,
              [](KeptResponses& kept, const std::string& id) -> base::Result<std::string> {
                  TRY(store::ResponseRecord record, kept.find(id));
                  return std::move(record.body);
              });
}

void delete_response(ApiContext& context, const Exchange& exchange, Words words) {
    with_kept(context, exchange, words,
              [](KeptResponses& kept, const std::string& id) -> base::Result<std::string> {
                  TRY_VOID(kept.remove(id));
                  std::string body = "{\"id\":";
                  append_json_string(body, id);
                  return body + R"(,"object":"response","deleted":true})";
              });
}

}  // namespace helix::api::handle
