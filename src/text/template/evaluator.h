#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/ast.h"
#include "text/template/call.h"
#include "text/template/value.h"

namespace helix::text::jinja {

// The variables of one block; those of the blocks around it are reached through `parent`.
struct Scope : std::enable_shared_from_this<Scope> {
    std::shared_ptr<Scope> parent;
    std::map<std::string, Value, std::less<>> variables;
};

// Runs one parsed template once. An error names the innermost line it came from, except that what
// raise_exception says stands as it is.
class Evaluator {
  public:
    // `now` is what strftime_now formats.
    Evaluator(const RenderLimits& limits, const std::tm& now);
    ~Evaluator();
    Evaluator(const Evaluator&) = delete;
    Evaluator& operator=(const Evaluator&) = delete;

    Budget& budget() { return budget_; }
    void define(std::string name, Value value);
    Result<std::string> run(const Body& body);

  private:
    enum class Flow { next, break_loop, continue_loop };

    // evaluator_expressions.cc
    Result<Value> eval(const Expr& expr);
    Result<Value> eval_node(const LiteralExpr& expr);
    Result<Value> eval_node(const NameExpr& expr);
    Result<Value> eval_node(const ListExpr& expr);
    Result<Value> eval_node(const DictExpr& expr);
    Result<Value> eval_node(const UnaryExpr& expr);
    Result<Value> eval_node(const BinaryExpr& expr);
    Result<Value> eval_node(const LogicalExpr& expr);
    Result<Value> eval_node(const CompareExpr& expr);
    Result<Value> eval_node(const ConcatExpr& expr);
    Result<Value> eval_node(const ConditionalExpr& expr);
    Result<Value> eval_node(const AttributeExpr& expr);
    Result<Value> eval_node(const ItemExpr& expr);
    Result<Value> eval_node(const SliceExpr& expr);
    Result<Value> eval_node(const CallExpr& expr);
    Result<Value> eval_node(const FilterExpr& expr);
    Result<Value> eval_node(const TestExpr& expr);
    Result<Value> eval_or_none(const ExprPtr& expr);
    Result<Arguments> eval_arguments(const CallArguments& arguments);
    Status spread(const CallArguments& arguments, Arguments& out);

    // evaluator_calls.cc
    void define_globals();
    Result<Value> call(const Value& callee, const Arguments& arguments);
    Result<Value> call_global(const std::string& name, const Arguments& arguments);
    Result<Value> call_macro(const Callable& callable, const Arguments& arguments);
    Status bind_macro(const MacroDef& macro, const Arguments& arguments);
    Status bind_extras(const MacroDef& macro, const Arguments& arguments);
    Result<Value> call_loop(Loop& loop, const Arguments& arguments);
    Result<Value> make_range(const Arguments& arguments);
    Result<Dict> make_dict_from(const Arguments& arguments);
    Result<Value> make_namespace(const Arguments& arguments);
    Result<Value> format_now(const Arguments& arguments);

    // evaluator.cc
    Result<Flow> exec(const Body& body);
    Result<Flow> exec(const Stmt& statement);
    Result<Flow> exec_node(const DataStmt& statement);
    Result<Flow> exec_node(const PrintStmt& statement);
    Result<Flow> exec_node(const IfStmt& statement);
    Result<Flow> exec_node(const ForStmt& statement);
    Result<Flow> exec_node(const SetStmt& statement);
    Result<Flow> exec_node(const SetBlockStmt& statement);
    Result<Flow> exec_node(const MacroStmt& statement);
    Result<Flow> exec_node(const CallStmt& statement);
    Result<Flow> exec_node(const FilterStmt& statement);
    Result<Flow> exec_node(const WithStmt& statement);
    Result<Flow> exec_node(const GenerationStmt& statement);
    Result<Flow> exec_node(const BreakStmt& statement);
    Result<Flow> exec_node(const ContinueStmt& statement);
    Status run_loop(const ForStmt& statement, const Value& iterable, int depth0);
    Result<std::vector<Value>> loop_items(const ForStmt& statement, const Value& iterable);
    Result<Value> capture(const Body& body);  // in a scope of its own
    Result<Value> filter_block(const ExprPtr& filter, const Value& text);
    Status assign(const Target& target, const Value& value);
    Status print(std::string_view text);
    Value make_macro(const MacroDef& macro);

    const Value* find(std::string_view name) const;
    base::Error locate(int line, base::Error error);

    Budget budget_;
    std::tm now_;
    std::shared_ptr<Scope> scope_;
    std::string output_;  // of the innermost capture
    std::size_t printed_bytes_ = 0;
    int depth_ = 0;
    bool located_ = false;  // the error under way has its line
    const Value* filter_input_ = nullptr;
    // Values can reach themselves through macros' scopes and namespaces, so these are emptied at
    // the end.
    std::vector<std::shared_ptr<Scope>> macro_scopes_;
    std::vector<NamespacePtr> namespaces_;

    friend class ScopeGuard;
};

// Makes a new innermost scope inside `parent` while it lives.
class ScopeGuard {
  public:
    ScopeGuard(Evaluator& evaluator, std::shared_ptr<Scope> parent);
    ~ScopeGuard();
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

  private:
    Evaluator& evaluator_;
    std::shared_ptr<Scope> saved_;
};

}  // namespace helix::text::jinja
