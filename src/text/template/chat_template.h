#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/template/budget.h"

namespace helix::text {

namespace jinja {
struct Stmt;
}

// What a chat template is given besides its own text.
struct ChatRequest {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    nlohmann::ordered_json tools;  // null: none were given
    bool add_generation_prompt = true;
    std::string bos_token;
    std::string eos_token;
    nlohmann::ordered_json extra =
        nlohmann::ordered_json::object();  // more variables, e.g. enable_thinking
    std::tm now = {};                      // local time of the request, for strftime_now
};

// A model's chat template: Jinja as transformers' apply_chat_template sets it up (trim_blocks,
// lstrip_blocks, no changing of lists and dicts, break and continue, tojson that keeps Unicode).
// Immutable after parse(); any number of threads may render at once.
//
// Not supported, with an error that says so: include, import, extends, block; integers beyond 64
// bits.
class ChatTemplate {
  public:
    // An error names the line, what was found and what was expected.
    static base::Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);

    // `context` is an object: its members are the template's variables. When the template calls
    // raise_exception(message), the error is that message as it stands; any other error names its
    // line.
    base::Result<std::string> render(const nlohmann::ordered_json& context, const std::tm& now = {},
                                     const jinja::RenderLimits& limits = {}) const;

    // The prompt text of a conversation.
    base::Result<std::string> render_chat(const ChatRequest& request) const;

    ~ChatTemplate();
    ChatTemplate(const ChatTemplate&) = delete;
    ChatTemplate& operator=(const ChatTemplate&) = delete;

  private:
    explicit ChatTemplate(std::vector<jinja::Stmt> body);

    std::vector<jinja::Stmt> body_;
};

}  // namespace helix::text
