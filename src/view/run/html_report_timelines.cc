#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "spec/cluster_spec.h"
#include "view/run/html_report_parts.h"

namespace helix::view::html {
namespace {

constexpr double kWidth = 1200;
constexpr double kLinesLeft = 190;
constexpr double kLinesRight = 1186;
constexpr double kRow = 22;
constexpr double kDetailHeight = 300;
constexpr std::size_t kPasses = 6;  // shown after the first token

struct Span {
    double from_s = 0;
    double to_s = 1;
    double left = 0;
    double right = 1;

    double at(double s) const {
        const double share = (s - from_s) / std::max(to_s - from_s, 1e-12);
        return left + std::clamp(share, 0.0, 1.0) * (right - left);
    }
};

template <typename... Args>
void add(std::string& out, fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out), text, std::forward<Args>(args)...);
}

std::string describe(const sim::Timeline& t) {
    std::string text = fmt::format("request {}: {} prompt tokens, {} output tokens", t.request,
                                   t.prompt_tokens, t.output_tokens);
    if (t.admitted_s >= 0) text += ", waited " + format_seconds(t.admitted_s - t.created_s);
    if (t.first_token_s >= 0) {
        text += ", first token after " + format_seconds(t.first_token_s - t.created_s);
    }
    if (t.ended_s >= 0) {
        text += (t.rejected ? ", rejected after " : ", done after ") +
                format_seconds(t.ended_s - t.created_s);
    } else {
        text += ", not ended when the run stopped";
    }
    if (t.preemptions > 0) text += fmt::format(", preempted {} times", t.preemptions);
    return text;
}

void draw_bar(std::string& out, const Span& x, double from_s, double to_s, double y,
              const char* style) {
    if (to_s <= from_s) return;
    add(out, "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"/>", style,
        x.at(from_s), y, std::max(0.8, x.at(to_s) - x.at(from_s)), kRow - 8);
}

std::string overview(const Recording& r, std::size_t chosen) {
    double from_s = r.timelines.front().created_s;
    double to_s = from_s;
    for (const sim::Timeline& t : r.timelines) {
        to_s = std::max(to_s, t.ended_s >= 0 ? t.ended_s : r.end_s);
    }
    const Span x{from_s, to_s, kLinesLeft, kLinesRight};
    const double bottom = kRow * static_cast<double>(r.timelines.size()) + 6;
    std::string out;
    add(out,
        "<svg class=\"plot gantt\" viewBox=\"0 0 {} {:.1f}\" role=\"img\" aria-label=\"Requests "
        "over time\">\n",
        kWidth, bottom + 24);
    for (const double tick : round_ticks(from_s - r.begin_s, to_s - r.begin_s, 8)) {
        const double at = x.at(r.begin_s + tick);
        add(out,
            "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"0\" y2=\"{:.1f}\"/><text "
            "class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
            at, at, bottom, at, bottom + 18, markup(format_seconds(tick)));
    }
    for (std::size_t i = 0; i < r.timelines.size(); ++i) {
        const sim::Timeline& t = r.timelines[i];
        const double y = kRow * static_cast<double>(i) + 4;
        const double end_s = t.ended_s >= 0 ? t.ended_s : r.end_s;
        const double admitted_s = t.admitted_s >= 0 ? t.admitted_s : end_s;
        const double first_s = t.first_token_s >= 0 ? t.first_token_s : end_s;
        add(out,
            "<g class=\"request{}\" data-request=\"{}\" tabindex=\"0\"><title>{}</title><rect "
            "class=\"pick\" x=\"0\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/><text class=\"name\" "
            "x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">#{} · {} + {} tokens</text>",
            i == chosen ? " on" : "", i, markup(describe(t)), y - 4, kWidth, kRow, kLinesLeft - 12,
            y + 11, t.request, t.prompt_tokens, t.output_tokens);
        draw_bar(out, x, t.created_s, admitted_s, y, "waiting");
        draw_bar(out, x, admitted_s, first_s, y, "prompt");
        draw_bar(out, x, first_s, end_s, y, "decode");
        if (t.rejected) {
            const double at = x.at(end_s);
            add(out, "<path class=\"cross\" d=\"M{:.1f} {:.1f}l10 10m0 -10l-10 10\"/>", at - 5,
                y + 2);
        }
        out += "</g>\n";
    }
    return out + "</svg>\n";
}

class StagePainter {
  public:
    StagePainter(const Recording& r, const sim::Timeline& t) : r_(r), t_(t) {
        std::size_t next = 0;
        for (const NodeRecord& node : r.nodes) {
            if (styles_.try_emplace(node.type, next % 6).second) ++next;
        }
    }

    std::string draw(std::size_t index, bool shown) {
        add(out_,
            "<svg class=\"plot stages\" id=\"stages-{}\"{} viewBox=\"0 0 {} {}\" role=\"img\" "
            "aria-label=\"{}\">\n",
            index, shown ? "" : " style=\"display:none\"", kWidth, kDetailHeight,
            markup(describe(t_)));
        if (t_.admitted_s < 0) {
            add(out_, "<text x=\"62\" y=\"40\">{}</text>\n", markup(describe(t_)));
            return out_ + "</svg>\n";
        }
        const double first_s = t_.first_token_s >= 0 ? t_.first_token_s : end_s();
        const bool decodes = t_.token_s.size() > 1;
        const double waited_s = t_.admitted_s - t_.created_s;
        panel({t_.admitted_s, first_s, 62, decodes ? 690.0 : kLinesRight},
              waited_s > 0 ? "the prompt, after " + format_seconds(waited_s) + " of waiting"
                           : "the prompt");
        if (decodes) {
            const std::size_t last = std::min(kPasses, t_.token_s.size() - 1);
            panel({first_s, t_.token_s[last], 740, kLinesRight},
                  last == 1 ? "the first decode" : fmt::format("the first {} decodes", last));
        }
        return out_ + "</svg>\n";
    }

  private:
    static constexpr double kTop = 34;
    static constexpr double kBottom = kDetailHeight - 30;

    double end_s() const { return t_.ended_s >= 0 ? t_.ended_s : r_.end_s; }
    double y(std::int32_t layer) const {
        return kTop + (kBottom - kTop) * layer / std::max(1, r_.n_layers);
    }

    void panel(const Span& x, const std::string& title) {
        add(out_, "<text class=\"title\" x=\"{:.1f}\" y=\"14\">{}: {}</text>\n", x.left,
            markup(title), markup(format_seconds(x.to_s - x.from_s)));
        for (const double layer : round_ticks(0, r_.n_layers, 5)) {
            const double at = y(static_cast<std::int32_t>(layer));
            add(out_,
                "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                x.left, x.right, at, at, x.left - 6, at + 4, layer);
        }
        for (const double tick : round_ticks(0, x.to_s - x.from_s, 5)) {
            add(out_,
                "<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                x.at(x.from_s + tick), kBottom + 20, markup(format_seconds(tick)));
        }
        slices(x);
        for (const double token_s : t_.token_s) {
            if (token_s < x.from_s || token_s > x.to_s) continue;
            add(out_, "<line class=\"token\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{:.1f}\"/>",
                x.at(token_s), x.at(token_s), kTop, kBottom);
        }
        out_ += '\n';
    }

    void slices(const Span& x) {
        std::int32_t layer = 0;  // where the request is
        double since_s = t_.admitted_s;
        for (const sim::TimelineSlice& s : t_.slices) {
            if (s.begin_s >= since_s && s.end_s > x.from_s && s.begin_s < x.to_s) {
                stay(x, since_s, s.begin_s, layer, "wait");
            }
            const bool shown = s.end_s > x.from_s && s.begin_s < x.to_s;
            if (s.layers.empty()) {
                if (shown) stay(x, s.begin_s, s.end_s, layer, "move");
                if (s.node == spec::kCoordinator) layer = 0;
            } else {
                if (shown) box(x, s);
                layer = s.layers.end;
            }
            since_s = std::max(since_s, s.end_s);
        }
    }

    void stay(const Span& x, double from_s, double to_s, std::int32_t layer, const char* style) {
        if (x.at(to_s) - x.at(from_s) < 0.3) return;
        add(out_, "<line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
            style, x.at(from_s), x.at(to_s), y(layer), y(layer));
    }

    void box(const Span& x, const sim::TimelineSlice& s) {
        const NodeRecord& node = r_.nodes.at(static_cast<std::size_t>(s.node));
        const double left = x.at(s.begin_s);
        const double width = std::max(1.2, x.at(s.end_s) - left);
        const double top = y(s.layers.begin);
        const double height = std::max(2.0, y(s.layers.end) - top);
        const std::size_t style = styles_.at(node.type);
        add(out_,
            "<rect class=\"t{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
            "<title>{}: layers {}-{}, {}</title></rect>",
            style, left, top, width, height, markup(node.name), s.layers.begin, s.layers.end - 1,
            markup(format_seconds(s.end_s - s.begin_s)));
        constexpr double kLetter = 6.5;
        if (width > kLetter * static_cast<double>(node.name.size()) + 6 && height > 14) {
            add(out_, "<text class=\"inside\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", left + 4,
                top + height / 2 + 4, markup(node.name));
        }
        out_ += '\n';
    }

    const Recording& r_;
    const sim::Timeline& t_;
    std::map<std::string, std::size_t> styles_;
    std::string out_;
};

}  // namespace

std::string timelines_section(const Recording& r, PageData& /*data*/) {
    if (r.timelines.empty()) return "";
    const auto first = std::find_if(r.timelines.begin(), r.timelines.end(),
                                    [](const sim::Timeline& t) { return t.first_token_s >= 0; });
    const auto chosen =
        static_cast<std::size_t>(first == r.timelines.end() ? 0 : first - r.timelines.begin());
    std::string out =
        "<section class=\"card\"><h2>Requests, from arrival to last token</h2>\n<div "
        "class=\"bar\"><span class=\"legend\"><span><i class=\"waiting\"></i>waiting for "
        "admission</span><span><i class=\"prompt\"></i>prompt</span><span><i "
        "class=\"decode\"></i>decoding</span></span></div>\n" +
        overview(r, chosen);
    const bool any = std::any_of(r.timelines.begin(), r.timelines.end(),
                                 [](const sim::Timeline& t) { return !t.slices.empty(); });
    if (any) {
        out +=
            "<h3>Through the layers <small>the chosen request: boxes compute (coloured by machine "
            "type), lines are on their way, dotted ones wait; layers go down</small></h3>\n";
        for (std::size_t i = 0; i < r.timelines.size(); ++i) {
            out += StagePainter(r, r.timelines[i]).draw(i, i == chosen);
        }
    }
    return out + "</section>\n";
}

}  // namespace helix::view::html
