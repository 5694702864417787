// Calls rendered by vendors' own chat templates are read back as they were.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "answer_reader.h"
#include "text/template/call_history.h"

namespace helix::text::tool_templates_test {
namespace {

using nlohmann::ordered_json;
using test_support::demo_tools;
using test_support::read_answer;
using test_support::ReadAnswer;

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

bool no_token(std::string_view /*text*/) {
    return false;
}

// The form of each template that renders calls. Two more cannot be given tools as others are
// (ThatNeedAnotherProgramSaySo).
const std::map<std::string, std::string>& forms() {
    static const std::map<std::string, std::string> kForms = {
        {"Apertus-8B-Instruct", "apertus"},
        {"ByteDance-Seed-OSS", "seed_oss"},
        {"CohereForAI-c4ai-command-r-plus-tool_use", "command_r"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command_r"},
        {"Mistral-Small-3.2-24B-Instruct-2506", "mistral"},
        {"NVIDIA-Nemotron-Nano-v2", "nemotron"},
        {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
        {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
        {"Qwen-QwQ-32B", "hermes"},
        {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
        {"Qwen-Qwen3-0.6B", "hermes"},
        {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek"},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek"},
        {"deepseek-ai-DeepSeek-V3.1", "deepseek"},
        {"meetkai-functionary-medium-v3.1", "functionary_v31"},
        {"meetkai-functionary-medium-v3.2", "functionary_v32"},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama3_json"},
        {"meta-llama-Llama-3.2-3B-Instruct", "llama3_json"},
        {"meta-llama-Llama-3.3-70B-Instruct", "llama3_json"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
        {"moonshotai-Kimi-K2", "kimi_k2"},
        {"openai-gpt-oss-120b", "harmony"},
        {"unsloth-mistral-Devstral-Small-2507", "mistral"},
    };
    return kForms;
}

// The last message of a conversation, as the template writes it: what is behind the prompt.
struct Rendered {
    std::string prompt;
    std::string answer;
};

ordered_json tools_json() {
    return ordered_json::parse(R"([{"type": "function", "function": {"name": "get_weather",
        "description": "The weather", "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "a city"},
        "note": {"type": "string", "description": "any"}}, "required": ["city"]}}},
      {"type": "function", "function": {"name": "now", "description": "The time", "parameters":
        {"type": "object", "properties": {"zone": {"type": "string", "description": "its zone"}},
         "required": ["zone"]}}}])");
}

ordered_json one_call() {
    return ordered_json::parse(R"([{"id": "abcdefghi", "type": "function", "function": {
        "name": "get_weather", "arguments": {"city": "Zürich", "note": "a \"b\"\n<c> {d}"}}}])");
}

ordered_json two_calls() {
    ordered_json calls = one_call();
    calls.push_back(ordered_json::parse(R"({"id": "jklmnopqr", "type": "function", "function": {
        "name": "now", "arguments": {"zone": "CET"}}})"));
    return calls;
}

base::Result<Rendered> render(const ChatTemplate& chat_template, const CallStyle& style,
                              const ordered_json& calls) {
    ChatRequest request;
    request.messages = ordered_json::array({{{"role", "user"}, {"content", "Well?"}}});
    request.tools = tools_in_style(style, tools_json());
    request.bos_token = "<s>";
    Rendered rendered;
    TRY(rendered.prompt, chat_template.render_chat(request));
    ordered_json message = {{"role", "assistant"}, {"content", nullptr}};
    message["tool_calls"] = calls;
    request.messages.push_back(std::move(message));
    request.add_generation_prompt = false;
    bring_history_into_style(style, request.messages);
    TRY(const std::string all, chat_template.render_chat(request));
    std::size_t same = 0;
    while (same < std::min(all.size(), rendered.prompt.size()) &&
           all[same] == rendered.prompt[same]) {
        ++same;
    }
    // Both may go on with a tag.
    const std::size_t tag = all.rfind('<', same);
    if (tag < same && all.find('>', tag) >= same) same = tag;
    rendered.answer = all.substr(same);
    return rendered;
}

// Up to the token that ends the turn, which is no text.
std::string without_end(std::string answer) {
    for (const std::string_view end :
         {"<|im_end|>", "<|eot_id|>", "<|call|>", "<｜end▁of▁sentence｜>", "<seed:eos>",
          "<|END_OF_TURN_TOKEN|>", "<SPECIAL_12>", "<|eom_id|>", "<|assistant_end|>"}) {
        answer = answer.substr(0, answer.find(end));
    }
    while (!answer.empty() && answer.back() == '\n') answer.pop_back();
    return answer;
}

class ToolTemplates : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::path(HELIX_DATA_DIR) / "templates";
        if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no templates in " << folder_;
    }
    std::filesystem::path folder_;
};

void expect_calls(const ReadAnswer& answer, const ordered_json& calls, const std::string& where) {
    ASSERT_EQ(answer.calls.size(), calls.size()) << where << "\n" << answer.describe();
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const ordered_json& function = calls[i]["function"];
        EXPECT_EQ(answer.calls[i].name, function["name"]) << where;
        EXPECT_TRUE(answer.calls[i].complete) << where;
        EXPECT_EQ(nlohmann::json::parse(answer.calls[i].arguments, nullptr, false),
                  nlohmann::json(function["arguments"]))
            << where << ": " << answer.calls[i].arguments;
    }
}

TEST_F(ToolTemplates, CallsAreReadBackAsTheyWereRendered) {
    std::size_t read = 0;
    for (const auto& [name, form] : forms()) {
        const auto path = folder_ / (name + ".jinja");
        if (!std::filesystem::exists(path)) continue;
        const std::string source = read_file(path);
        const auto parsed = ChatTemplate::parse(source);
        ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.error().message;
        const ToolFormat& format = detect_tool_format(source, no_token);
        EXPECT_EQ(format.name, form) << name;
        const CallStyle style = probe_call_style(**parsed, format);
        EXPECT_FALSE(style.generic) << name;
        for (const ordered_json& calls : {one_call(), two_calls()}) {
            const auto rendered = render(**parsed, style, calls);
            // Some take one call at a time.
            if (calls.size() > 1 && (!rendered.ok() || form == "harmony")) continue;
            ASSERT_TRUE(rendered.ok()) << name << ": " << rendered.error().message;
            AnswerParser::Options options;
            options.format = {&format, detect_reasoning_format(source, no_token)};
            options.tools = std::make_shared<ToolSchemas>(tools_json());
            const std::string text = without_end(rendered->answer);
            const std::string where = name + "\n" + text;
            const ReadAnswer answer = read_answer(options, text);
            expect_calls(answer, calls, where);
            std::vector<std::size_t> bytes;
            for (std::size_t i = 1; i < text.size(); ++i) bytes.push_back(i);
            EXPECT_EQ(read_answer(options, text, bytes), answer) << where;
            ++read;
        }
    }
    EXPECT_GT(read, 0U);
}

TEST_F(ToolTemplates, WhoKnowsNoToolsGetsTheGenericForm) {
    for (const char* name :
         {"google-gemma-2-2b-it", "microsoft-Phi-3.5-mini-instruct", "llama-cpp-rwkv-world"}) {
        const auto path = folder_ / (std::string(name) + ".jinja");
        if (!std::filesystem::exists(path)) continue;
        const std::string source = read_file(path);
        const ToolFormat& format = detect_tool_format(source, no_token);
        EXPECT_EQ(format.name, "generic") << name;
        const auto parsed = ChatTemplate::parse(source);
        ASSERT_TRUE(parsed.ok()) << name;
        const CallStyle style = probe_call_style(**parsed, format);
        EXPECT_TRUE(style.generic) << name;
        ordered_json messages = ordered_json::parse(
            R"([{"role": "user", "content": "Well?"}, {"role": "assistant", "content": null},
                {"role": "tool", "tool_call_id": "abcdefghi", "content": "cold"},
                {"role": "assistant", "content": "It is cold."}])");
        messages[1]["tool_calls"] = one_call();
        bring_history_into_style(style, messages);
        tell_of_tools(tools_json(), messages);
        ChatRequest request;
        request.messages = messages;
        const auto rendered = (*parsed)->render_chat(request);
        ASSERT_TRUE(rendered.ok()) << name << ": " << rendered.error().message;
        for (const char* text : {"get_weather", "Well?", "<tool_call>", "cold", "Zürich"}) {
            EXPECT_NE(rendered->find(text), std::string::npos) << name << ": " << text;
        }
    }
}

TEST_F(ToolTemplates, PromptsThatOpenAThoughtAreSeen) {
    const std::map<std::string, bool> opens = {
        {"Qwen-QwQ-32B", true},
        {"NVIDIA-Nemotron-Nano-v2", true},
        {"llama-cpp-deepseek-r1", true},
        {"Qwen-Qwen3-0.6B", false},
        {"deepseek-ai-DeepSeek-V3.1", false},
    };
    for (const auto& [name, opened] : opens) {
        const auto path = folder_ / (name + ".jinja");
        if (!std::filesystem::exists(path)) continue;
        const std::string source = read_file(path);
        const auto parsed = ChatTemplate::parse(source);
        ASSERT_TRUE(parsed.ok()) << name;
        ChatRequest request;
        request.messages = ordered_json::array({{{"role", "user"}, {"content", "Well?"}}});
        const auto rendered = (*parsed)->render_chat(request);
        ASSERT_TRUE(rendered.ok()) << name;
        const AnswerFormat format = {nullptr, detect_reasoning_format(source, no_token)};
        ASSERT_NE(format.reasoning, nullptr) << name;
        EXPECT_EQ(format.begins_in_thought(*rendered), opened) << name;
    }
}

// Two templates ask for what no API gives. What is wrong is said, and the first takes its variables
// from chat_template_kwargs.
TEST_F(ToolTemplates, ThatNeedAnotherProgramSaySo) {
    ChatRequest request;
    request.messages = ordered_json::array({{{"role", "user"}, {"content", "Well?"}}});
    request.tools = tools_json();
    for (const auto& [name, wrong] : std::map<std::string, std::string>{
             {"fireworks-ai-llama-3-firefunction-v2", "functions"},
             // map() gives a generator in Jinja, and a list in llama.cpp, for which this is.
             {"llama-cpp-deepseek-r1", "Object of type generator is not JSON serializable"}}) {
        const auto path = folder_ / (name + ".jinja");
        if (!std::filesystem::exists(path)) continue;
        const auto parsed = ChatTemplate::parse(read_file(path));
        ASSERT_TRUE(parsed.ok()) << name;
        const auto rendered = (*parsed)->render_chat(request);
        ASSERT_FALSE(rendered.ok()) << name;
        EXPECT_NE(rendered.error().message.find(wrong), std::string::npos)
            << rendered.error().message;
        if (wrong != "functions") continue;
        ChatRequest given = request;
        given.extra = {{"functions", request.tools.dump()}, {"datetime", "now"}};
        const auto whole = (*parsed)->render_chat(given);
        ASSERT_TRUE(whole.ok()) << whole.error().message;
        EXPECT_NE(whole->find("get_weather"), std::string::npos);
    }
}

}  // namespace
}  // namespace helix::text::tool_templates_test
