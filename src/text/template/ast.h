#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/operators.h"
#include "text/template/value.h"

// A parsed template: plain structs, one per construct.

namespace helix::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr more_positional;  // *list; may be null
    ExprPtr more_named;       // **dict; may be null
};

struct LiteralExpr {
    Value value;
};
struct NameExpr {
    std::string name;
};
struct ListExpr {
    std::vector<ExprPtr> items;
    bool tuple = false;
};
struct DictExpr {
    std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOperator { negate, plus, logical_not };
struct UnaryExpr {
    UnaryOperator op;
    ExprPtr operand;
};
struct BinaryExpr {
    BinaryOperator op;
    ExprPtr left;
    ExprPtr right;
};
struct LogicalExpr {
    bool is_and;
    ExprPtr left;
    ExprPtr right;
};
struct CompareExpr {  // first op operand op operand ...
    ExprPtr first;
    std::vector<std::pair<CompareOperator, ExprPtr>> rest;
};
struct ConcatExpr {
    std::vector<ExprPtr> parts;
};
struct ConditionalExpr {
    ExprPtr condition;
    ExprPtr then;
    ExprPtr otherwise;  // may be null: undefined
};
struct AttributeExpr {
    ExprPtr object;
    std::string name;
};
struct ItemExpr {
    ExprPtr object;
    ExprPtr index;
};
struct SliceExpr {  // absent bounds are null
    ExprPtr object;
    ExprPtr start;
    ExprPtr stop;
    ExprPtr step;
};
struct CallExpr {
    ExprPtr callee;
    CallArguments arguments;
};
struct FilterExpr {
    ExprPtr value;  // null: the body of a filter or set block
    std::string name;
    CallArguments arguments;
};
struct TestExpr {
    ExprPtr value;
    std::string name;
    CallArguments arguments;
};

struct Expr {
    int line = 0;
    int height = 1;  // expressions below and including this one, at most kMaxHeight
    std::variant<LiteralExpr, NameExpr, ListExpr, DictExpr, UnaryExpr, BinaryExpr, LogicalExpr,
                 CompareExpr, ConcatExpr, ConditionalExpr, AttributeExpr, ItemExpr, SliceExpr,
                 CallExpr, FilterExpr, TestExpr>
        node;
};

struct Stmt;
using Body = std::vector<Stmt>;

// What set, for and with assign to: a name, a namespace's attribute, or a tuple of targets.
struct Target {
    int line = 0;
    std::string name;
    std::string attribute;      // set: namespace `name`, attribute `attribute`
    std::vector<Target> parts;  // a tuple if is_tuple
    bool is_tuple = false;
};

struct DataStmt {
    std::string text;
};
struct PrintStmt {
    ExprPtr value;
};
struct IfStmt {
    std::vector<std::pair<ExprPtr, Body>> branches;
    Body otherwise;
};
struct ForStmt {
    Target target;
    ExprPtr iterable;
    ExprPtr condition;  // may be null
    Body body;
    Body otherwise;
    bool recursive = false;
};
struct SetStmt {
    Target target;
    ExprPtr value;
};
struct SetBlockStmt {
    Target target;
    ExprPtr filter;  // may be null
    Body body;
};
// A macro, or the body of a call block.
struct MacroDef {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<ExprPtr> defaults;  // of the last parameters
    Body body;
    bool uses_caller = false;
    bool uses_kwargs = false;
    bool uses_varargs = false;
};
struct MacroStmt {
    std::unique_ptr<MacroDef> macro;
};
struct CallStmt {
    std::unique_ptr<MacroDef> caller;
    ExprPtr call;
};
struct FilterStmt {
    ExprPtr filter;
    Body body;
};
struct WithStmt {
    std::vector<std::pair<Target, ExprPtr>> assignments;
    Body body;
};
struct GenerationStmt {  // marks what the assistant said; prints its body
    Body body;
};
struct BreakStmt {};
struct ContinueStmt {};

struct Stmt {
    int line = 0;
    std::variant<DataStmt, PrintStmt, IfStmt, ForStmt, SetStmt, SetBlockStmt, MacroStmt, CallStmt,
                 FilterStmt, WithStmt, GenerationStmt, BreakStmt, ContinueStmt>
        node;
};

}  // namespace helix::text::jinja
