// rooms: text
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/grammar/matcher.h"
#include "text/grammar/output_grammar.h"
#include "text/output/answer_parser.h"
#include "text/tool_calls/drawn_calls.h"

// The first byte picks a form of calls. Any text is read by its parser without a crash, and however
// it is cut the parts are the same. Text that is JSON is a schema, too: what its grammar of calls
// writes is read back as calls whose arguments are JSON.

namespace {

using namespace helix;
using Json = nlohmann::ordered_json;
using text::grammar::Matcher;

void require(bool condition) {
    if (!condition) std::abort();
}

Json tools_with(Json schema) {
    return Json::array({{{"type", "function"},
                         {"function", {{"name", "look"}, {"parameters", std::move(schema)}}}}});
}

std::vector<text::OutputPart> read(const text::ToolFormat& format, const Json& tools,
                                   std::string_view said, std::size_t step, bool cut) {
    text::AnswerParser::Options options;
    options.format.tools = format.make != nullptr ? &format : nullptr;
    options.format.reasoning = text::find_reasoning_format("think");
    options.tools = std::make_shared<const text::ToolSchemas>(tools);
    text::AnswerParser parser(options);
    std::vector<text::OutputPart> parts;
    for (std::size_t at = 0; at < said.size(); at += step) {
        parser.push(said.substr(at, step), parts);
    }
    parser.finish(cut, parts);
    std::vector<text::OutputPart> joined;
    for (text::OutputPart& part : parts) text::append_part(joined, std::move(part));
    return joined;
}

// The parts as one text, to be compared.
std::string told(const std::vector<text::OutputPart>& parts) {
    std::string out;
    for (const text::OutputPart& part : parts) {
        out += '\0' + std::to_string(part.index()) + '\0';
        if (const auto* content = std::get_if<text::ContentText>(&part)) out += content->text;
        if (const auto* thought = std::get_if<text::ReasoningText>(&part)) out += thought->text;
        const auto* call = std::get_if<text::ToolCallDelta>(&part);
        if (call == nullptr) continue;
        out += call->name + '\0' + call->id + '\0' + call->arguments + (call->complete ? '+' : '-');
    }
    return out;
}

// A text under the grammar, if a short walk comes to an end of one.
std::string write(const std::shared_ptr<const text::grammar::Automaton>& automaton,
                  std::uint64_t seed) {
    Matcher matcher(automaton);
    base::Random random(seed);
    Matcher::State state = matcher.start();
    matcher.begin_count(2'000'000);
    std::string out;
    while (out.size() < 2000 && matcher.trouble() == Matcher::Trouble::none) {
        Matcher::State next = Matcher::kDead;
        char written = 0;
        std::uint64_t seen = 0;
        for (unsigned byte = 0; byte < 128; ++byte) {
            const Matcher::State to = matcher.next(state, static_cast<std::uint8_t>(byte));
            // What closes something is likelier, so that texts end.
            const bool closes = byte == '"' || byte == '}' || byte == ']' || byte == '<';
            if (to == Matcher::kDead || random.below(seen += closes ? 9 : 1) >= (closes ? 9U : 1U))
                continue;
            next = to;
            written = static_cast<char>(byte);
        }
        const bool may_end = matcher.accepts(state);
        if (next == Matcher::kDead || (may_end && random.below(4) == 0)) return may_end ? out : "";
        out += written;
        state = next;
    }
    return {};
}

void draw(const text::ToolFormat& format, const Json& tools, std::uint64_t seed) {
    const auto drawn = text::drawn_form(format.name, "", [](std::string_view) { return false; });
    if (!drawn) return;
    const Json named = text::tools_to_call(tools);
    const auto form = text::grammar_of_calls({&*drawn, &named, seed % 2 == 0, true});
    require(form.ok());
    const auto automaton = text::grammar::compile({spec::OutputGrammar::Kind::tool_calls, *form});
    if (!automaton.ok()) {
        require(!automaton.error().message.empty());
        return;
    }
    const std::string written = write(*automaton, seed);
    if (written.empty()) return;
    std::size_t calls = 0;
    for (const text::OutputPart& part : read(format, tools, written, written.size(), false)) {
        const auto* call = std::get_if<text::ToolCallDelta>(&part);
        if (call == nullptr) continue;
        require(call->name == "look" && Json::parse(call->arguments).is_object());
        ++calls;
    }
    require(calls > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto formats = text::tool_formats();
    const text::ToolFormat& format = formats[data[0] % formats.size()];
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    const bool cut = data[0] >= 128;
    const Json any = tools_with(Json::parse(R"({"properties":{"a":{"type":"string"}}})"));
    require(told(read(format, any, rest, 1, cut)) ==
            told(read(format, any, rest, rest.size() + 1, cut)));
    Json schema = Json::parse(rest, nullptr, false);
    if (!schema.is_object()) return 0;
    schema["type"] = "object";
    draw(format, tools_with(std::move(schema)), size);
    return 0;
}
