#include "node/pair.h"

#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/pairing.h"
#include "base/escape.h"
#include "base/hex.h"
#include "net/http_client.h"
#include "net/pake.h"
#include "spec/bounded_json.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using nlohmann::json;

constexpr std::uint64_t kLongestPairingAnswer = 64U << 10U;  // bytes
constexpr std::size_t kMostSealedBytes = 1024;

std::string text_in(const json& body, const char* field) {
    const auto found = body.find(field);
    return found != body.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// What a coordinator says when it does not do as it was asked.
Error refusal(const std::string& where, int status, const json& body) {
    const json::json_pointer at("/error/message");
    const std::string said = body.is_object() && body.contains(at) && body[at].is_string()
                                 ? base::escaped(body[at].get<std::string>())
                                 : fmt::format("it answers {}", status);
    const Errc code = status == 403   ? Errc::denied
                      : status == 429 ? Errc::overloaded
                      : status == 404 ? Errc::not_found
                                      : Errc::invalid;
    return {code, fmt::format("{}: {}", where, said)};
}

class PairingServer {
  public:
    static Result<PairingServer> find(const Address& address, std::chrono::milliseconds timeout) {
        TRY(auto client, net::HttpClient::create({address.host, std::to_string(address.port), ""}));
        return PairingServer(std::move(client), fmt::format("{}:{}", address.host, address.port),
                             timeout);
    }
    const std::string& where() const { return where_; }

    Result<json> ask(const std::string& path, const json& body) {
        const auto answer = net::http_call(*client_, {.method = "POST",
                                                      .path = path,
                                                      .body = body.dump(),
                                                      .limit = timeout_,
                                                      .most_body_bytes = kLongestPairingAnswer});
        if (!answer.ok()) return Error{Errc::unavailable, answer.error().message};
        json out = spec::bounded_json_or_discarded(answer->body);
        if (answer->status != 200) return refusal(where_, answer->status, out);
        if (!out.is_object()) return base::invalid(where_ + ": no Helix coordinator answers there");
        return out;
    }

  private:
    PairingServer(std::unique_ptr<net::HttpClient> client, std::string where,
                  std::chrono::milliseconds timeout)
        : client_(std::move(client)), where_(std::move(where)), timeout_(timeout) {}

    std::unique_ptr<net::HttpClient> client_;
    std::string where_;
    std::chrono::milliseconds timeout_;
};

Error unknown_code(const std::string& where) {
    return {
        Errc::denied,
        where + ": who answers there does not know the pairing code; it may be another machine"};
}

// Checks that the other side knew the code, and that it has the key that it said at the beginning.
base::Status check_proof(const std::string& where, const net::PakeSession& session,
                         const json& answer, const std::string& public_key) {
    const auto tag =
        base::from_hex(text_in(answer, "confirmation"), net::PakeSession::kConfirmationBytes);
    if (!tag || !session.confirms(*tag)) return unknown_code(where);
    const std::string digits = text_in(answer, "sealed");
    if (digits.size() > 2 * kMostSealedBytes) return unknown_code(where);
    const auto sealed = base::from_hex(digits, digits.size() / 2);
    const auto text = sealed ? session.open(*sealed) : std::nullopt;
    if (!text) return unknown_code(where);
    const json inner = spec::bounded_json_or_discarded(*text);
    if (!inner.is_object() || text_in(inner, "public_key") != public_key) {
        return unknown_code(where);
    }
    return base::Ok{};
}

}  // namespace

Result<net::WorkerKey> pair_with(const Address& address, const std::string& name,
                                 const std::string& code, std::chrono::milliseconds timeout) {
    TRY_VOID(net::check_worker_name(name));
    TRY(PairingServer coordinator, PairingServer::find(address, timeout));
    const std::string session_name = net::random_pake_session();
    const std::string session_digits = base::to_hex(session_name);
    const net::PakeParty party(net::PakeRole::initiator, {code, api::kPairingChannel, session_name},
                               name);
    TRY(const json begun,
        coordinator.ask("/helix/pairing/begin", {{"name", name},
                                                 {"session", session_digits},
                                                 {"share", net::to_hex(party.message().share)}}));
    net::PakeMessage theirs;
    theirs.about = text_in(begun, "public_key");
    const auto share = net::point_from_hex(text_in(begun, "share"));
    if (!share || !net::is_z85_key(theirs.about)) {
        return base::invalid(coordinator.where() + ": no Helix coordinator answers there");
    }
    theirs.share = *share;
    const auto session = party.accept(theirs);
    if (!session) return unknown_code(coordinator.where());
    net::WorkerKey key{name, net::make_key_pair(), theirs.about};
    const json inner = {{"public_key", key.pair.public_key}};
    TRY(const json finished,
        coordinator.ask("/helix/pairing/finish",
                        {{"session", session_digits},
                         {"confirmation", base::to_hex(session->confirmation())},
                         {"sealed", base::to_hex(session->seal(inner.dump()))}}));
    TRY_VOID(check_proof(coordinator.where(), *session, finished, theirs.about));
    return key;
}

std::string machine_worker_name() {
    std::array<char, 65> host = {};
    ::gethostname(host.data(), host.size() - 1);
    std::string name = host.data();
    for (char& c : name) {
        if (!net::is_worker_name(std::string_view(&c, 1))) c = '-';
    }
    return name.empty() ? "worker" : name;
}

}  // namespace helix::node
