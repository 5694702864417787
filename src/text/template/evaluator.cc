#include "text/template/evaluator.h"

#include <algorithm>

#include "text/template/lexer.h"
#include "text/template/repr.h"

namespace helix::text::jinja {

ScopeGuard::ScopeGuard(Evaluator& evaluator, std::shared_ptr<Scope> parent)
    : evaluator_(evaluator), saved_(std::move(evaluator.scope_)) {
    evaluator_.scope_ = std::make_shared<Scope>();
    evaluator_.scope_->parent = std::move(parent);
}

ScopeGuard::~ScopeGuard() {
    evaluator_.scope_ = std::move(saved_);
}

Evaluator::Evaluator(const RenderLimits& limits, const std::tm& now)
    : budget_(limits), now_(now), scope_(std::make_shared<Scope>()) {
    define_globals();
    auto top = std::make_shared<Scope>();
    top->parent = std::move(scope_);
    scope_ = std::move(top);
}

Evaluator::~Evaluator() {
    for (const auto& scope : macro_scopes_) scope->variables.clear();
    for (const auto& names : namespaces_) names->attributes.clear();
}

void Evaluator::define(std::string name, Value value) {
    scope_->variables.insert_or_assign(std::move(name), std::move(value));
}

Result<std::string> Evaluator::run(const Body& body) {
    TRY_VOID(exec(body));
    return std::move(output_);
}

const Value* Evaluator::find(std::string_view name) const {
    for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
        const auto found = scope->variables.find(name);
        if (found != scope->variables.end()) return &found->second;
    }
    return nullptr;
}

base::Error Evaluator::locate(int line, base::Error error) {
    if (located_) return error;
    located_ = true;
    return {error.code, error_at(line, error.message).message};
}

Status Evaluator::print(std::string_view text) {
    printed_bytes_ += text.size();
    if (printed_bytes_ > budget_.limits().output_bytes) {
        return base::Error{base::Errc::too_large,
                           "the output is longer than " +
                               std::to_string(budget_.limits().output_bytes) + " bytes"};
    }
    output_ += text;
    return base::Ok{};
}

Result<Value> Evaluator::capture(const Body& body) {
    const ScopeGuard scope(*this, scope_);
    std::string outer = std::exchange(output_, {});
    const auto flow = exec(body);
    std::string text = std::exchange(output_, std::move(outer));
    if (!flow.ok()) return flow.error();
    return make_text(std::move(text), budget_);
}

Value Evaluator::make_macro(const MacroDef& macro) {
    if (macro_scopes_.empty() || macro_scopes_.back() != scope_) macro_scopes_.push_back(scope_);
    auto callable = std::make_shared<Callable>();
    callable->kind = Callable::Kind::macro;
    callable->name = macro.name;
    callable->macro = &macro;
    callable->scope = scope_.get();
    return Value(CallablePtr(std::move(callable)));
}

Status Evaluator::assign(const Target& target, const Value& value) {
    if (target.is_tuple) {
        TRY(const std::vector<Value> parts, iterate(value, budget_));
        if (parts.size() != target.parts.size()) {
            return base::invalid("cannot unpack " + std::to_string(parts.size()) +
                                 " value(s) into " + std::to_string(target.parts.size()) +
                                 " name(s)");
        }
        for (std::size_t i = 0; i < parts.size(); ++i) TRY_VOID(assign(target.parts[i], parts[i]));
        return base::Ok{};
    }
    if (target.attribute.empty()) {
        scope_->variables.insert_or_assign(target.name, value);
        return base::Ok{};
    }
    const Value* holder = find(target.name);
    const auto* names = holder == nullptr ? nullptr : holder->get<NamespacePtr>();
    if (names == nullptr) {
        return base::invalid("cannot assign '" + target.name + "." + target.attribute + "': '" +
                             target.name + "' is not a namespace");
    }
    (*names)->attributes.set_text(target.attribute, value);
    return base::Ok{};
}

Result<Evaluator::Flow> Evaluator::exec(const Body& body) {
    for (const Stmt& statement : body) {
        TRY(const Flow flow, exec(statement));
        if (flow != Flow::next) return flow;
    }
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec(const Stmt& statement) {
    if (depth_ >= budget_.limits().depth) {
        return locate(statement.line,
                      base::Error{base::Errc::too_large,
                                  "blocks, expressions and macro calls are nested more than " +
                                      std::to_string(budget_.limits().depth) + " deep"});
    }
    const Status charged = budget_.charge(1);
    if (!charged.ok()) return locate(statement.line, charged.error());
    ++depth_;
    Result<Flow> flow =
        std::visit([this](const auto& node) { return exec_node(node); }, statement.node);
    --depth_;
    if (!flow.ok()) return locate(statement.line, flow.error());
    return flow;
}

Result<Evaluator::Flow> Evaluator::exec_node(const DataStmt& statement) {
    TRY_VOID(print(statement.text));
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec_node(const PrintStmt& statement) {
    TRY(const Value value, eval(*statement.value));
    TRY(const std::string text, to_text(value, budget_));
    TRY_VOID(print(text));
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec_node(const IfStmt& statement) {
    for (const auto& [condition, body] : statement.branches) {
        TRY(const Value value, eval(*condition));
        if (is_truthy(value)) return exec(body);
    }
    return exec(statement.otherwise);
}

Result<Evaluator::Flow> Evaluator::exec_node(const ForStmt& statement) {
    TRY(const Value iterable, eval(*statement.iterable));
    TRY_VOID(run_loop(statement, iterable, 0));
    return Flow::next;
}

Result<std::vector<Value>> Evaluator::loop_items(const ForStmt& statement, const Value& iterable) {
    TRY(std::vector<Value> items, iterate(iterable, budget_));
    if (!statement.condition) return items;
    std::vector<Value> kept;
    const ScopeGuard scope(*this, scope_);
    for (Value& item : items) {
        TRY_VOID(assign(statement.target, item));
        TRY(const Value fits, eval(*statement.condition));
        if (is_truthy(fits)) kept.push_back(std::move(item));
    }
    return kept;
}

Status Evaluator::run_loop(const ForStmt& statement, const Value& iterable, int depth0) {
    auto loop = std::make_shared<Loop>();
    TRY(std::vector<Value> items, loop_items(statement, iterable));
    for (const Value& item : items) loop->nesting = std::max(loop->nesting, nesting_of(item) + 1);
    if (loop->nesting > budget_.limits().nesting) {
        return base::Error{base::Errc::too_large, "loops over containers nested too deeply"};
    }
    loop->items = std::make_shared<const std::vector<Value>>(std::move(items));
    loop->depth0 = depth0;
    loop->recursive_for = statement.recursive ? &statement : nullptr;
    loop->scope = scope_;
    const std::shared_ptr<Scope> outer = scope_;
    for (std::size_t i = 0; i < loop->items->size(); ++i) {
        const ScopeGuard scope(*this, outer);
        loop->index0 = i;
        define("loop", Value(loop));
        TRY_VOID(assign(statement.target, (*loop->items)[i]));
        TRY(const Flow flow, exec(statement.body));
        if (flow == Flow::break_loop) return base::Ok{};
    }
    if (loop->items->empty()) {
        const ScopeGuard scope(*this, outer);
        TRY_VOID(exec(statement.otherwise));
    }
    return base::Ok{};
}

Result<Evaluator::Flow> Evaluator::exec_node(const SetStmt& statement) {
    TRY(const Value value, eval(*statement.value));
    TRY_VOID(assign(statement.target, value));
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec_node(const SetBlockStmt& statement) {
    TRY(Value text, capture(statement.body));
    if (statement.filter) {
        TRY(text, filter_block(statement.filter, text));
    }
    TRY_VOID(assign(statement.target, text));
    return Flow::next;
}

Result<Value> Evaluator::filter_block(const ExprPtr& filter, const Value& text) {
    const Value* outer = std::exchange(filter_input_, &text);
    auto filtered = eval(*filter);
    filter_input_ = outer;
    return filtered;
}

Result<Evaluator::Flow> Evaluator::exec_node(const MacroStmt& statement) {
    define(statement.macro->name, make_macro(*statement.macro));
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec_node(const CallStmt& statement) {
    const CallExpr& expr = std::get<CallExpr>(statement.call->node);
    TRY(const Value callee, eval(*expr.callee));
    TRY(Arguments arguments, eval_arguments(expr.arguments));
    arguments.named.emplace_back("caller", make_macro(*statement.caller));
    TRY(const Value value, call(callee, arguments));
    TRY(const std::string text, to_text(value, budget_));
    TRY_VOID(print(text));
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec_node(const FilterStmt& statement) {
    TRY(const Value text, capture(statement.body));
    TRY(const Value filtered, filter_block(statement.filter, text));
    const auto* out = filtered.get<Text>();
    if (out == nullptr)
        return base::invalid("a filter block must give text, not '" + type_name(filtered) + "'");
    TRY_VOID(print(out->str()));
    return Flow::next;
}

Result<Evaluator::Flow> Evaluator::exec_node(const WithStmt& statement) {
    std::vector<Value> values;
    for (const auto& [target, expr] : statement.assignments) {
        TRY(Value value, eval(*expr));
        values.push_back(std::move(value));
    }
    const ScopeGuard scope(*this, scope_);
    for (std::size_t i = 0; i < values.size(); ++i)
        TRY_VOID(assign(statement.assignments[i].first, values[i]));
    return exec(statement.body);
}

Result<Evaluator::Flow> Evaluator::exec_node(const GenerationStmt& statement) {
    const ScopeGuard scope(*this, scope_);
    return exec(statement.body);
}

Result<Evaluator::Flow> Evaluator::exec_node(const BreakStmt&) {
    return Flow::break_loop;
}

Result<Evaluator::Flow> Evaluator::exec_node(const ContinueStmt&) {
    return Flow::continue_loop;
}

}  // namespace helix::text::jinja
