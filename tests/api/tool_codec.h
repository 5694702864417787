#pragma once

#include "api_fixture.h"
#include "text/tool_calls/drawn_calls.h"

namespace helix::api {

// A model of bytes that writes Hermes' form or another. Its prompts may end inside a thought.
class ToolCodec final : public ByteCodec {
  public:
    ToolCodec(bool opens_thought, std::string_view form)
        : opens_thought_(opens_thought), form_(form) {}
    text::AnswerFormat answer_format() const override {
        const bool channels = form_ == "harmony";
        return {text::find_tool_format(form_),
                channels ? nullptr : text::find_reasoning_format("think")};
    }
    base::Result<spec::OutputGrammar> grammar_of_calls(const nlohmann::ordered_json& tools,
                                                       ToolChoice choice) const override {
        const auto named = text::tools_to_call(tools);
        const auto drawn = text::drawn_form(form_, "", [](std::string_view) { return false; });
        const text::WantedCalls wanted = {&*drawn, &named, choice.several, choice.demanded};
        TRY(std::string form, text::grammar_of_calls(wanted));
        return spec::OutputGrammar{spec::OutputGrammar::Kind::tool_calls, std::move(form)};
    }
    base::Result<std::vector<Token>> encode_chat(const ChatPrompt& prompt) const override {
        TRY(std::vector<Token> tokens, ByteCodec::encode_chat(prompt));
        if (!opens_thought_) return tokens;
        const std::vector<Token> open = encode("<think>\n", false);
        tokens.insert(tokens.end(), open.begin(), open.end());
        return tokens;
    }

  private:
    bool opens_thought_;
    std::string_view form_;
};

class ToolCalls : public ApiTest {
  protected:
    std::unique_ptr<const TextCodec> make_codec() override {
        return std::make_unique<ToolCodec>(opens_thought_, form_);
    }
    static std::string body(const std::string& more = {}) {
        return R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function",
            "function":{"name":"look","parameters":{"type":"object"}}}])" +
               more + "}";
    }
    // What the client gets when the model says this.
    net::TestClient::Response answer(const std::string& request_body, const std::string& said,
                                     core::FinishReason reason = core::FinishReason::stop) {
        auto c = client();
        c.request("POST", "/v1/chat/completions", request_body);
        auto request = service_.next();
        EXPECT_TRUE(request);
        if (!request) return {};
        request->say(said);
        if (reason == core::FinishReason::stop) request->token(kByteEnd);
        request->finish(reason);
        return c.read_response();
    }
    static std::vector<Json> chunks(const std::string& text) {
        std::vector<Json> parsed;
        for (const std::string& event : events(text)) {
            if (event != "[DONE]") parsed.push_back(Json::parse(event));
        }
        return parsed;
    }
    bool opens_thought_ = false;
    std::string_view form_ = "hermes";
};

}  // namespace helix::api
