#include "text/tool_calls/tool_format.h"

#include "base/check.h"
#include "text/tool_calls/harmony_calls.h"
#include "text/tool_calls/json_calls.h"
#include "text/tool_calls/named_calls.h"
#include "text/tool_calls/tagged_calls.h"
#include "text/tool_calls/written_calls.h"

namespace helix::text {
namespace {

using NewParser = std::unique_ptr<CallParser>;

NewParser make_hermes(CallContext context) {
    static const JsonCallsForm kForm = {.openers = {"<tool_call>"}, .closers = {"</tool_call>"}};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_llama3(CallContext context) {
    static const JsonCallsForm kForm = {
        .openers = {"<|python_tag|>"}, .closers = {}, .bare = true, .builtins = true};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_granite(CallContext context) {
    static const JsonCallsForm kForm = {.openers = {"<|tool_call|>", "<tool_call>"},
                                        .closers = {"</tool_call>"}};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_command_r(CallContext context) {
    static const JsonCallsForm kForm = {
        .openers = {"<|START_ACTION|>", "Action:\n```json", "Action: ```json"},
        .closers = {"<|END_ACTION|>", "```"}};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_functools(CallContext context) {
    static const JsonCallsForm kForm = {.openers = {"functools"}, .closers = {}};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_nemotron(CallContext context) {
    static const JsonCallsForm kForm = {.openers = {"<TOOLCALL>"}, .closers = {"</TOOLCALL>"}};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_apertus(CallContext context) {
    static const JsonCallsForm kForm = {.openers = {"<|tools_prefix|>"},
                                        .closers = {"<|tools_suffix|>"},
                                        .object = {.name_is_key = true}};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_generic(CallContext context) {
    static const JsonCallsForm kForm = {
        .openers = {"<tool_call>"}, .closers = {"</tool_call>"}, .bare = true};
    return std::make_unique<JsonCalls>(context, kForm);
}

NewParser make_mistral(CallContext context) {
    static const NamedCallsForm kForm = {
        .openers = {"[TOOL_CALLS]"}, .fillers = {}, .read_head = read_mistral_head};
    return std::make_unique<NamedCalls>(context, kForm);
}

NewParser make_deepseek(CallContext context) {
    static const NamedCallsForm kForm = {
        .openers = {"<｜tool▁call▁begin｜>"},
        .fillers = {"<｜tool▁calls▁begin｜>", "```<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>",
                    "<｜tool▁calls▁end｜>"},
        .read_head = read_deepseek_head};
    return std::make_unique<NamedCalls>(context, kForm);
}

NewParser make_kimi(CallContext context) {
    static const NamedCallsForm kForm = {
        .openers = {"<|tool_call_begin|>"},
        .fillers = {"<|tool_calls_section_begin|>", "<|tool_call_end|>",
                    "<|tool_calls_section_end|>"},
        .read_head = read_kimi_head};
    return std::make_unique<NamedCalls>(context, kForm);
}

NewParser make_functionary_v31(CallContext context) {
    static const NamedCallsForm kForm = {
        .openers = {"<function="}, .fillers = {"</function>"}, .read_head = read_tag_head};
    return std::make_unique<NamedCalls>(context, kForm);
}

NewParser make_functionary_v32(CallContext context) {
    static const NamedCallsForm kForm = {.openers = {">>>"},
                                         .fillers = {},
                                         .read_head = read_line_head,
                                         .begins_in_head = true,
                                         .content_head = "all"};
    return std::make_unique<NamedCalls>(context, kForm);
}

// Seed-OSS writes the same between tags of its own.
TaggedCallsForm function_tags(std::string_view open, std::string_view close) {
    return {.fillers = {open, close},
            .call_open = "<function=",
            .name_ends = {">"},
            .parameter_open = "<parameter=",
            .parameter_name_end = ">",
            .value_open = {},
            .value_ends = {"</parameter>", "\n</parameter>", "\n<parameter=", "\n</function>"},
            .call_closes = {"</function>", close},
            .strips_line_ends = true};
}

NewParser make_qwen3_coder(CallContext context) {
    static const TaggedCallsForm kForm = function_tags("<tool_call>", "</tool_call>");
    return std::make_unique<TaggedCalls>(context, kForm);
}

NewParser make_seed(CallContext context) {
    static const TaggedCallsForm kForm = function_tags("<seed:tool_call>", "</seed:tool_call>");
    return std::make_unique<TaggedCalls>(context, kForm);
}

NewParser make_minimax(CallContext context) {
    static const TaggedCallsForm kForm = {
        .fillers = {"<minimax:tool_call>", "</minimax:tool_call>"},
        .call_open = "<invoke name=",
        .name_ends = {">"},
        .parameter_open = "<parameter name=",
        .parameter_name_end = ">",
        .value_open = {},
        .value_ends = {"</parameter>", "\n</parameter>"},
        .call_closes = {"</invoke>", "</minimax:tool_call>"},
        .strips_line_ends = true};
    return std::make_unique<TaggedCalls>(context, kForm);
}

NewParser make_deepseek_v32(CallContext context) {
    static const TaggedCallsForm kForm = {
        .fillers = {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>", "<｜DSML｜tool_calls>",
                    "</｜DSML｜tool_calls>"},
        .call_open = "<｜DSML｜invoke name=",
        .name_ends = {">"},
        .parameter_open = "<｜DSML｜parameter name=",
        .parameter_name_end = ">",
        .value_open = {},
        .value_ends = {"</｜DSML｜parameter>"},
        .call_closes = {"</｜DSML｜invoke>"}};
    return std::make_unique<TaggedCalls>(context, kForm);
}

NewParser make_glm(CallContext context) {
    static const TaggedCallsForm kForm = {.fillers = {},
                                          .call_open = "<tool_call>",
                                          .name_ends = {"<arg_key>", "</tool_call>"},
                                          .parameter_open = "<arg_key>",
                                          .parameter_name_end = "</arg_key>",
                                          .value_open = "<arg_value>",
                                          .value_ends = {"</arg_value>"},
                                          .call_closes = {"</tool_call>"}};
    return std::make_unique<TaggedCalls>(context, kForm);
}

NewParser make_pythonic(CallContext context) {
    return std::make_unique<PythonicCalls>(context, PythonicForm{});
}

NewParser make_lfm2(CallContext context) {
    return std::make_unique<PythonicCalls>(
        context, PythonicForm{"<|tool_call_start|>", "<|tool_call_end|>"});
}

NewParser make_gemma(CallContext context) {
    return std::make_unique<GemmaCalls>(context);
}

NewParser make_harmony(CallContext context) {
    return std::make_unique<HarmonyCalls>(context);
}

std::vector<ToolFormat> json_formats() {
    return {
        {.name = "hermes",
         .about = "Hermes, Qwen 2.5 and 3, MiMo: JSON between <tool_call> tags",
         .markers = {"<tool_call>", "</tool_call>"},
         .make = make_hermes},
        {.name = "llama3_json",
         .about = "LLaMA 3.1 to 3.3: the answer is JSON, or a call behind <|python_tag|>",
         .markers = {"<|python_tag|>"},
         .make = make_llama3},
        {.name = "granite",
         .about = "Granite 3 and 4: a JSON list behind <|tool_call|> or <tool_call>",
         .markers = {"<|tool_call|>", "<tool_call>", "</tool_call>"},
         .make = make_granite},
        {.name = "command_r",
         .about = "Command R7B, A and R+: a JSON list of actions",
         .markers = {"<|START_ACTION|>", "<|END_ACTION|>"},
         .make = make_command_r},
        {.name = "phi4",
         .about = "Phi-4-mini, Firefunction: a JSON list behind functools",
         .make = make_functools},
        {.name = "nemotron",
         .about = "Nemotron Nano 2: a JSON list between <TOOLCALL> tags",
         .markers = {"<TOOLCALL>", "</TOOLCALL>"},
         .make = make_nemotron},
        {.name = "apertus",
         .about = "Apertus: a JSON list behind <|tools_prefix|>",
         .markers = {"<|tools_prefix|>", "<|tools_suffix|>"},
         .make = make_apertus},
        {.name = "generic",
         .about = "models that know no tools: JSON that names a tool of the request",
         .markers = {"<tool_call>", "</tool_call>"},
         .make = make_generic},
    };
}

std::vector<ToolFormat> named_formats() {
    return {
        {.name = "mistral",
         .about = "Mistral: [TOOL_CALLS], a JSON list or name and arguments",
         .markers = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
         .ids = CallIds::nine_alphanum,
         .make = make_mistral},
        {.name = "deepseek",
         .about = "DeepSeek R1, V3 and V3.1",
         .markers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                     "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
         .make = make_deepseek},
        {.name = "kimi_k2",
         .about = "Kimi K2",
         .markers = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                     "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                     "<|tool_calls_section_end|>"},
         .ends_thought = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
         .make = make_kimi},
        {.name = "functionary_v31",
         .about = "Functionary 3.1: JSON in a tag <function=NAME>",
         .make = make_functionary_v31},
        {.name = "functionary_v32",
         .about = "Functionary 3.2: JSON behind >>> and the name",
         .make = make_functionary_v32},
    };
}

std::vector<ToolFormat> tagged_formats() {
    return {
        {.name = "qwen3_coder",
         .about = "Qwen3-Coder, Qwen 3.5, Nemotron 3: a tag for each argument",
         .markers = {"<tool_call>", "</tool_call>"},
         .ends_thought = {"<tool_call>"},
         .make = make_qwen3_coder},
        {.name = "seed_oss",
         .about = "Seed-OSS: the same between <seed:tool_call> tags",
         .markers = {"<seed:tool_call>", "</seed:tool_call>"},
         .make = make_seed},
        {.name = "minimax_m2",
         .about = "MiniMax M2",
         .markers = {"<minimax:tool_call>", "</minimax:tool_call>"},
         .make = make_minimax},
        {.name = "deepseek_v32",
         .about = "DeepSeek V3.2 and V4: DSML",
         .markers = {"｜DSML｜"},
         .ends_thought = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
         .make = make_deepseek_v32},
        {.name = "glm45",
         .about = "GLM 4.5 to 5: a key and a value for each argument",
         .markers = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                     "</arg_value>"},
         .make = make_glm},
    };
}

std::vector<ToolFormat> written_formats() {
    return {
        {.name = "pythonic",
         .about = "LLaMA 3.2 and 4: the answer is a list of calls in Python's notation",
         .make = make_pythonic},
        {.name = "lfm2",
         .about = "LFM2: such a list behind <|tool_call_start|>",
         .markers = {"<|tool_call_start|>", "<|tool_call_end|>"},
         .make = make_lfm2},
        {.name = "gemma4",
         .about = "Gemma 4, FunctionGemma",
         .markers = {"<|tool_call>", "<tool_call|>", "<|\"|>", "<start_function_call>",
                     "<end_function_call>", "<escape>"},
         .make = make_gemma},
        {.name = "harmony",
         .about = "gpt-oss: channels",
         .markers = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>"},
         .always = true,
         .thought_open = "<|channel|>analysis<|message|>",
         .thought_close = "<|end|><|start|>assistant",
         .answer_open = "<|channel|>final<|message|>",
         .thought_never = {"<|channel|>commentary", "<|start|>assistant to=", "<|call|>",
                           "<|return|>"},
         .make = make_harmony},
    };
}

std::vector<ToolFormat> all_formats() {
    std::vector<ToolFormat> all = {{.name = "none", .about = "calls are not read"}};
    for (auto&& some : {json_formats(), named_formats(), tagged_formats(), written_formats()}) {
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

const ToolFormat& format_named(std::string_view name) {
    const ToolFormat* format = find_tool_format(name);
    CHECK(format != nullptr);
    return *format;
}

// Each test is a text that only this family's templates have; the first that is found decides.
struct TemplateTest {
    std::string_view text;
    std::string_view format;
};
constexpr TemplateTest kTemplateTests[] = {
    {"<|channel|>", "harmony"},
    {"<|tool_call>", "gemma4"},
    {"<start_function_call>", "gemma4"},
    {"<|tool_calls_section_begin|>", "kimi_k2"},
    {"<|tool_call_begin|>", "kimi_k2"},
    {"｜DSML｜", "deepseek_v32"},
    {"<｜tool▁calls▁begin｜>", "deepseek"},
    {"<minimax:tool_call>", "minimax_m2"},
    {"<seed:tool_call>", "seed_oss"},
    {"<arg_key>", "glm45"},
    {"<parameter=", "qwen3_coder"},
    {"[TOOL_CALLS]", "mistral"},
    {"<|START_ACTION|>", "command_r"},
    {"Action:\\n```json", "command_r"},
    {"<|tools_prefix|>", "apertus"},
    {"<TOOLCALL>", "nemotron"},
    {"<|tool_call_start|>", "lfm2"},
    {"<|tool_list_start|>", "lfm2"},
    {"<|tool_call|>", "granite"},
    {"functools", "phi4"},
    {">>>${recipient}", "functionary_v32"},
    {"<{start_tag}={function_name}>", "functionary_v31"},
    {"<tool_call>", "hermes"},
    {"[func_name1(params_name1=params_value1", "pythonic"},
    {"<|python_tag|>", "llama3_json"},
    {"\"parameters\": dictionary of argument name", "llama3_json"},
};

}  // namespace

std::span<const ToolFormat> tool_formats() {
    static const std::vector<ToolFormat> kFormats = all_formats();
    return kFormats;
}

const ToolFormat* find_tool_format(std::string_view name) {
    for (const ToolFormat& format : tool_formats()) {
        if (format.name == name) return &format;
    }
    return nullptr;
}

const ToolFormat& detect_tool_format(std::string_view chat_template, const HasToken& has_token) {
    for (const TemplateTest& test : kTemplateTests) {
        if (chat_template.find(test.text) != std::string_view::npos) {
            return format_named(test.format);
        }
    }
    // A template that gives its tools to the model but shows no call: the vocabulary may tell.
    if (chat_template.find("tools") != std::string_view::npos) {
        if (has_token("[TOOL_CALLS]")) return format_named("mistral");
        if (has_token("<|python_tag|>")) return format_named("llama3_json");
        if (has_token("<tool_call>")) return format_named("hermes");
    }
    return format_named("generic");
}

}  // namespace helix::text
