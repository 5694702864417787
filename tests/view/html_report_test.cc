#include "view/run/html_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/fake_cluster.h"
#include "sim/report/recorder.h"
#include "view/run/html_report_parts.h"

namespace helix::view::html_report_test {
namespace {

sim::Recording record(const sim::FakeClusterConfig& config) {
    sim::FakeCluster world(config, nullptr);
    sim::RecorderOptions options;
    options.window_begin = {base::from_seconds(config.run_s * 0.1).ns};
    options.window_end = {base::from_seconds(config.run_s).ns};
    options.ttft_limit_s = 2;
    options.tpot_limit_s = 0.15;
    sim::Recorder recorder(world.cluster(), world.placement(), config.n_layers, world.kv_capacity(),
                           options);
    world.watch(&recorder);
    recorder.mark({base::from_seconds(config.run_s * 0.5).ns}, "a mark <here>");
    world.run();
    return recorder.recording(world.now());
}

// The first thing that is wrong with a page as XML; empty when nothing is. Text of script and style
// elements is skipped, as browsers do.
class WellFormed {
  public:
    explicit WellFormed(std::string_view page) : rest_(page) {}

    std::string complaint() {
        if (!skip("<!DOCTYPE html>\n")) return "no doctype";
        while (!rest_.empty()) {
            const std::size_t tag = rest_.find('<');
            if (std::string bad = check_text(rest_.substr(0, tag)); !bad.empty()) return bad;
            if (tag == std::string_view::npos) break;
            rest_.remove_prefix(tag + 1);
            if (std::string bad = element(); !bad.empty()) return bad;
        }
        return open_.empty() ? "" : "not closed: " + open_.back();
    }
    const std::set<std::string>& names() const { return names_; }

  private:
    bool skip(std::string_view text) {
        if (!rest_.starts_with(text)) return false;
        rest_.remove_prefix(text.size());
        return true;
    }

    static std::string check_text(std::string_view text) {
        for (std::size_t at = text.find('&'); at != std::string_view::npos;
             at = text.find('&', at + 1)) {
            const std::string_view after = text.substr(at, 8);
            const auto is = [&](std::string_view entity) { return after.starts_with(entity); };
            if (!is("&amp;") && !is("&lt;") && !is("&gt;") && !is("&#34;") && !is("&#39;"))
                return "a bare & in: " + std::string(after);
        }
        return text.find('>') == std::string_view::npos ? "" : "a bare > in: " + std::string(text);
    }

    // Any number of: white space, name="value".
    static std::string check_attributes(std::string_view text) {
        while (true) {
            const std::size_t begin = text.find_first_not_of(" \n");
            if (begin == std::string_view::npos) return "";
            if (begin == 0) return "no space before an attribute";
            text.remove_prefix(begin);
            const std::size_t equals = text.find("=\"");
            if (equals == std::string_view::npos || equals == 0)
                return "an attribute without value";
            if (text.substr(0, equals).find_first_of(" \n<\"") != std::string_view::npos)
                return "a name with white space";
            text.remove_prefix(equals + 2);
            const std::size_t close = text.find('"');
            if (close == std::string_view::npos) return "a value without end";
            if (text.substr(0, close).find('<') != std::string_view::npos) return "< in a value";
            if (std::string bad = check_text(text.substr(0, close)); !bad.empty()) return bad;
            text.remove_prefix(close + 1);
        }
    }

    std::string element() {
        const std::size_t end = rest_.find('>');
        if (end == std::string_view::npos) return "a tag without end";
        std::string tag(rest_.substr(0, end));
        rest_.remove_prefix(end + 1);
        if (tag.starts_with('/')) {
            if (open_.empty() || open_.back() != tag.substr(1))
                return "closes what is not open: " + tag;
            open_.pop_back();
            return "";
        }
        const bool alone = tag.ends_with('/');
        if (alone) tag.pop_back();
        const std::size_t name_end = std::min(tag.find_first_of(" \n"), tag.size());
        const std::string name = tag.substr(0, name_end);
        if (std::string bad = check_attributes(tag.substr(name_end)); name.empty() || !bad.empty())
            return "malformed: <" + tag + ">: " + bad;
        names_.insert(name);
        if (alone) return "";
        if (name == "script" || name == "style") {
            const std::size_t close = rest_.find("</" + name + ">");
            if (close == std::string_view::npos) return name + " does not end";
            rest_.remove_prefix(close + name.size() + 3);
            return "";
        }
        open_.push_back(name);
        return "";
    }

    std::string_view rest_;
    std::vector<std::string> open_;
    std::set<std::string> names_;
};

nlohmann::json data_of(const std::string& page) {
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const std::size_t from = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::string tile(const std::string& name, const std::string& value) {
    return "<div class=\"name\">" + name + "</div><div class=\"value\">" + value + "<small>";
}

// With HELIX_SHOW_REPORTS=FOLDER pages are left there to be looked at.
void show(const std::string& name, const std::string& page) {
    const char* folder = std::getenv("HELIX_SHOW_REPORTS");
    if (folder != nullptr) std::ofstream(std::string(folder) + "/" + name + ".html") << page;
}

sim::FakeClusterConfig small() {
    sim::FakeClusterConfig config;
    config.nodes = 8;
    config.run_s = 40;
    config.most_running = 20;
    return config;
}

TEST(HtmlReport, IsWellFormedAndNeedsNothingElse) {
    sim::FakeClusterConfig config;
    config.nodes = 42;
    config.stages = 6;
    config.n_layers = 60;
    config.requests_per_s = 7;
    config.run_s = 60;
    config.most_running = 60;
    config.most_waiting = 100;
    const std::string page = html_report(
        record(config), {"fake", {{"Model", "m"}, {"Scheduler", "helix"}, {"Seed", "1"}}, 100});
    show("fake42", page);
    WellFormed check(page);
    EXPECT_EQ(check.complaint(), "");
    for (const char* name : {"link", "img", "iframe", "object", "embed", "base", "use"}) {
        EXPECT_FALSE(check.names().contains(name)) << name;
    }
    for (const char* text : {"http:", "https:", "@import", "url(", " src=", "xlink", "fetch("}) {
        EXPECT_EQ(page.find(text), std::string::npos) << text;
    }
}

TEST(HtmlReport, TheCheckerFindsWhatIsMalformed) {
    for (const char* text : {"<p>", "</p>", "<p><b></p></b>", "a & b", "<p a=b></p>",
                             "<p a=\"<\"/>", "<script>", "x > y"}) {
        EXPECT_NE(WellFormed(std::string("<!DOCTYPE html>\n") + text).complaint(), "") << text;
    }
    EXPECT_EQ(WellFormed("<!DOCTYPE html>\n<p a=\"1\">x &lt; y<br/></p>").complaint(), "");
}

TEST(HtmlReport, ShowsTheNumbersOfTheRecording) {
    const sim::Recording r = record(small());
    const std::string page = html_report(r, {"fake", {{"Scheduler", "helix"}}, 123});
    const auto has = [&](const std::string& text) {
        EXPECT_NE(page.find(text), std::string::npos) << text;
    };
    has(tile("Decode throughput", format_count(r.decode_tokens_per_s)));
    has(format_count(r.prompt_tokens_per_s) + " tok/s of prompts · max flow 123");
    has(tile("Requests finished", format_count(static_cast<double>(r.finished))));
    has("p99 " + format_seconds(r.ttft.quantile(0.99)));
    has("p95 " + format_seconds(r.tpot.quantile(0.95)));
    has(tile("Goodput", format_count(r.goodput_per_s)));
    has(tile("Busiest link", format_percent(r.links.front().busy)));
    has("<dt>Scheduler</dt><dd>helix</dd>");
    const nlohmann::json data = data_of(page);
    const auto& decode = data["plots"]["decode"]["points"];
    ASSERT_EQ(decode.size(), r.decode_over_time.size());
    for (std::size_t b = 0; b < decode.size(); ++b) {
        EXPECT_EQ(decode[b][2][0], format_count(r.decode_over_time[b]));
    }
    // Two characters of base 36 for each bucket, in thousandths.
    ASSERT_EQ(data["nodes"]["rows"].size(), r.nodes.size());
    for (const auto& row : data["nodes"]["rows"]) {
        const std::string title = row["title"];
        const auto node = std::find_if(
            r.nodes.begin(), r.nodes.end(),
            [&](const sim::NodeRecord& n) { return title.starts_with(n.name + " · "); });
        ASSERT_NE(node, r.nodes.end()) << title;
        const std::string busy = row["busy"];
        ASSERT_EQ(busy.size(), 2 * node->busy_over_time.size());
        for (std::size_t b = 0; b < node->busy_over_time.size(); ++b) {
            const double shown =
                static_cast<double>(std::stoul(busy.substr(2 * b, 2), nullptr, 36));
            EXPECT_NEAR(shown, node->busy_over_time[b] * 1000, 0.501);
        }
    }
    for (const sim::Timeline& t : r.timelines) has(">#" + std::to_string(t.request) + " · ");
    EXPECT_EQ(data["nodes"]["holders"], std::vector<int>(32, 2));
}

TEST(HtmlReport, NamesCannotBreakThePage) {
    sim::Recording r = record(small());
    const std::string evil = "</script><script>alert('x')</script>\"&\n<b>";
    r.nodes[0].name = evil;
    r.nodes[1].type = evil;
    r.nodes[2].region = evil + "\xff";
    r.marks.emplace_back(12.0, evil);
    const std::string page = html_report(r, {evil, {{evil, evil}}, 0});
    EXPECT_EQ(WellFormed(page).complaint(), "");
    EXPECT_EQ(page.find("<script>alert"), std::string::npos);
    EXPECT_EQ(page.find("</script><script>a"), std::string::npos);
    const nlohmann::json data = data_of(page);
    const auto& rows = data["nodes"]["rows"];
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
        return row["title"].template get<std::string>().starts_with(evil);
    }));
}

TEST(HtmlReport, ARunWithoutAnythingIsAPageToo) {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(3);
    sim::RecorderOptions options;
    options.window_end = {base::from_seconds(10).ns};
    sim::Recorder recorder(cluster, spec::Placement{{{0, 4}, {4, 8}, {}}}, 8, {}, options);
    const std::string page =
        html_report(recorder.recording({base::from_seconds(10).ns}), {"empty", {}, 0});
    EXPECT_EQ(WellFormed(page).complaint(), "");
    EXPECT_NE(page.find("No samples in the window."), std::string::npos);
    EXPECT_NE(page.find("No link carried anything."), std::string::npos);
    EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(HtmlReport, AThousandMachinesFitInTwoMegabytes) {
    sim::FakeClusterConfig config;
    config.nodes = 1000;
    config.stages = 10;
    config.n_layers = 80;
    config.requests_per_s = 40;
    config.run_s = 10;
    const std::string page = html_report(record(config), {"thousand", {}, 0});
    show("fake1000", page);
    EXPECT_EQ(WellFormed(page).complaint(), "");
    EXPECT_LT(page.size(), 2'000'000U);
    EXPECT_EQ(data_of(page)["nodes"]["rows"].size(), 1000U);
}

TEST(HtmlReport, NumbersReadWell) {
    EXPECT_EQ(format_count(0), "0");
    EXPECT_EQ(format_count(3.0712), "3.07");
    EXPECT_EQ(format_count(60), "60");
    EXPECT_EQ(format_count(252.08), "252.1");
    EXPECT_EQ(format_count(300), "300");
    EXPECT_EQ(format_count(999.97), "1,000");
    EXPECT_EQ(format_count(154701), "154,701");
    EXPECT_EQ(format_count(-1234567), "-1,234,567");
    EXPECT_EQ(format_percent(0), "0\u00a0%");
    EXPECT_EQ(format_percent(0.0001), "<0.1\u00a0%");
    EXPECT_EQ(format_percent(0.0456), "4.6\u00a0%");
    EXPECT_EQ(format_percent(0.9951), "100\u00a0%");
    EXPECT_EQ(format_seconds(0), "0\u00a0s");
    EXPECT_EQ(format_seconds(0.0815), "81.5\u00a0ms");
    EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
    EXPECT_EQ(round_ticks(31, 95, 4), (std::vector<double>{40, 60, 80}));
    EXPECT_EQ(round_ticks(5, 5, 4), (std::vector<double>{5}));
}

}  // namespace
}  // namespace helix::view::html_report_test
