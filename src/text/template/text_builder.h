#pragma once

#include <string>
#include <string_view>

#include "text/template/budget.h"

namespace helix::text::jinja {

// Collects text and stops at the budget's longest string, before the memory is taken.
class TextBuilder {
  public:
    explicit TextBuilder(Budget& budget) : budget_(budget) {}

    base::Status append(std::string_view piece) {
        TRY_VOID(budget_.charge_text(text_.size() < 64 ? piece.size() : 0));
        if (piece.size() > budget_.limits().text_bytes - text_.size()) {
            return budget_.charge_text(budget_.limits().text_bytes + 1);
        }
        text_ += piece;
        return base::Ok{};
    }
    base::Status append_repeated(std::string_view piece, std::size_t times) {
        if (!piece.empty() && times > (budget_.limits().text_bytes - text_.size()) / piece.size()) {
            return budget_.charge_text(budget_.limits().text_bytes + 1);
        }
        TRY_VOID(budget_.charge(times / 8));
        text_.reserve(text_.size() + piece.size() * times);
        for (std::size_t i = 0; i < times; ++i) text_ += piece;
        return base::Ok{};
    }
    const std::string& text() const { return text_; }
    std::string take() { return std::move(text_); }

  private:
    Budget& budget_;
    std::string text_;
};

}  // namespace helix::text::jinja
