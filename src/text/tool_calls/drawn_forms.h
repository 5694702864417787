#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/tool_calls/tool_format.h"

namespace helix::text {

// What stands around one argument; {} is its name. None: arguments are JSON.
struct DrawnTags {
    std::string_view text{};
    std::string_view json{};  // "" = as text
    std::string_view close{};
    std::vector<std::string_view> never{};
    bool keeps_line_ends = true;
};

// What stands around the arguments of calls. {} is the name of the tool as JSON, {name} as it is,
// {id} what tells calls apart.
struct DrawnForm {
    std::string_view format{};
    std::string_view before{};
    std::string_view after{};
    std::string_view begin{};
    std::string_view between{};
    std::string_view end{};
    // What calls begin with, and no other text; with {name}, for each tool.
    std::string_view trigger{};
    bool trigger_first = false;  // it means nothing behind other text
    std::string_view again{};    // but behind this
    // It means nothing but in headers, which stand first and behind one of these, up to an end.
    std::vector<std::string_view> headers_begin{};
    std::string_view headers_end{};
    std::string_view before_free{};           // if not "": before, behind other text
    std::vector<std::string_view> ways_on{};  // of which one comes there, then
    bool several = true;                      // more than one call can be told from one
    std::string_view id_of = "0-9";
    int min_id = 1;
    int max_id = 4;
    std::vector<std::string_view> markers{};
    DrawnTags tags{};
    std::string_view notation{};  // of arguments that are not JSON: python, gemma, function_gemma
};

// The form of this name (ToolFormat::name), of which some have variants that the template and the
// vocabulary tell apart; nothing if there is none.
std::optional<DrawnForm> drawn_form(std::string_view format, std::string_view chat_template,
                                    const HasToken& has_token);

// Whether the form's parser would read this name of a tool as it is written.
bool reads_name(const DrawnForm& form, std::string_view name);

}  // namespace helix::text
