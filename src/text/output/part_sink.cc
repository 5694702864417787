#include "text/output/part_sink.h"

#include <utility>

#include "base/random.h"

namespace helix::text {
namespace {

constexpr std::string_view kSinkBlanks = " \n\r\t";

}  // namespace

// The part of text that may be shown now.
std::string PartSink::settle(Run& run, std::string_view text) {
    const std::size_t last = text.find_last_not_of(kSinkBlanks);
    if (last == std::string_view::npos) {
        if (!run.at_edge) run.blanks += text;
        return {};
    }
    std::string shown;
    if (run.at_edge) {
        text.remove_prefix(text.find_first_not_of(kSinkBlanks));
    }
    shown = std::exchange(run.blanks, {});
    const std::size_t end = text.find_last_not_of(kSinkBlanks) + 1;
    shown += text.substr(0, end);
    run.blanks = text.substr(end);
    run.at_edge = false;
    run.shown = true;
    return shown;
}

void PartSink::content(std::string_view text) {
    std::string shown = settle(content_, text);
    if (!shown.empty()) add(ContentText{std::move(shown)});
}

void PartSink::reasoning(std::string_view text) {
    std::string shown = settle(reasoning_, text);
    if (!shown.empty()) add(ReasoningText{std::move(shown)});
}

void PartSink::begin_reasoning() {
    reasoning_.blanks = reasoning_.shown ? "\n" : "";
    reasoning_.at_edge = true;
    if (!content_.shown) content_.blanks.clear();
}

void PartSink::end_reasoning() {
    reasoning_.blanks.clear();
    content_.at_edge = true;
}

void PartSink::new_paragraph() {
    if (content_.shown) content_.blanks = "\n\n";
    content_.at_edge = true;
}

std::string PartSink::new_id() const {
    constexpr std::string_view kAlphabet =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    base::Random random(base::hash_pair(id_seed_, static_cast<std::uint64_t>(next_call_)));
    std::string id = ids_ == CallIds::call ? "call_" : "";
    for (int left = ids_ == CallIds::call ? 24 : 9; left > 0; --left) {
        id += kAlphabet[random.below(kAlphabet.size())];
    }
    return id;
}

void PartSink::begin_call(std::string_view name, std::string_view id) {
    before_call_ = std::exchange(content_.blanks, {});
    content_.at_edge = true;
    calling_ = true;
    add(ToolCallDelta{next_call_, id.empty() ? new_id() : std::string(id), std::string(name), {}});
    ++next_call_;
}

void PartSink::arguments(std::string_view text) {
    if (!text.empty()) add(ToolCallDelta{next_call_ - 1, {}, {}, std::string(text)});
}

void PartSink::end_call() {
    calling_ = false;
    add(ToolCallDelta{next_call_ - 1, {}, {}, {}, true});
    // Content that goes on behind a call stands apart from what was said before it.
    if (content_.shown) content_.blanks = "\n\n";
    content_.at_edge = true;
}

void PartSink::give_up(std::string_view raw) {
    if (std::exchange(calling_, false)) {
        content_.blanks = std::move(before_call_);
        content_.at_edge = false;
    }
    content(raw);
}

void PartSink::finish() {
    if (!content_.at_edge && !content_.blanks.empty()) {
        add(ContentText{std::exchange(content_.blanks, {})});
    }
}

}  // namespace helix::text
