#include "cli/server_client.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/escape.h"
#include "spec/bounded_json.h"

namespace helix::cli {
namespace {

constexpr std::chrono::seconds kAnswerWithin{10};

}  // namespace

void add_server_options(CLI::App& command, ServerArguments& a) {
    command.add_option("--server", a.url, "of the coordinator's API")->capture_default_str();
    add_caller_keys(command, a.keys);
}

base::Result<ServerClient> ServerClient::connect(const ServerArguments& a) {
    TRY(std::string key, key_to_send(a.keys, AccessEnvironment::read()));
    TRY(net::HttpTarget target, net::parse_http_url(a.url));
    if (target.prefix.ends_with("/v1")) target.prefix.resize(target.prefix.size() - 3);
    TRY(auto http, net::HttpClient::create(std::move(target)));
    return ServerClient(a.url, std::move(key), std::move(http));
}

net::HttpHeaders ServerClient::headers() const {
    if (key_.empty()) return {};
    return {{"authorization", "Bearer " + key_}};
}

base::Result<nlohmann::json> ServerClient::ask(const std::string& method, const std::string& path) {
    net::HttpCall call;
    call.method = method;
    call.path = path;
    call.limit = kAnswerWithin;
    if (method != "GET") call.body = "{}";  // names its type
    call.headers = headers();
    const auto answer = net::http_call(*http_, std::move(call));
    if (!answer.ok()) {
        return base::Error{
            answer.error().code,
            fmt::format("{}: {}; is \"helix serve\" running there?", url_, answer.error().message)};
    }
    nlohmann::json body = spec::bounded_json_or_discarded(answer->body);
    if (answer->status / 100 == 2 && body.is_object()) return body;
    std::string message = fmt::format("answered with {}", answer->status);
    if (const std::string said = error_message(body); !said.empty()) message = said;
    if (answer->status == 401) {
        message += " Give a key with --admin-key-file or --api-key.";
    }
    return base::invalid(fmt::format("{}: {}", url_, base::escaped(message)));
}

std::string ServerClient::error_message(const nlohmann::json& body) {
    const nlohmann::json::json_pointer message("/error/message");
    if (body.is_object() && body.contains(message) && body[message].is_string()) {
        return body[message].get<std::string>();
    }
    return "";
}

std::string ServerClient::encoded(const std::string& text) {
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
        out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

}  // namespace helix::cli
