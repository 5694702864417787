#include "text/tool_calls/drawn_forms.h"

#include <algorithm>

#include "text/grammar/notation.h"

namespace helix::text {
namespace {

const std::vector<DrawnForm>& json_forms() {
    static const std::vector<DrawnForm> kForms = {
        {.format = "hermes",
         .before = "<tool_call>\n{\"name\": {}, \"arguments\": ",
         .after = "}\n</tool_call>",
         .between = "\n",
         .trigger = "<tool_call>",
         .markers = {"<tool_call>", "</tool_call>"}},
        {.format = "generic",
         .before = "<tool_call>\n{\"name\": {}, \"arguments\": ",
         .after = "}\n</tool_call>",
         .between = "\n",
         .trigger = "<tool_call>",
         .markers = {"<tool_call>", "</tool_call>"}},
        {.format = "llama3_json",
         .before = "{\"name\": {}, \"parameters\": ",
         .after = "}",
         .trigger = "{\"name\": \"",
         .trigger_first = true,
         .several = false},
        {.format = "granite",
         .before = "{\"name\": {}, \"arguments\": ",
         .after = "}",
         .begin = "<|tool_call|>[",
         .between = ", ",
         .end = "]",
         .trigger = "<|tool_call|>",
         .markers = {"<|tool_call|>"}},
        {.format = "command_r",
         .before = "{\"tool_call_id\": \"{id}\", \"tool_name\": {}, \"parameters\": ",
         .after = "}",
         .begin = "<|START_ACTION|>[",
         .between = ", ",
         .end = "]<|END_ACTION|>",
         .trigger = "<|START_ACTION|>",
         .markers = {"<|START_ACTION|>", "<|END_ACTION|>"}},
        {.format = "phi4",
         .before = "{\"name\": {}, \"arguments\": ",
         .after = "}",
         .begin = "functools[",
         .between = ", ",
         .end = "]",
         .trigger = "functools["},
        {.format = "nemotron",
         .before = "{\"name\": {}, \"arguments\": ",
         .after = "}",
         .begin = "<TOOLCALL>[",
         .between = ", ",
         .end = "]</TOOLCALL>",
         .trigger = "<TOOLCALL>",
         .markers = {"<TOOLCALL>", "</TOOLCALL>"}},
        {.format = "apertus",
         .before = "{{}: ",
         .after = "}",
         .begin = "<|tools_prefix|>[",
         .between = ", ",
         .end = "]<|tools_suffix|>",
         .trigger = "<|tools_prefix|>",
         .markers = {"<|tools_prefix|>", "<|tools_suffix|>"}},
        {.format = "kimi_k2",
         .before = "<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
         .after = "<|tool_call_end|>",
         .begin = "<|tool_calls_section_begin|>",
         .end = "<|tool_calls_section_end|>",
         .trigger = "<|tool_calls_section_begin|>",
         .markers = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                     "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                     "<|tool_calls_section_end|>"}},
    };
    return kForms;
}

const std::vector<DrawnForm>& headed_forms() {
    static const std::vector<DrawnForm> kForms = {
        {.format = "functionary_v31",
         .before = "<function={name}>",
         .after = "</function>",
         .trigger = "<function="},
        {.format = "functionary_v32",
         .before = "{name}\n",
         .after = "",
         .between = ">>>",
         .trigger = "{name}\n",
         .trigger_first = true,
         .again = ">>>"},
        {.format = "harmony",
         .before = "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>",
         .after = "",
         .trigger = "to=functions.",
         .headers_begin = {"<|start|>", "<|channel|>"},
         .headers_end = "<|message|>",
         .before_free = "to=functions.{name}",
         .ways_on = {" <|constrain|>json<|message|>",
                     "<|channel|>commentary <|constrain|>json<|message|>",
                     "<|channel|>commentary json<|message|>"},
         .several = false,
         .markers = {"<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"}},
    };
    return kForms;
}

const std::vector<DrawnForm>& tagged_forms() {
    static const DrawnTags kParameterTags = {
        .text = "<parameter={}>\n",
        .close = "\n</parameter>\n",
        .never = {"</parameter>", "\n<parameter=", "\n</function>"}};
    static const std::vector<DrawnForm> kForms = {
        {.format = "qwen3_coder",
         .before = "<tool_call>\n<function={name}>\n",
         .after = "</function>\n</tool_call>",
         .between = "\n",
         .trigger = "<tool_call>",
         .markers = {"<tool_call>", "</tool_call>"},
         .tags = kParameterTags},
        {.format = "seed_oss",
         .before = "<seed:tool_call>\n<function={name}>\n",
         .after = "</function>\n</seed:tool_call>",
         .between = "\n",
         .trigger = "<seed:tool_call>",
         .markers = {"<seed:tool_call>", "</seed:tool_call>"},
         .tags = {.text = "<parameter={}>",
                  .close = "</parameter>\n",
                  .never = kParameterTags.never,
                  .keeps_line_ends = false}},
        {.format = "minimax_m2",
         .before = "<invoke name=\"{name}\">\n",
         .after = "</invoke>\n",
         .begin = "<minimax:tool_call>\n",
         .end = "</minimax:tool_call>",
         .trigger = "<minimax:tool_call>",
         .markers = {"<minimax:tool_call>", "</minimax:tool_call>"},
         .tags = {.text = "<parameter name=\"{}\">",
                  .close = "</parameter>\n",
                  .never = {"</parameter>"},
                  .keeps_line_ends = false}},
        {.format = "deepseek_v32",
         .before = "<｜DSML｜invoke name=\"{name}\">\n",
         .after = "</｜DSML｜invoke>\n",
         .begin = "<｜DSML｜function_calls>\n",
         .end = "</｜DSML｜function_calls>",
         .trigger = "<｜DSML｜function_calls>",
         .markers = {"｜DSML｜"},
         .tags = {.text = "<｜DSML｜parameter name=\"{}\" string=\"true\">",
                  .json = "<｜DSML｜parameter name=\"{}\" string=\"false\">",
                  .close = "</｜DSML｜parameter>\n",
                  .never = {"</｜DSML｜parameter>"}}},
        {.format = "glm45",
         .before = "<tool_call>{name}\n",
         .after = "</tool_call>",
         .between = "\n",
         .trigger = "<tool_call>",
         .markers = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                     "</arg_value>"},
         .tags = {.text = "<arg_key>{}</arg_key>\n<arg_value>",
                  .close = "</arg_value>\n",
                  .never = {"</arg_value>"}}},
    };
    return kForms;
}

const std::vector<DrawnForm>& literal_forms() {
    static const std::vector<DrawnForm> kForms = {
        {.format = "pythonic",
         .before = "{name}(",
         .after = ")",
         .begin = "[",
         .between = ", ",
         .end = "]",
         .trigger = "[{name}(",
         .trigger_first = true,
         .notation = "python"},
        {.format = "lfm2",
         .before = "{name}(",
         .after = ")",
         .begin = "<|tool_call_start|>[",
         .between = ", ",
         .end = "]<|tool_call_end|>",
         .trigger = "<|tool_call_start|>",
         .markers = {"<|tool_call_start|>", "<|tool_call_end|>"},
         .notation = "python"},
    };
    return kForms;
}

// Gemma 4's marks and those of FunctionGemma.
DrawnForm gemma_form(std::string_view chat_template) {
    if (chat_template.find("<start_function_call>") != std::string_view::npos) {
        return {.format = "gemma4",
                .before = "<start_function_call>call:{name}",
                .after = "<end_function_call>",
                .trigger = "<start_function_call>",
                .markers = {"<start_function_call>", "<end_function_call>", "<escape>"},
                .notation = "function_gemma"};
    }
    return {.format = "gemma4",
            .before = "<|tool_call>call:{name}",
            .after = "<tool_call|>",
            .trigger = "<|tool_call>",
            .markers = {"<|tool_call>", "<tool_call|>", "<|\"|>"},
            .notation = "gemma"};
}

// Mistral's three forms, told apart by the tokenizer's version.
DrawnForm mistral_form(std::string_view chat_template, const HasToken& has_token) {
    DrawnForm form = {.format = "mistral",
                      .trigger = "[TOOL_CALLS]",
                      .markers = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}};
    if (!has_token("[ARGS]")) {
        form.begin = "[TOOL_CALLS][";
        form.before = "{\"name\": {}, \"arguments\": ";
        form.after = "}";
        form.between = ", ";
        form.end = "]";
    } else if (chat_template.find("[CALL_ID]") != std::string_view::npos) {
        form.before = "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]";
        form.id_of = "0-9A-Za-z";
        form.min_id = form.max_id = 9;
    } else {
        form.before = "[TOOL_CALLS]{name}[ARGS]";
    }
    return form;
}

DrawnForm deepseek_form(std::string_view chat_template) {
    const bool fenced = chat_template.find("```json") != std::string_view::npos;
    return {.format = "deepseek",
            .before = fenced ? "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"
                             : "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
            .after = fenced ? "\n```<｜tool▁call▁end｜>" : "<｜tool▁call▁end｜>",
            .begin = "<｜tool▁calls▁begin｜>",
            .between = fenced ? "\n" : "",
            .end = "<｜tool▁calls▁end｜>",
            .trigger = "<｜tool▁calls▁begin｜>",
            .markers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                        "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}};
}

}  // namespace

std::optional<DrawnForm> drawn_form(std::string_view format, std::string_view chat_template,
                                    const HasToken& has_token) {
    if (format == "mistral") return mistral_form(chat_template, has_token);
    if (format == "deepseek") return deepseek_form(chat_template);
    if (format == "gemma4") return gemma_form(chat_template);
    for (const auto* forms : {&json_forms(), &headed_forms(), &tagged_forms(), &literal_forms()}) {
        for (const DrawnForm& form : *forms) {
            if (form.format == format) return form;
        }
    }
    return std::nullopt;
}

bool reads_name(const DrawnForm& form, std::string_view name) {
    constexpr std::size_t kMaxRawNameBytes = 200;
    if (name.empty()) return false;
    if (form.before.find("{name}") == std::string_view::npos) return true;  // it is JSON
    if (!form.notation.empty()) {
        return grammar::is_plain_name(name) && name.size() <= kMaxRawNameBytes;
    }
    const bool plain = std::ranges::all_of(name, [](char c) {
        return static_cast<unsigned char>(c) > ' ' && c != 0x7F &&
               std::string_view("<>[]{}\"'=|").find(c) == std::string_view::npos;
    });
    const bool is_content = !form.again.empty() && name == "all";
    return plain && !is_content && name.size() <= kMaxRawNameBytes;
}

}  // namespace helix::text
