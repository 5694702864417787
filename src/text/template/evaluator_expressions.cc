#include "text/template/access.h"
#include "text/template/evaluator.h"
#include "text/template/filters.h"
#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/text_builder.h"

namespace helix::text::jinja {

Result<Value> Evaluator::eval(const Expr& expr) {
    if (depth_ >= budget_.limits().depth) {
        return locate(expr.line,
                      base::Error{base::Errc::too_large,
                                  "blocks, expressions and macro calls are nested more than " +
                                      std::to_string(budget_.limits().depth) + " deep"});
    }
    const Status charged = budget_.charge(1);
    if (!charged.ok()) return locate(expr.line, charged.error());
    ++depth_;
    Result<Value> value =
        std::visit([this](const auto& node) { return eval_node(node); }, expr.node);
    --depth_;
    if (!value.ok()) return locate(expr.line, value.error());
    return value;
}

Result<Value> Evaluator::eval_or_none(const ExprPtr& expr) {
    if (!expr) return Value();
    return eval(*expr);
}

Result<Value> Evaluator::eval_node(const LiteralExpr& expr) {
    return expr.value;
}

Result<Value> Evaluator::eval_node(const NameExpr& expr) {
    const Value* found = find(expr.name);
    return found != nullptr ? *found : make_undefined("'" + expr.name + "' is undefined");
}

Result<Value> Evaluator::eval_node(const ListExpr& expr) {
    std::vector<Value> items;
    items.reserve(expr.items.size());
    for (const ExprPtr& item : expr.items) {
        TRY(Value value, eval(*item));
        items.push_back(std::move(value));
    }
    return make_sequence(std::move(items), budget_,
                         expr.tuple ? SequenceKind::tuple : SequenceKind::list);
}

Result<Value> Evaluator::eval_node(const DictExpr& expr) {
    Dict dict;
    for (const auto& [key_expr, value_expr] : expr.entries) {
        TRY(Value key, eval(*key_expr));
        TRY(Value value, eval(*value_expr));
        TRY_VOID(dict.set(std::move(key), std::move(value)));
    }
    return make_dict(std::move(dict), budget_);
}

Result<Value> Evaluator::eval_node(const UnaryExpr& expr) {
    TRY(const Value value, eval(*expr.operand));
    if (expr.op == UnaryOperator::logical_not) return make_bool(!is_truthy(value));
    return expr.op == UnaryOperator::negate ? negate(value) : unary_plus(value);
}

Result<Value> Evaluator::eval_node(const BinaryExpr& expr) {
    TRY(const Value left, eval(*expr.left));
    TRY(const Value right, eval(*expr.right));
    return apply(expr.op, left, right, budget_);
}

Result<Value> Evaluator::eval_node(const LogicalExpr& expr) {
    TRY(Value left, eval(*expr.left));
    if (is_truthy(left) != expr.is_and) return left;
    return eval(*expr.right);
}

Result<Value> Evaluator::eval_node(const CompareExpr& expr) {
    TRY(Value left, eval(*expr.first));
    for (const auto& [op, operand] : expr.rest) {
        TRY(Value right, eval(*operand));
        TRY(const bool holds, compare(op, left, right, budget_));
        if (!holds) return make_bool(false);
        left = std::move(right);
    }
    return make_bool(true);
}

Result<Value> Evaluator::eval_node(const ConcatExpr& expr) {
    TextBuilder out(budget_);
    for (const ExprPtr& part : expr.parts) {
        TRY(const Value value, eval(*part));
        TRY(const std::string text, to_text(value, budget_));
        TRY_VOID(out.append(text));
    }
    return make_text(out.take(), budget_);
}

Result<Value> Evaluator::eval_node(const ConditionalExpr& expr) {
    TRY(const Value condition, eval(*expr.condition));
    if (is_truthy(condition)) return eval(*expr.then);
    if (expr.otherwise) return eval(*expr.otherwise);
    return make_undefined("the condition was false and there is no else");
}

Result<Value> Evaluator::eval_node(const AttributeExpr& expr) {
    TRY(const Value object, eval(*expr.object));
    return get_attribute(object, expr.name, budget_);
}

Result<Value> Evaluator::eval_node(const ItemExpr& expr) {
    TRY(const Value object, eval(*expr.object));
    TRY(const Value index, eval(*expr.index));
    return get_item(object, index, budget_);
}

Result<Value> Evaluator::eval_node(const SliceExpr& expr) {
    TRY(const Value object, eval(*expr.object));
    TRY(const Value start, eval_or_none(expr.start));
    TRY(const Value stop, eval_or_none(expr.stop));
    TRY(const Value step, eval_or_none(expr.step));
    return slice(object, start, stop, step, budget_);
}

Result<Value> Evaluator::eval_node(const CallExpr& expr) {
    TRY(const Value callee, eval(*expr.callee));
    TRY(const Arguments arguments, eval_arguments(expr.arguments));
    return call(callee, arguments);
}

Result<Value> Evaluator::eval_node(const FilterExpr& expr) {
    Value value;
    if (expr.value) {
        TRY(value, eval(*expr.value));
    } else {
        CHECK(filter_input_ != nullptr);
        value = *filter_input_;
    }
    TRY(const Arguments arguments, eval_arguments(expr.arguments));
    return apply_filter(expr.name, value, arguments, budget_);
}

Result<Value> Evaluator::eval_node(const TestExpr& expr) {
    TRY(const Value value, eval(*expr.value));
    TRY(const Arguments arguments, eval_arguments(expr.arguments));
    TRY(const bool holds, apply_test(expr.name, value, arguments, budget_));
    return make_bool(holds);
}

Result<Arguments> Evaluator::eval_arguments(const CallArguments& arguments) {
    Arguments out;
    for (const ExprPtr& argument : arguments.positional) {
        TRY(Value value, eval(*argument));
        out.positional.push_back(std::move(value));
    }
    for (const auto& [name, argument] : arguments.named) {
        TRY(Value value, eval(*argument));
        out.named.emplace_back(name, std::move(value));
    }
    TRY_VOID(spread(arguments, out));
    return out;
}

Status Evaluator::spread(const CallArguments& arguments, Arguments& out) {
    if (arguments.more_positional) {
        TRY(const Value more, eval(*arguments.more_positional));
        TRY(const std::vector<Value> items, iterate(more, budget_));
        out.positional.insert(out.positional.end(), items.begin(), items.end());
    }
    if (!arguments.more_named) return base::Ok{};
    TRY(const Value more, eval(*arguments.more_named));
    const auto* dict = more.get<DictPtr>();
    if (dict == nullptr)
        return base::invalid("the argument after ** must be a mapping, not '" + type_name(more) +
                             "'");
    TRY_VOID(budget_.charge((*dict)->size()));
    for (const auto& entry : (*dict)->entries()) {
        const auto* name = entry.key.get<Text>();
        if (name == nullptr)
            return base::invalid("the keys of the argument after ** must be strings");
        if (out.find(name->str()) != nullptr) {
            return base::invalid("the argument '" + name->str() + "' is given twice");
        }
        out.named.emplace_back(name->str(), entry.value);
    }
    return base::Ok{};
}

}  // namespace helix::text::jinja
