#include "text/template/chat_template.h"

#include "text/template/evaluator.h"
#include "text/template/json.h"
#include "text/template/parser.h"

namespace helix::text {

ChatTemplate::ChatTemplate(std::vector<jinja::Stmt> body) : body_(std::move(body)) {}

ChatTemplate::~ChatTemplate() = default;

base::Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
    TRY(jinja::Body body, jinja::parse_template(source));
    return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(body)));
}

namespace {

base::Status define(jinja::Evaluator& evaluator, const std::string& name,
                    const nlohmann::ordered_json& json) {
    TRY(jinja::Value value, jinja::from_json(json, evaluator.budget()));
    evaluator.define(name, std::move(value));
    return base::Ok{};
}

}  // namespace

base::Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& context,
                                               const std::tm& now,
                                               const jinja::RenderLimits& limits) const {
    if (!context.is_object()) return base::invalid("a chat template's context must be an object");
    jinja::Evaluator evaluator(limits, now);
    for (const auto& [name, json] : context.items()) {
        TRY_VOID(define(evaluator, name, json));
    }
    return evaluator.run(body_);
}

base::Result<std::string> ChatTemplate::render_chat(const ChatRequest& request) const {
    if (!request.extra.is_object())
        return base::invalid("extra template variables must be an object");
    jinja::Evaluator evaluator({}, request.now);
    TRY_VOID(define(evaluator, "messages", request.messages));
    TRY_VOID(define(evaluator, "tools", request.tools));
    TRY_VOID(define(evaluator, "documents", nullptr));
    TRY_VOID(define(evaluator, "add_generation_prompt", request.add_generation_prompt));
    TRY_VOID(define(evaluator, "bos_token", request.bos_token));
    TRY_VOID(define(evaluator, "eos_token", request.eos_token));
    for (const auto& [name, value] : request.extra.items()) {
        TRY_VOID(define(evaluator, name, value));
    }
    return evaluator.run(body_);
}

}  // namespace helix::text
