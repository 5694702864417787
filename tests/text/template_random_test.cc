#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/effort.h"
#include "base/random.h"
#include "template_oracle.h"

// Random small templates, printed by us and by python3-jinja2. HELIX_TEMPLATE_SEED and
// HELIX_TEMPLATE_COUNT replay or widen a run.

namespace helix::text::template_random_test {

using namespace test_support;

namespace {

using nlohmann::ordered_json;

ordered_json random_context() {
    return ordered_json::parse(R"({
        "n": 7, "zero": 0, "neg": -3, "x": 2.5, "half": 0.5, "big": 123456789012, "yes": true, "no": false, "nil": null,
        "s": "Hello World", "empty": "", "u": "naïve Ünïcode 😀 ß", "ws": "  a b\t c\n\nd  ", "q": "it's \"q\" \\ <b>&",
        "csv": "b,a,,c", "num": " 42 ", "real": "3.75",
        "l": [3, 1, 2], "ls": ["pear", "Apple", "fig", "apple"], "mixed": [1, "a", null, 2.0, true, [1], {"k": 1}],
        "el": [], "nested": [[1, 2], [3, 4], [5]], "d": {"b": 1, "a": "x", "C": [1, 2]}, "ed": {},
        "deep": {"a": {"b": [{"c": "end"}]}},
        "users": [{"name": "Zoe", "age": 31, "tags": ["x"]}, {"name": "adam", "age": 25}, {"name": "Eve", "age": 31, "admin": true}],
        "messages": [{"role": "system", "content": "sys"}, {"role": "user", "content": " hi "},
                     {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"a": 1.50, "é": "ü"}}]}]
    })");
}

class Generator {
  public:
    explicit Generator(std::uint64_t seed) : random_(seed) {}

    std::string make() {
        std::string out;
        const std::size_t statements = 1 + random_.below(3);
        for (std::size_t i = 0; i < statements; ++i) out += statement(2);
        return out;
    }

  private:
    using Choices = std::initializer_list<std::string>;

    std::string pick(Choices choices) { return choices.begin()[random_.below(choices.size())]; }
    bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
    std::string integer() { return std::to_string(random_.between(-5, 6)); }

    std::string any(int depth) {
        switch (random_.below(6)) {
            case 0:
                return number(depth);
            case 1:
                return text(depth);
            case 2:
                return list(depth);
            case 3:
                return dict(depth);
            case 4:
                return truth(depth);
            default:
                return pick({"nil", "missing", "d.a", "d['b']", "deep.a.b[0].c", "users[0].name",
                             "s[1]", "l[-1]", "l[9]", "d.missing", "mixed[6].k",
                             "messages[0]['role']", "yes", "users[1]", "1.5e3", "()"});
        }
    }

    std::string number(int depth) {
        if (depth <= 0 || one_in(3)) {
            return pick({"n", "zero", "neg", "x", "half", "0", "1", "2", "10", "1.0", "0.1", "1e20",
                         "1e-7", "big", "yes"});
        }
        switch (random_.below(8)) {
            case 0:
                return "(" + number(depth - 1) + " " + pick({"+", "-", "*"}) + " " +
                       number(depth - 1) + ")";
            case 1:
                return "(" + number(depth - 1) + " " + pick({"/", "//", "%"}) + " " +
                       number(depth - 1) + ")";
            case 2:
                return number(depth - 1) + pick({"|abs", "|int", "|float", "|round", "|round(1)",
                                                 "|round(2, 'floor')", "|round(0, 'ceil')"});
            case 3:
                return list(depth - 1) +
                       pick({"|length", "|sum", "|max", "|min", "|first", "|last", "|count"});
            case 4:
                return text(depth - 1) +
                       pick({"|length", "|int", "|float", "|int(5)", "|wordcount", ".find('a')",
                             ".count('a')", ".rfind('o')", ".index('l')"});
            case 5:
                return "-" + number(0);
            case 6:
                return "(" + number(0) + " ** " + pick({"0", "1", "2", "3", "0.5", "-1"}) + ")";
            default:
                return list(depth - 1) + "[" + integer() + "]";
        }
    }

    std::string literal() {
        return pick({"''", "'a'", "\"b\"", "'Hello'", "'x y'", "'l'", "','", "'é'", "'\\n'",
                     "'%s-%s'", "'<i>'", "'{}'", "'o W'", "'AbC'"});
    }

    std::string text(int depth) {
        if (depth <= 0 || one_in(4))
            return one_in(2) ? literal()
                             : pick({"s", "empty", "u", "ws", "q", "csv", "num", "real"});
        switch (random_.below(9)) {
            case 0:
                return "(" + text(depth - 1) + " + " + text(depth - 1) + ")";
            case 1:
                return "(" + any(depth - 1) + " ~ " + any(depth - 1) + ")";
            case 2:
                return text(depth - 1) + text_filter(depth);
            case 3:
                return text(depth - 1) + text_method(depth);
            case 4:
                return text(depth - 1) + "[" + slice() + "]";
            case 5:
                return any(depth - 1) +
                       pick({"|string", "|tojson", "|tojson(indent=2)", "|lower", "|upper", "|e",
                             "|safe", "|trim", "|capitalize", "|tojson(sort_keys=true)",
                             "|tojson(separators=(',', ':'))", "|tojson(ensure_ascii=true)"});
            case 6:
                return list(depth - 1) +
                       pick({"|join", "|join(', ')", "|join('-')", "|map('string')|join('|')"});
            case 7:
                return "(" + text(depth - 1) + " * " + pick({"0", "1", "2", "-1"}) + ")";
            default:
                return "(" + literal() + " % " +
                       pick({"n", "(1, 's')", "x", "d", "('a',)", "()", "l"}) + ")";
        }
    }

    std::string text_filter(int depth) {
        switch (random_.below(4)) {
            case 0:
                return pick({"|upper", "|lower", "|title", "|capitalize", "|trim", "|e", "|escape",
                             "|safe", "|string", "|reverse", "|urlencode", "|forceescape"});
            case 1:
                return "|replace(" + text(depth - 2) + ", " + text(depth - 2) +
                       pick({"", ", 1", ", count=2"}) + ")";
            case 2:
                return pick({"|indent", "|indent(2)", "|indent(2, true)",
                             "|indent(width=1, first=true, blank=true)", "|indent('> ')",
                             "|truncate(9)", "|truncate(8, true, '')", "|center(20)",
                             "|trim('dH ')", "|default('z')", "|default('z', true)"});
            default:
                return pick({"|format(n, s)", "|list|join('.')", "|batch(2)|map('join')|join('/')",
                             "|unique|join", "|sort|join", "|first", "|last",
                             "|select('in', 'aeiou')|join"});
        }
    }

    std::string text_method(int depth) {
        switch (random_.below(5)) {
            case 0:
                return pick({".upper()", ".lower()", ".title()", ".capitalize()", ".strip()",
                             ".lstrip()", ".rstrip()", ".swapcase()", ".strip('H d')"});
            case 1:
                return ".replace(" + literal() + ", " + text(depth - 2) + ")";
            case 2:
                return pick({".split()[0]", ".split('l')[-1]", ".split(',', 1)[1]",
                             ".rsplit(None, 1)[0]", ".partition('l')[2]", ".rpartition('o')[0]",
                             ".splitlines()[0]", ".rsplit('l', 1)[0]"});
            case 3:
                return pick({".ljust(14, '.')", ".rjust(14)", ".center(15, '*')", ".zfill(14)",
                             ".removeprefix('He')", ".removesuffix('ld')", ".join(ls)",
                             ".casefold()"});
            default:
                return pick({".format(n)", ".format(n, s)", ".format()"});
        }
    }

    std::string slice() {
        std::string out = (one_in(2) ? integer() : "") + ":" + (one_in(2) ? integer() : "");
        if (one_in(3)) out += ":" + pick({"1", "2", "-1", "-2", "0", "3"});
        return out;
    }

    std::string list(int depth) {
        if (depth <= 0 || one_in(4))
            return pick({"l", "ls", "el", "nested", "mixed", "users", "[1, 2.0, 'a']", "[]",
                         "(1, 2)", "('a',)", "range(4)", "messages"});
        switch (random_.below(9)) {
            case 0:
                return "(" + list(depth - 1) + " + " + list(depth - 1) + ")";
            case 1:
                return list(depth - 1) + "[" + slice() + "]";
            case 2:
                return list(depth - 1) + list_filter(depth) + "|list";
            case 3:
                return dict(depth - 1) +
                       pick({"|list", ".items()|list", ".keys()|list", ".values()|list",
                             "|dictsort", "|items|list", "|dictsort(true)",
                             "|dictsort(false, 'value')", "|dictsort(reverse=true)"});
            case 4:
                return text(depth - 1) +
                       pick({".split()", ".split('l')", ".split(' ', 1)", ".splitlines()", "|list",
                             ".rsplit(',')", ".partition(' ')", ".split(',')",
                             ".splitlines(true)"});
            case 5:
                return "[" + any(depth - 1) + ", " + any(depth - 1) + "]";
            case 6:
                return "(" + any(depth - 1) + ", " + any(depth - 1) + ")";
            case 7:
                return "(" + list(depth - 1) + " * " + pick({"0", "1", "2"}) + ")";
            default:
                return "users" +
                       pick({"|map(attribute='name')|list", "|selectattr('admin')|list",
                             "|selectattr('age', 'eq', 31)|map(attribute='name')|list",
                             "|rejectattr('admin', 'defined')|list",
                             "|sort(attribute='age,name')|map(attribute='name')|list",
                             "|groupby('age')|list", "|map(attribute='tags', default=[])|list",
                             "|sum(attribute='age')", "|map(attribute='age')|unique|list",
                             "|min(attribute='age')", "|max(attribute='name')",
                             "|sort(attribute='name', reverse=true)|map(attribute='name')|list",
                             "|selectattr('tags', 'defined')|list"});
        }
    }

    std::string list_filter(int depth) {
        switch (random_.below(5)) {
            case 0:
                return pick({"|sort", "|reverse", "|unique", "|list", "|sort(reverse=true)",
                             "|sort(case_sensitive=true)"});
            case 1:
                return pick({"|map('upper')", "|map('string')", "|map('length')",
                             "|map('default', 'q')", "|map('abs')", "|map('tojson')", "|map('int')",
                             "|map('first')"});
            case 2:
                return pick({"|select", "|reject", "|select('odd')", "|reject('none')",
                             "|select('string')", "|select('defined')", "|select('gt', 1)",
                             "|reject('in', [1, 'a'])", "|select('number')", "|reject('mapping')"});
            case 3:
                return pick({"|batch(2)", "|batch(2, 'f')", "|slice(2)", "|slice(3, 0)"});
            default:
                return "|default(" + any(depth - 2) + ", true)";
        }
    }

    std::string dict(int depth) {
        if (depth <= 0 || one_in(2))
            return pick({"d", "ed", "deep", "users[0]", "{'a': 1, 'b': 2.5}", "{}",
                         "{1: 'x', none: 'y', true: 3}", "dict(a=1, b='z')", "messages[2]"});
        return "{" + literal() + ": " + any(depth - 1) + ", " +
               pick({"1", "'k'", "2.0", "none", "(1, 2)"}) + ": " + any(depth - 1) + "}";
    }

    std::string truth(int depth) {
        if (depth <= 0) return pick({"yes", "no", "true", "False"});
        switch (random_.below(7)) {
            case 0:
                return "(" + number(depth - 1) + " " + pick({"<", "<=", ">", ">=", "==", "!="}) +
                       " " + number(depth - 1) + ")";
            case 1:
                return "(" + any(depth - 1) + " " + pick({"==", "!=", "in", "not in", "<"}) + " " +
                       any(depth - 1) + ")";
            case 2:
                return "(" + any(depth - 1) + " is " + pick({"", "not "}) +
                       pick({"defined",   "none",      "string",        "mapping",
                             "iterable",  "sequence",  "number",        "integer",
                             "float",     "boolean",   "true",          "false",
                             "undefined", "callable",  "lower",         "upper",
                             "odd",       "even",      "divisibleby 2", "divisibleby(3)",
                             "eq(1)",     "in [1, 2]", "sameas true",   "gt 1",
                             "escaped",   "== 2"}) +
                       ")";
            case 3:
                return "(" + any(depth - 1) + " " + pick({"and", "or"}) + " " + any(depth - 1) +
                       ")";
            case 4:
                return "(not " + any(depth - 1) + ")";
            case 5:
                return "(" + number(depth - 1) + " < " + number(0) + " <= " + number(0) + ")";
            default:
                return text(depth - 1) +
                       pick({".startswith('H')", ".endswith('d')", ".isdigit()", ".isalpha()",
                             ".isupper()", ".islower()", ".isspace()", ".isalnum()",
                             ".startswith(('a', 'H'))", ".startswith('l', 2)"});
        }
    }

    std::string space() { return pick({"", "", " ", "\n", "\n  ", "text", " a \n b ", "  \n\n"}); }
    std::string open() { return pick({"{% ", "{% ", "{%- ", "{%+ "}); }
    std::string close() { return pick({" %}", " %}", " -%}", " +%}"}); }
    std::string tag(const std::string& body) { return open() + body + close(); }

    std::string print(int depth) {
        const std::string conditional =
            one_in(6) ? " if " + truth(1) + (one_in(2) ? " else " + any(1) : "") : "";
        return pick({"{{ ", "{{ ", "{{- "}) + any(depth) + conditional +
               pick({" }}", " }}", " -}}"});
    }

    std::string body(int depth) { return space() + statement(depth - 1) + space(); }

    std::string statement(int depth) {
        if (depth <= 0 || one_in(3)) return space() + print(3) + space();
        switch (random_.below(11)) {
            case 0:
                return tag("if " + any(2)) + body(depth) +
                       (one_in(2) ? tag("elif " + truth(2)) + body(depth) : "") +
                       (one_in(2) ? tag("else") + body(depth) : "") + tag("endif");
            case 1:
                return tag("for i in " + list(2)) + body(depth) + "{{ i }}{{ loop." +
                       pick({"index", "index0", "first", "last", "length", "revindex", "revindex0",
                             "previtem", "nextitem", "cycle('a', 'b')", "depth", "changed(1)"}) +
                       " }}" + tag("endfor");
            case 2:
                return tag("for k, v in " + dict(1) + ".items()") + "{{ k }}={{ v }}" + space() +
                       tag("endfor");
            case 3:
                return tag("for i in " + list(1) + " if " +
                           pick({"i", "not i", "i is string", "i != 1", "i is defined and i"})) +
                       "{{ i }}," + tag("else") + "none" + tag("endfor");
            case 4:
                return tag("set v = " + any(2)) + body(depth) + "{{ v }}" +
                       tag("set v = " + any(1)) + "{{ v }}";
            case 5:
                return tag("set v" + pick({"", "", " | upper", " | trim | length"})) + body(depth) +
                       tag("endset") + "[{{ v }}]";
            case 6:
                return tag("set ns = namespace(a=" + any(1) + ", c=0)") +
                       tag("for i in " + list(1)) + tag("set ns.c = ns.c + 1") +
                       tag("set ns.a = i") + tag("endfor") + "{{ ns.a }}{{ ns.c }}";
            case 7:
                return tag("macro m(a, b=" + any(1) + ", c='z')") + body(depth) +
                       "<{{ a }}|{{ b }}|{{ c }}>" +
                       pick({"", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}"}) +
                       tag("endmacro") + "{{ m(" +
                       pick({"", "1", any(1), "1, 2, 3", "a=1", "1, c=2", "1, 2, 3, 4", "z=3", "*l",
                             "**d"}) +
                       ") }}";
            case 8:
                return tag("filter " + pick({"upper", "trim", "replace('a', 'b')", "indent(2)",
                                             "length", "title"})) +
                       body(depth) + tag("endfilter");
            case 9:
                return tag("macro w(t)") + "[{{ caller(t) if caller else 'n' }}]" +
                       tag("endmacro") + tag("call(y) w(" + any(1) + ")") + body(depth) +
                       "{{ y }}" + tag("endcall");
            default:
                return pick(
                    {"{# note #}", "{#- note -#}", "{# a\n b #}\n",
                     "{% raw %} {{ x }} {% endraw %}", "{%- raw -%}\n {% if %} {%- endraw -%}\n",
                     "{% with a=1, b=n %}{{ a + b }}{% endwith %}",
                     "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 "
                     "%}{% break %}{% endif %}{{ i }}{% endfor %}",
                     "{% generation %}{% set g = 1 %}{{ g }}{% endgeneration %}{{ g }}",
                     "{% for m in messages recursive %}{{ loop.depth }}{% if m.tool_calls %}{{ "
                     "loop(m.tool_calls) }}{% endif %}{{ m.role }}{% endfor %}",
                     "{{ raise_exception('no ' ~ n) }}", "{% set a, b = l[:2] %}{{ a }}{{ b }}"});
        }
    }

    base::Random random_;
};

// What cannot be compared: addresses, and what we refuse (integers beyond 64 bits, complex
// numbers). An unknown filter is an error for us only when it is reached; jinja2 also looks into
// some branches that are not taken.
bool comparable(const OracleAnswer& oracle, const OracleAnswer& ours) {
    for (const char* part : {" at 0x", "<built-in", "<function", "<class", "<bound", "<generator",
                             "<Macro", "<list_rev", "reversed object"}) {
        if (oracle.output && oracle.output->find(part) != std::string::npos) return false;
    }
    if (oracle.error.starts_with("No filter named") || oracle.error.starts_with("No test named"))
        return false;
    return ours.error.find("64") == std::string::npos &&
           ours.error.find("fractional power") == std::string::npos;
}

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(TemplateOracle, RandomTemplatesPrintWhatJinja2Prints) {
    if (!have_oracle()) GTEST_SKIP() << "python3-jinja2 is not installed";
    const std::uint64_t first_seed = from_environment("HELIX_TEMPLATE_SEED", 1);
    const std::uint64_t count = from_environment("HELIX_TEMPLATE_COUNT", kSanitized ? 200 : 1000);
    std::vector<OracleJob> jobs;
    for (std::uint64_t i = 0; i < count; ++i)
        jobs.push_back({Generator(first_seed + i).make(), random_context()});
    const std::vector<OracleAnswer> answers = ask_oracle(jobs);
    ASSERT_EQ(answers.size(), jobs.size());
    std::uint64_t printed = 0;
    std::uint64_t differences = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const OracleAnswer ours = render_ours(jobs[i]);
        if (!comparable(answers[i], ours)) continue;
        printed += answers[i].output ? 1u : 0u;
        const std::string different = difference(jobs[i], answers[i], ours);
        if (different.empty()) continue;
        ADD_FAILURE() << "HELIX_TEMPLATE_SEED=" << first_seed + i << " HELIX_TEMPLATE_COUNT=1\n"
                      << different.substr(0, different.find("\ncontext: "));
        if (++differences == 25) break;
    }
    EXPECT_GT(printed, count / 4) << "the generator makes too many templates that only raise";
}

}  // namespace

}  // namespace helix::text::template_random_test
