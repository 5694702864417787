#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/server_client.h"

// One conversation with a server over POST /v1/chat/completions.

namespace helix::cli {

struct ChatSettings {
    std::string model;   // "" = the first that the server names
    std::string system;  // "" = none
    std::optional<double> temperature;
    std::optional<double> top_p;
    std::optional<std::int64_t> seed;
    std::int64_t max_tokens = 0;  // 0 = as the server has it
};

struct ChatAnswer {
    std::string content;
    std::string reasoning;
    std::string finish_reason;  // "" when it was cut off
    std::int64_t prompt_tokens = 0;
    std::int64_t answer_tokens = 0;
    double ttft_s = 0;
    std::optional<double> tokens_per_s;  // after the first token; none of fewer than two
};

// What is heard while an answer comes.
struct ChatEvents {
    std::function<void(std::string_view text)> on_content;
    std::function<void(std::string_view text)> on_reasoning;
    // Asked ten times a second: true ends the answer.
    std::function<bool()> stops;
};

class Conversation {
  public:
    Conversation(ServerArguments server, ChatSettings settings)
        : server_(std::move(server)), settings_(std::move(settings)) {}

    // Puts the question to the server and waits for the answer. Both become part of the
    // conversation when it came to its end or was stopped; after an error neither does.
    base::Result<ChatAnswer> ask(const std::string& question, const ChatEvents& events);
    // Forgets what was said.
    void clear() { turns_.clear(); }
    ChatSettings& settings() { return settings_; }

  private:
    struct Turn {
        const char* role;
        std::string content;
    };
    std::string body(const std::string& question) const;

    ServerArguments server_;
    ChatSettings settings_;
    std::vector<Turn> turns_;
};

}  // namespace helix::cli
