#!/usr/bin/env python3
"""The alerts and the dashboard of examples/monitoring: promtool takes and tests the alerts; every name in them and in the
dashboard is one that a server tells; a Prometheus with the shipped configuration collects it with a key and can evaluate all.

usage: monitoring_test.py alerts WORK_FOLDER
       monitoring_test.py metrics WORK_FOLDER HELIX MODEL

Prometheus is the one on the PATH, or Debian's, unpacked into WORK_FOLDER and not installed, so that no service starts. Exits
77 (skipped) where there is neither.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "monitoring"
sys.path.insert(0, str(HERE.parent / "chaos"))
import cluster as processes  # noqa: E402

KEY = "a-key-for-prometheus"
# What Prometheus itself adds.
ADDED_SERIES = {"up"}
ADDED_LABELS = {"job", "instance"}
WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "offset", "bool"}


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def check(condition, what):
    if not condition:
        raise SystemExit(what)


def prometheus_program(work, name):
    """The path of prometheus or promtool."""
    found = shutil.which(name)
    if found:
        return found
    unpacked = pathlib.Path(work) / "usr" / "bin" / name
    if not unpacked.exists():
        os.makedirs(work, exist_ok=True)
        got = subprocess.run(["apt-get", "download", "prometheus"], cwd=work, check=False, capture_output=True, text=True) \
            if shutil.which("apt-get") else None
        debs = list(pathlib.Path(work).glob("prometheus_*.deb"))
        if got is None or got.returncode != 0 or len(debs) != 1:
            skip(f"no {name}, and Debian's package prometheus cannot be had")
        subprocess.run(["dpkg-deb", "-x", debs[0].name, "."], cwd=work, check=True)
        debs[0].unlink()
    return str(unpacked)


def names_in(expression):
    """The series and the labels that a PromQL expression names."""
    labels = set()

    def take_labels(match):
        labels.update(re.findall(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)", match.group(0)))
        return ""

    rest = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    rest = re.sub(r"\{[^}]*\}", take_labels, rest)
    rest = re.sub(r"\[[^\]]*\]", "", rest)
    for grouped in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", rest):
        labels.update(re.findall(r"\w+", grouped))
    rest = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", rest)
    series = {name for name, call in re.findall(r"(?<![\w.])([a-zA-Z_:][\w:]*)(\s*\()?", rest) if not call and name not in WORDS}
    return series, labels


def expressions():
    """Where each expression stands, and the expression."""
    rules = (EXAMPLES / "alerts.yml").read_text(encoding="utf-8")
    found = []
    for part in re.split(r"(?m)^ *- alert: ", rules)[1:]:
        expression = re.search(r"(?ms)^ +expr: (?:>-\n)?(.*?)\n +(?:for|labels):", part).group(1)
        found.append((f"alert {part.split()[0]}", " ".join(expression.split())))
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        found += [(f"panel {panel['title']}", target["expr"]) for target in panel.get("targets", ())]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found.append((f"variable {variable['name']}", re.fullmatch(r"label_values\((\w+), \w+\)", variable["definition"]).group(1)))
    return found


def legend_labels():
    """The labels that the dashboard's legends name, with where."""
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))
    return [(f"legend of {panel['title']}", label) for panel in dashboard["panels"] for target in panel.get("targets", ())
            for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"])]


def served(text):
    """The series and labels of a page of metrics."""
    series, labels = set(), set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series.add(re.match(r"[\w:]+", line).group(0))
            labels.update(re.findall(r'[{,](\w+)="', line))
    return series, labels


def unknown_names(text):
    series, labels = served(text)
    series, labels = series | ADDED_SERIES, labels | ADDED_LABELS
    found = []
    for where, expression in expressions():
        named, grouped = names_in(expression)
        check(named, f"{where} names no series: {expression}")
        found += [f"{where}: no series {name}" for name in sorted(named - series)]
        found += [f"{where}: no label {name}" for name in sorted(grouped - labels)]
    return found + [f"{where}: no label {label}" for where, label in legend_labels() if label not in labels]


def check_dashboard():
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))
    check(dashboard["id"] is None and dashboard["uid"], "the dashboard has an id of one Grafana, or no uid")
    ids = [panel["id"] for panel in dashboard["panels"]]
    check(len(ids) == len(set(ids)), "panels share an id")
    cells = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        check(at["x"] + at["w"] <= 24 and not own & cells, f"panel {panel['title']} lies over another one, or beside the page")
        cells |= own
        for part in [panel, *panel.get("targets", ())]:
            if panel["type"] != "row":
                check(part["datasource"]["uid"] == "${datasource}", f"panel {panel['title']} asks another data source")
    print(len(ids), "panels")


def alerts(work):
    promtool = prometheus_program(work, "promtool")
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"],
                    ["check", "config", "--syntax-only", "prometheus.yml"]):
        done = subprocess.run([promtool, *command], cwd=EXAMPLES, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout)
        check(done.returncode == 0, f"promtool {command} failed")
    tests = (EXAMPLES / "alerts_test.yml").read_text(encoding="utf-8")
    for name in re.findall(r"(?m)^ *- alert: (\w+)", (EXAMPLES / "alerts.yml").read_text(encoding="utf-8")):
        check(re.search(rf'alertname(: |="){name}\b', tests), f"no test of the alert {name}")
    check_dashboard()


@contextlib.contextmanager
def running(command, log, **options):
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def get(url, headers=None, body=None):
    request = urllib.request.Request(url, body, headers or {})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def wait_for(url, condition, what, log):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError, OSError):
            if condition(get(url)):
                return
        time.sleep(0.1)
    raise SystemExit(f"{what}: {pathlib.Path(log).read_text(encoding='utf-8')[-2000:]}")


def query(base, expression):
    answer = json.loads(get(f"{base}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    check(answer["status"] == "success", f"{expression}: {answer}")
    return answer["data"]["result"]


def metrics(work, helix, model):
    check(names_in('sum by (le, a) (rate(x:y_bucket{b=~"c{d"}[5m])) / on (e) up > 1e3 offset 5m')
          == ({"x:y_bucket", "up"}, {"le", "a", "b", "e"}), "names are not read out of expressions as they should be")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, line in (("api.keys", f"alice {KEY}\n"), ("helix.key", KEY + "\n")):
            (folder / name).write_text(line, encoding="utf-8")
            (folder / name).chmod(0o600)
        port = processes.free_port()
        base = f"http://127.0.0.1:{port}"
        with running([helix, "serve", "--model", model, "--listen", f"127.0.0.1:{port}", "--memory", "300MB", "--threads", "1",
                      "--state-dir", folder / "state", "--api-key-file", folder / "api.keys"], folder / "helix.log"):
            wait_for(base + "/health/ready", lambda _: True, "the server is not ready", folder / "helix.log")
            authorised = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
            get(base + "/v1/chat/completions", authorised,
                json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}).encode())
            text = get(base + "/metrics", authorised)
            unknown = unknown_names(text)
            check(not unknown, "\n".join(unknown))
            # A series that is gone is noticed.
            check(unknown_names(re.sub(r"(?m)^helix_cluster_serving.*\n", "", text)), "a missing series is not noticed")
            print(len(expressions()), "expressions name what the server tells")
            collect(work, folder, port)


def rules_in(answer):
    return [rule for group in json.loads(answer)["data"]["groups"] for rule in group["rules"]]


def collect(work, folder, port):
    """A Prometheus with the shipped files, sooner than every 15 s, and every expression in it."""
    program = prometheus_program(work, "prometheus")
    config = (EXAMPLES / "prometheus.yml").read_text(encoding="utf-8")
    (folder / "prometheus.yml").write_text(config.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("15s", "1s"), encoding="utf-8")
    shutil.copy(EXAMPLES / "alerts.yml", folder)
    own = processes.free_port()
    base = f"http://127.0.0.1:{own}"
    log = folder / "prometheus.log"
    with running([program, "--config.file=prometheus.yml", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{own}"],
                 log, cwd=folder):
        wait_for(base + "/-/ready", lambda _: True, "prometheus is not ready", log)
        wait_for(f"{base}/api/v1/query?query=" + urllib.parse.quote('up{job="helix"} == 1'),
                 lambda said: json.loads(said)["data"]["result"], "prometheus collects nothing", log)
        wait_for(f"{base}/api/v1/query?query=" + urllib.parse.quote("count_over_time(helix_cluster_serving[1m]) > 2"),
                 lambda said: json.loads(said)["data"]["result"], "prometheus collects once only", log)
        empty = []
        for where, expression in expressions():
            expression = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
            if not query(base, expression) and where.startswith("panel"):
                empty.append(where)
        # Ratios of nothing and moves that there were none of have no value.
        check(set(empty) <= {"panel Prefix cache", "panel Moves"}, f"panels without a value: {empty}")
        wait_for(base + "/api/v1/rules", lambda said: [] != rules_in(said) and all(rule["health"] == "ok" for rule in rules_in(said)),
                 "the alerts cannot be evaluated", log)
        print("prometheus collected; all alerts and panels have been evaluated")


if __name__ == "__main__":
    {"alerts": alerts, "metrics": metrics}[sys.argv[1]](*sys.argv[2:])
