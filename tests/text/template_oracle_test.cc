#include "template_oracle.h"
#include "base/effort.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/template/chat_template.h"

namespace helix::text::test_support {

namespace {

using nlohmann::ordered_json;

constexpr const char* kPython = "/usr/bin/python3";

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// The clock of tools/template_oracle.py: 26 July 2024, 14:05:09.
std::tm oracle_now() {
    std::tm now = {};
    now.tm_year = 124;
    now.tm_mon = 6;
    now.tm_mday = 26;
    now.tm_hour = 14;
    now.tm_min = 5;
    now.tm_sec = 9;
    now.tm_wday = 5;
    now.tm_yday = 207;
    return now;
}

}  // namespace

bool have_oracle() {
    const std::string command = std::string(kPython) + " -c 'import jinja2' >/dev/null 2>&1";
    return std::system(command.c_str()) == 0;
}

std::vector<OracleAnswer> ask_oracle(const std::vector<OracleJob>& jobs) {
    ordered_json list = ordered_json::array();
    for (const OracleJob& job : jobs)
        list.push_back({{"template", job.source}, {"context", job.context}});
    std::string folder = (std::filesystem::temp_directory_path() / "helix_oracle_XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    const std::filesystem::path in = std::filesystem::path(folder) / "jobs.json";
    const std::filesystem::path out = std::filesystem::path(folder) / "answers.json";
    std::ofstream(in) << list.dump();
    const std::string command = std::string(kPython) + " '" + HELIX_SOURCE_DIR +
                                "/tools/template_oracle.py' < '" + in.string() + "' > '" +
                                out.string() + "'";
    if (std::system(command.c_str()) != 0) {
        std::fprintf(stderr, "the oracle failed: %s\n", command.c_str());
        std::abort();
    }
    const ordered_json answers = ordered_json::parse(read_file(out));
    std::filesystem::remove_all(folder);
    std::vector<OracleAnswer> result;
    for (const auto& answer : answers) {
        OracleAnswer parsed;
        if (answer.contains("output")) parsed.output = answer["output"].get<std::string>();
        if (answer.contains("error")) parsed.error = answer["error"].get<std::string>();
        parsed.own_words = answer.value("kind", "") == "TemplateError";
        result.push_back(std::move(parsed));
    }
    return result;
}

OracleAnswer render_ours(const OracleJob& job) {
    OracleAnswer answer;
    const auto parsed = ChatTemplate::parse(job.source);
    if (!parsed.ok()) {
        answer.error = parsed.error().message;
        return answer;
    }
    const auto rendered = (*parsed)->render(job.context, oracle_now());
    if (rendered.ok()) {
        answer.output = *rendered;
    } else {
        answer.error = rendered.error().message;
    }
    return answer;
}

std::string difference(const OracleJob& job, const OracleAnswer& oracle, const OracleAnswer& ours) {
    const bool same_words = !oracle.own_words || oracle.error == ours.error;
    if (oracle.output == ours.output && same_words) return {};
    const auto show = [](const OracleAnswer& answer) {
        return answer.output ? "prints\n" + *answer.output : "raises " + answer.error;
    };
    return "jinja2 " + show(oracle) + "\nwe: " + show(ours) + "\ntemplate:\n" + job.source +
           "\ncontext: " + job.context.dump();
}

namespace {

ordered_json weather_tools() {
    return ordered_json::parse(R"([
      {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Which city, e.g. Zürich"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": ["integer", "null"], "default": 3}},
          "required": ["city"]}}},
      {"type": "function", "function": {"name": "add", "description": "Adds <two> numbers & 'more'",
        "parameters": {"type": "object", "properties": {
            "numbers": {"type": "array", "items": {"type": "number"}},
            "exact": {"type": "boolean", "default": true}},
          "required": ["numbers"]},
        "return": {"type": "number", "description": "the sum"}}}])");
}

struct Conversation {
    std::string name;
    ordered_json messages;
    bool with_tools = false;
};

ordered_json message(const char* role, ordered_json content) {
    return {{"role", role}, {"content", std::move(content)}};
}

std::vector<Conversation> plain_conversations() {
    const ordered_json system = message("system", "You are a terse assistant.");
    const ordered_json hello = message("user", "Hello there!");
    const ordered_json hi = message("assistant", "  Hi. What can I do?\n");
    const ordered_json more = message("user", "Tell me about pipelines,\n\nin two lines. ");
    const ordered_json parts = ordered_json::parse(
        R"([{"type": "text", "text": "First part."}, {"type": "text", "text": " Second part."}])");
    const ordered_json with_image =
        ordered_json::parse(R"([{"type": "image"}, {"type": "text", "text": "What is this?"}])");
    return {
        {"one question", ordered_json::array({hello})},
        {"with a system prompt", ordered_json::array({system, hello})},
        {"several turns", ordered_json::array({system, hello, hi, more})},
        {"ends with the assistant", ordered_json::array({hello, hi})},
        {"no messages", ordered_json::array()},
        {"empty text", ordered_json::array({message("system", ""), message("user", "")})},
        {"unicode",
         ordered_json::array({message("user", "Grüezi 😀 “quoted” \\ \"x\" 日本語 <b>&amp;</b>")})},
        {"two users in a row", ordered_json::array({hello, more})},
        {"assistant first", ordered_json::array({hi, hello})},
        {"system late", ordered_json::array({hello, system})},
        {"unknown role", ordered_json::array({message("narrator", "Once upon a time"), hello})},
        {"null content", ordered_json::array({hello, message("assistant", nullptr), more})},
        {"parts", ordered_json::array({message("user", parts), hi, message("user", parts)})},
        {"system in parts", ordered_json::array({message("system", parts), hello})},
        {"image", ordered_json::array({message("user", with_image)})},
        {"thinking",
         ordered_json::array({hello, message("assistant", "<think>\nhm\n</think>\n\nYes."), more})},
        {"developer role", ordered_json::array({message("developer", "Be kind."), hello})},
        {"no content", ordered_json::array({{{"role", "user"}}})},
        {"number as content", ordered_json::array({message("user", 12.5)})},
    };
}

std::vector<Conversation> tool_conversations() {
    const ordered_json hello = message("user", "Weather in Zürich, and 1+2?");
    const auto with_calls = [&](ordered_json calls, ordered_json content) {
        ordered_json said = message("assistant", std::move(content));
        said["tool_calls"] = std::move(calls);
        return said;
    };
    const ordered_json parsed_call = ordered_json::parse(
        R"({"id": "abcdefghi", "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "deep": {"a": [1, 2.5, null, true]}}}})");
    ordered_json text_call = parsed_call;
    text_call["function"]["arguments"] = parsed_call["function"]["arguments"].dump();
    ordered_json second_call = ordered_json::parse(
        R"({"id": "jklmnopqr", "type": "function", "function": {"name": "add", "arguments": {"numbers": [1, 2]}}})");
    ordered_json result = message("tool", "{\"temperature\": 21.5}");
    result["tool_call_id"] = "abcdefghi";
    result["name"] = "get_weather";
    ordered_json second_result = message("tool", "3");
    second_result["tool_call_id"] = "jklmnopqr";
    second_result["name"] = "add";
    const ordered_json answer = message("assistant", "21.5 degrees.");
    return {
        {"tools offered", ordered_json::array({hello}), true},
        {"tools and a system prompt", ordered_json::array({message("system", "Use tools."), hello}),
         true},
        {"tool call",
         ordered_json::array({hello, with_calls(ordered_json::array({parsed_call}), "")}), true},
        {"tool call with text",
         ordered_json::array({hello, with_calls(ordered_json::array({parsed_call}), "Wait.")}),
         true},
        {"tool call, null content, result",
         ordered_json::array(
             {hello, with_calls(ordered_json::array({parsed_call}), nullptr), result}),
         true},
        {"tool call as text, result, answer",
         ordered_json::array(
             {hello, with_calls(ordered_json::array({text_call}), ""), result, answer, hello}),
         true},
        {"two calls, two results",
         ordered_json::array({hello,
                              with_calls(ordered_json::array({parsed_call, second_call}), ""),
                              result, second_result, answer}),
         true},
        {"a result out of nowhere", ordered_json::array({result, hello}), true},
        {"calls without tools offered",
         ordered_json::array(
             {hello, with_calls(ordered_json::array({parsed_call}), nullptr), result}),
         false},
    };
}

std::vector<Conversation> all_conversations() {
    std::vector<Conversation> all = plain_conversations();
    for (Conversation& conversation : tool_conversations()) all.push_back(std::move(conversation));
    return all;
}

ordered_json context_of(const Conversation& conversation, bool prompt) {
    ordered_json context;
    context["messages"] = conversation.messages;
    context["tools"] = conversation.with_tools ? weather_tools() : ordered_json();
    context["documents"] = nullptr;
    context["add_generation_prompt"] = prompt;
    context["bos_token"] = "<s>";
    context["eos_token"] = "</s>";
    return context;
}

std::vector<ordered_json> variations(const Conversation& conversation) {
    std::vector<ordered_json> contexts{context_of(conversation, true),
                                       context_of(conversation, false)};
    ordered_json thinking = contexts[0];
    thinking["enable_thinking"] = false;
    thinking["thinking"] = true;
    thinking["reasoning_effort"] = "high";
    thinking["date_string"] = "1 Jan 2025";
    contexts.push_back(std::move(thinking));
    return contexts;
}

std::string compare_all(const std::vector<OracleJob>& jobs, std::size_t& printed,
                        std::size_t& raised) {
    const std::vector<OracleAnswer> answers = ask_oracle(jobs);
    EXPECT_EQ(answers.size(), jobs.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
        const std::string different = difference(jobs[i], answers[i], render_ours(jobs[i]));
        if (!different.empty()) return different;
        ++(answers[i].output ? printed : raised);
    }
    return {};
}

TEST(TemplateOracle, EveryRealTemplatePrintsEveryConversationAsJinja2Does) {
    if (!have_oracle()) GTEST_SKIP() << "python3-jinja2 is not installed";
    const std::filesystem::path folder = std::filesystem::path(HELIX_DATA_DIR) / "templates";
    if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no templates in " << folder;
    std::size_t templates = 0;
    std::size_t printed = 0;
    std::size_t raised = 0;
    std::vector<OracleJob> jobs;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".jinja") continue;
        ++templates;
        const std::string source = read_file(entry.path());
        const std::vector<Conversation> conversations = all_conversations();
        // A template's conversations begin with another one than those of the template before it.
        for (std::size_t i = kSanitized ? templates % 3 : 0; i < conversations.size();
             i += kSanitized ? 3 : 1) {
            for (ordered_json& context : variations(conversations[i]))
                jobs.push_back({source, std::move(context)});
        }
    }
    EXPECT_EQ(compare_all(jobs, printed, raised), "");
    EXPECT_GT(templates, 10u);
    EXPECT_GT(printed, jobs.size() / 2);
    EXPECT_GT(raised, 0u) << "some role order must be refused by some template";
}

}  // namespace

}  // namespace helix::text::test_support
