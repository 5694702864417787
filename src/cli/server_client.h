#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/access_option.h"
#include "net/http_client.h"

// A server that runs, as commands ask it.

namespace helix::cli {

struct ServerArguments {
    std::string url = "http://127.0.0.1:8080";
    CallerKeys keys;
};
void add_server_options(CLI::App& command, ServerArguments& a);

class ServerClient {
  public:
    // Looks up the host and reads the keys; nothing is asked yet.
    static base::Result<ServerClient> connect(const ServerArguments& a);

    // What it answers, which is an object. Errors say what it said, or that nothing is there.
    base::Result<nlohmann::json> ask(const std::string& method, const std::string& path);
    const std::string& url() const { return url_; }
    // For calls of one's own, with headers that show the key.
    net::HttpClient& http() { return *http_; }
    net::HttpHeaders headers() const;

    // What an answer says of an error; "" when it says nothing.
    static std::string error_message(const nlohmann::json& body);
    // text as a part of a path.
    static std::string encoded(const std::string& text);

  private:
    ServerClient(std::string url, std::string key, std::unique_ptr<net::HttpClient> http)
        : url_(std::move(url)), key_(std::move(key)), http_(std::move(http)) {}

    std::string url_;
    std::string key_;  // that is sent
    std::unique_ptr<net::HttpClient> http_;
};

}  // namespace helix::cli
