#include "text/output/answer_parser.h"

#include <utility>

#include "text/tool_calls/json_reader.h"

namespace helix::text {
namespace {

constexpr ReasoningFormat kReasoningFormats[] = {
    {"gemma4", "<|channel>thought", "<channel|>", true},
    {"command_r", "<|START_THINKING|>", "<|END_THINKING|>", false},
    {"seed_oss", "<seed:think>", "</seed:think>", false},
    {"mistral", "[THINK]", "[/THINK]", false},
    {"think", "<think>", "</think>", false},
};

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \n\r\t") == std::string_view::npos;
}

const std::shared_ptr<const ToolSchemas>& or_none(const std::shared_ptr<const ToolSchemas>& tools) {
    static const std::shared_ptr<const ToolSchemas> kNone = std::make_shared<ToolSchemas>();
    return tools != nullptr ? tools : kNone;
}

}  // namespace

const ReasoningFormat* find_reasoning_format(std::string_view name) {
    for (const ReasoningFormat& format : kReasoningFormats) {
        if (format.name == name) return &format;
    }
    return nullptr;
}

const ReasoningFormat* detect_reasoning_format(std::string_view chat_template,
                                               const HasToken& has_token) {
    const auto contains = [&](std::string_view text) {
        return chat_template.find(text) != std::string_view::npos;
    };
    // Harmony's channels are read with its calls.
    if (contains("<|channel|>")) return nullptr;
    if (contains("<|channel>")) return find_reasoning_format("gemma4");
    for (const ReasoningFormat& format : kReasoningFormats) {
        if (contains(format.close) || contains(format.open)) return &format;
    }
    for (const ReasoningFormat& format : kReasoningFormats) {
        if (has_token(format.open) && has_token(format.close)) return &format;
    }
    return nullptr;
}

AnswerFormat AnswerFormat::with_tools(bool any) const {
    const bool read = tools != nullptr && (any || tools->always);
    return {read ? tools : nullptr, reasoning};
}

bool AnswerFormat::begins_in_thought(std::string_view prompt_tail) const {
    return reasoning != nullptr && without_blanks(prompt_tail).ends_with(reasoning->open);
}

spec::Thought AnswerFormat::thought_behind(std::string_view prompt_tail, bool may_call) const {
    const std::string_view tail = without_blanks(prompt_tail);
    spec::Thought thought;
    if (tools != nullptr && !tools->thought_open.empty()) {
        if (!tail.ends_with(tools->thought_open)) thought.open = tools->thought_open;
        thought.close = tools->thought_close;
        if (!may_call) thought.close += tools->answer_open;
        thought.never.assign(tools->thought_never.begin(), tools->thought_never.end());
        return thought;
    }
    // It has been closed already, as templates do where no thought is wanted.
    const bool over = reasoning != nullptr && tail.ends_with(reasoning->close);
    if (reasoning == nullptr || over) return {};
    if (!begins_in_thought(prompt_tail)) thought.open = reasoning->open;
    thought.close = reasoning->close;
    if (tools != nullptr)
        thought.never.assign(tools->ends_thought.begin(), tools->ends_thought.end());
    return thought;
}

std::vector<std::string_view> AnswerFormat::markers() const {
    std::vector<std::string_view> texts;
    if (tools != nullptr) texts = tools->markers;
    if (reasoning != nullptr) {
        texts.insert(texts.end(), {reasoning->open, reasoning->close});
        // Gemma's marker is a token and a word.
        if (reasoning->open.starts_with("<|channel>")) texts.emplace_back("<|channel>");
    }
    return texts;
}

AnswerParser::AnswerParser(const Options& options)
    : tools_(or_none(options.tools)),
      sink_(options.format.tools != nullptr ? options.format.tools->ids : CallIds::call,
            options.id_seed),
      reasoning_(options.format.reasoning) {
    const ToolFormat* format = options.format.tools;
    if (format != nullptr && format->make != nullptr) {
        calls_ = format->make({sink_, *tools_});
    }
    if (reasoning_ == nullptr) return;
    open_.emplace(std::vector{reasoning_->open});
    std::vector<std::string_view> closers = {reasoning_->close};
    if (calls_ != nullptr) {
        closers.insert(closers.end(), format->ends_thought.begin(), format->ends_thought.end());
    }
    close_.emplace(std::move(closers));
    may_open_ = true;
    in_thought_ = options.in_thought;
    if (in_thought_) sink_.begin_reasoning();
}

void AnswerParser::push(std::string_view text, std::vector<OutputPart>& parts) {
    sink_.write_to(parts);
    for (const char byte : text) push(byte);
}

void AnswerParser::push(char byte) {
    if (in_thought_) return think(byte);
    if (!may_open_) return answer({&byte, 1});
    std::string text;
    const auto found = open_->push(byte, text);
    answer(text);
    if (!reasoning_->anywhere && !is_blank(text)) {
        may_open_ = false;
        answer(open_->take());
    } else if (found) {
        in_thought_ = true;
        sink_.begin_reasoning();
    }
}

void AnswerParser::think(char byte) {
    std::string text;
    const auto found = close_->push(byte, text);
    sink_.reasoning(text);
    if (!found) return;
    in_thought_ = false;
    sink_.end_reasoning();
    // The marker of a call is part of the answer.
    if (*found > 0) answer(close_->marker(*found));
}

void AnswerParser::answer(std::string_view text) {
    if (calls_ == nullptr) return sink_.content(text);
    for (const char byte : text) calls_->push(byte);
}

void AnswerParser::finish(bool cut, std::vector<OutputPart>& parts) {
    sink_.write_to(parts);
    if (in_thought_) {
        sink_.reasoning(close_->take());
    } else if (open_) {
        answer(open_->take());
    }
    if (calls_ != nullptr) calls_->finish(cut);
    sink_.finish();
}

}  // namespace helix::text
