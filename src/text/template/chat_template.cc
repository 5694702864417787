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

base::Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& context,
                                               const std::tm& now,
                                               const jinja::RenderLimits& limits) const {
    if (!context.is_object()) return base::invalid("a chat template's context must be an object");
    jinja::Evaluator evaluator(limits, now);
    for (const auto& [name, json] : context.items()) {
        TRY(jinja::Value value, jinja::from_json(json, evaluator.budget()));
        evaluator.define(name, std::move(value));
    }
    return evaluator.run(body_);
}

base::Result<std::string> ChatTemplate::render_chat(const ChatRequest& request) const {
    if (!request.extra.is_object())
        return base::invalid("extra template variables must be an object");
    nlohmann::ordered_json context;
    context["messages"] = request.messages;
    context["tools"] = request.tools;
    context["documents"] = nullptr;
    context["add_generation_prompt"] = request.add_generation_prompt;
    context["bos_token"] = request.bos_token;
    context["eos_token"] = request.eos_token;
    for (const auto& [name, value] : request.extra.items()) context[name] = value;
    return render(context, request.now);
}

}  // namespace helix::text
